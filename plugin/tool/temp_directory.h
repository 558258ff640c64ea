// SPDX-License-Identifier: GPL-2.0
// A directory for files of a command, which is not left behind.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/interruption.h"

namespace amdgpu_criu::tool {

// Removed with its files, also by a signal that ends the command, unless it is kept. It may have no
// subdirectories.
class TempDirectory {
 public:
  // Its name is the prefix with six more characters.
  static Result<std::unique_ptr<TempDirectory>> create(const std::string& prefix);
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  ~TempDirectory() { remove(); }

  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }
  // Gives it another name.
  Status keep_as(const std::string& path);

 private:
  explicit TempDirectory(std::string path) : path_(std::move(path)) {}
  // Async-signal-safe.
  void remove() const;

  std::string path_;
  Fd fd_;
  std::atomic<bool> is_kept_ = false;
  AtSignal at_signal_{[this] { remove(); }};
};

}  // namespace amdgpu_criu::tool
