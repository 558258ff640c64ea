// SPDX-License-Identifier: GPL-2.0
// Removes the images of a dump that fails when the plugin can no longer do so.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/interruption.h"

namespace amdgpu_criu::dump {

// While it exists, a signal that ends CRIU outside of the plugin first removes the images of this
// dump, unless a dumped process has ended or is ending.
class DoomedImages {
 public:
  static Result<std::unique_ptr<DoomedImages>> create(int directory,
                                                      const std::vector<pid_t>& processes);
  DoomedImages(const DoomedImages&) = delete;
  DoomedImages& operator=(const DoomedImages&) = delete;

  // A process that writes images, which is killed first; null: there is none.
  void set_writer(const Pidfd* writer) { writer_ = writer; }
  // Signals have no effect any more: CRIU is going to kill the processes.
  void stop_watching() { at_signal_.reset(); }
  // False if a process has ended or is ending. Takes a while.
  bool all_continue() const;
  // Async-signal-safe.
  void remove() const;

 private:
  explicit DoomedImages(Fd directory) : directory_(std::move(directory)) {}
  bool end_writer() const;

  Fd directory_;
  std::vector<Pidfd> processes_;
  std::atomic<const Pidfd*> writer_ = nullptr;
  std::optional<AtSignal> at_signal_;
};

}  // namespace amdgpu_criu::dump
