// SPDX-License-Identifier: GPL-2.0
// Delivers SIGTERM and SIGINT as a call from an ordinary thread.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "base/fd.h"
#include "base/result.h"

namespace gpu {

class StopSignals {
 public:
  // Blocks both signals in the calling thread: create it before other threads start.
  static amdgpu_criu::Result<std::unique_ptr<StopSignals>> create();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // stop is called at most once.
  void on_signal(std::function<void()> stop);

 private:
  StopSignals(amdgpu_criu::Fd signals, amdgpu_criu::Fd quit)
      : signals_(std::move(signals)), quit_(std::move(quit)) {}

  amdgpu_criu::Fd signals_;
  amdgpu_criu::Fd quit_;
  std::thread thread_;
};

}  // namespace gpu
