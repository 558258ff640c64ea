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
  static base::Result<std::unique_ptr<StopSignals>> create();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // stop is called at most once.
  void on_signal(std::function<void()> stop);

 private:
  StopSignals(base::Fd signals, base::Fd quit)
      : signals_(std::move(signals)), quit_(std::move(quit)) {}

  base::Fd signals_;
  base::Fd quit_;
  std::thread thread_;
};

}  // namespace gpu
