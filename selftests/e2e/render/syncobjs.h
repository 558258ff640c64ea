// SPDX-License-Identifier: GPL-2.0
// Syncobjs in every state, and a thread that always waits for one.
#pragma once

#include <pthread.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "render/device.h"

namespace e2e {

class SyncSet {
 public:
  static amdgpu_criu::Result<std::unique_ptr<SyncSet>> create(const RenderDevice& device);
  SyncSet(const SyncSet&) = delete;
  SyncSet& operator=(const SyncSet&) = delete;
  // Ends the thread.
  ~SyncSet();
  // Also wakes the waiting thread, once.
  amdgpu_criu::Status check(std::vector<std::string>& problems);

 private:
  SyncSet(SyncObject signaled, SyncObject unsignaled, SyncObject timeline, SyncObject gate)
      : signaled_(std::move(signaled)),
        unsignaled_(std::move(unsignaled)),
        timeline_(std::move(timeline)),
        gate_(std::move(gate)) {}
  amdgpu_criu::Status start();
  void wait_at_gate();

  SyncObject signaled_, unsignaled_, timeline_, gate_;
  uint64_t last_point_ = 0;
  uint64_t passes_wanted_ = 0;
  std::atomic<uint64_t> passes_ = 0;
  std::atomic<bool> stop_ = false, failed_ = false;
  std::atomic<bool> armed_ = false;  // the gate was reset, the thread may wait again
  amdgpu_criu::Mapping stack_;
  std::optional<pthread_t> thread_;
};

}  // namespace e2e
