// SPDX-License-Identifier: GPL-2.0
// The command line of `amdgpu-criu snapshot`.
#pragma once

#include <CLI/CLI.hpp>

#include "snapshot/snapshot.h"

namespace amdgpu_criu::snapshot {

class CommandLine {
 public:
  explicit CommandLine(CLI::App& app);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  bool is_chosen() const { return snapshot_->parsed(); }
  int run();

 private:
  void add_create();
  void add_restore();
  void add_readers();
  void add_criu(CLI::App& command, CriuOptions& options);
  // Returns the option of the timeout.
  CLI::Option* add_readiness(CLI::App& command, Readiness& readiness);

  CLI::App* snapshot_;
  CLI::App* create_ = nullptr;
  CLI::App* restore_ = nullptr;
  CLI::App* inspect_ = nullptr;
  CLI::App* verify_ = nullptr;
  CLI::App* list_ = nullptr;
  CreateOptions created_;
  RestoreOptions restored_;
  std::string directory_ = ".";
  bool json_ = false;
};

}  // namespace amdgpu_criu::snapshot
