// SPDX-License-Identifier: GPL-2.0
// A child that has this process's files: one of a render node, with two BOs in VRAM.
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/criu_program.h"

namespace amdgpu_criu::testing_support {

class ChildTest : public HooksTest {
 protected:
  explicit ChildTest(uint64_t bo_bytes) : bo_bytes_(bo_bytes) {}
  void SetUp() override {
    HooksTest::SetUp();
    render_ = open(kRenderPath);
    auto& fake = state_.renders.emplace_back();
    fake.file = std::move(*render_.duplicate());
    for (uint64_t id = 1; id <= 2; id++) {
      const kernel::Bo bo = vram_bo(id, bo_bytes_ * id, id * kOffset);
      fake.bos.push_back(bo);
      // The child has the memory of the fakes: descriptors of dma-bufs.
      add_object(state_, bo, 1);
      state_.exported[id] = bo;
    }
    start_child();
  }
  void TearDown() override {
    end_child();
    HooksTest::TearDown();
  }
  void start_child() {
    child_ = fork();
    if (child_ == 0) ::pause(), _exit(0);
  }
  void end_child() const {
    syscall(SYS_kill, child_, SIGKILL);  // kill() is not libc's here
    waitpid(child_, nullptr, 0);
  }

  static constexpr uint64_t kOffset = 1ull << 32;  // of the mapping of the first BO
  const uint64_t bo_bytes_;                        // of the first BO; the second has twice as many
  Fd render_;
  pid_t child_ = 0;
};

}  // namespace amdgpu_criu::testing_support
