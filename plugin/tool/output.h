// SPDX-License-Identifier: GPL-2.0
// Output of a command: results on stdout, progress on stderr.
#pragma once

#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/progress.h"

namespace amdgpu_criu::tool {

// Members are printed in the order in which they were added.
using Json = nlohmann::ordered_json;
// Bytes that are not UTF-8, such as in the name of a process, are printed as U+FFFD.
void print_json(const Json& value);

// The text without control characters, which terminals obey: any user chooses the names of
// processes and files.
std::string printable(std::string text);

// Writes a line with the reason to stderr. Returns `status`, with which the command ends.
int complain(int status, const std::string& reason);

// To be called first. Files that are opened later must not get the numbers of standard descriptors,
// to which results and messages are written.
void prepare_output();

// To be called last. Results that cannot be written, such as to a full disk, are an error, whatever
// the status was.
int finish_output(int status);

// One line that is overwritten on a terminal, and plain lines elsewhere.
class ProgressLine {
 public:
  ProgressLine(std::string what, uint64_t total_bytes);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  // Erases its line on a terminal.
  ~ProgressLine();

  void add(uint64_t bytes);

 private:
  std::string what_;
  bool terminal_;
  bool shown_ = false;
  Progress progress_;
};

}  // namespace amdgpu_criu::tool
