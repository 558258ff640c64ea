// SPDX-License-Identifier: GPL-2.0
// Pages of a file in memory that is written, to which a GPU copies without a CPU.
#pragma once

#include <deque>
#include <memory>

#include "gpu/engine.h"
#include "pipeline/workers.h"

namespace amdgpu_criu::dump {

class PageWindows {
 public:
  // Of a window
  static constexpr uint64_t kWindow = 4u << 20;

  // file: a shared mapping of all of it
  PageWindows(gpu::Engine& engine, pipeline::Workers& workers, std::span<const std::byte> file);
  PageWindows(const PageWindows&) = delete;
  PageWindows& operator=(const PageWindows&) = delete;
  ~PageWindows() { stop(); }

  // The window with that place, which is never before an earlier one. Meanwhile workers prepare
  // those that follow: the kernel allocates their pages. After an error there are no more windows.
  Result<std::shared_ptr<const gpu::PageWindow>> at(uint64_t place);

 private:
  struct Prepared {
    pipeline::Workers::Batch batch;
    std::shared_ptr<gpu::PageWindow> window = std::make_shared<gpu::PageWindow>();
    Status result{};
  };
  void start(uint64_t number);
  void stop();

  gpu::Engine& engine_;
  pipeline::Workers& workers_;
  std::span<const std::byte> file_;
  std::deque<std::unique_ptr<Prepared>> prepared_;  // one after another in the file
};

}  // namespace amdgpu_criu::dump
