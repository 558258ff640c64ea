// SPDX-License-Identifier: GPL-2.0
// A command line of criu, and the reason for each option that was chosen.
#pragma once

#include <string>
#include <vector>

#include "snapshot/program.h"

namespace amdgpu_criu::snapshot {

class CriuCommand {
 public:
  // criu: the program; verb: dump or restore
  CriuCommand(std::string criu, std::string verb);

  // Without a reason: an option that the snapshot consists of, as -D.
  void add(std::string option, std::string value = {}, std::string why = {});
  // An option of the plugin, by the environment, which all versions of CRIU have. The user's own
  // environment has precedence.
  void set(const std::string& name, const std::string& value);
  // The user's own options, as words of the command line. They replace ours of the same name.
  void override_with(const std::vector<std::string>& words);
  // Takes out what was chosen here.
  Status leave_out(const std::vector<std::string>& options);

  Program program() const;
  // "--link-remap: process 7 (job) has the file ...", for each option with a reason.
  std::vector<std::string> reasons() const;

 private:
  struct Option {
    std::string name, value, why;
  };
  std::string criu_, verb_;
  std::vector<Option> options_;
  std::vector<std::string> others_;  // the user's
  Variables variables_;
};

}  // namespace amdgpu_criu::snapshot
