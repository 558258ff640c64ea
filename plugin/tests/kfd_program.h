// SPDX-License-Identifier: GPL-2.0
// A process that uses /dev/kfd, for tests of the hooks.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/criu_program.h"

namespace amdgpu_criu::testing_support {

inline constexpr uint64_t kOffset = 0x10000;  // that it maps of its render node
inline constexpr int kKfdId = 0x21;
inline constexpr int kRenderId = 0x22;
inline constexpr uint64_t kBytes = 4096ull * (5 + 10 + 15);  // of VRAM

// Has /dev/kfd, a render node and a mapping of it.
class KfdProgramTest : public HooksTest {
 protected:
  void SetUp() override {
    HooksTest::SetUp();
    kfd_ = open(kKfdPath);
    render_ = open(kRenderPath);
    vma_ = std::move(*Mapping::map(8192, PROT_READ, MAP_PRIVATE, render_.get(), kOffset));
  }

  // Like CRIU, stops at the first error, and calls exit in any case.
  int dump() {
    int result = start(criu::kStageDump);
    if (result == 0) result = dump_hooks();
    end(criu::kStageDump, result);
    return result;
  }
  int dump_hooks() {
    if (int r = pause(getpid())) return r;
    struct stat status;
    fstat(render_.get(), &status);
    if (int r = call<criu::HandleDeviceVma>(criu::kHandleDeviceVma, render_.get(), &status))
      return r;
    if (int r = dump_file(render_, kRenderId)) return r;
    return dump_file(kfd_, kKfdId);
  }

  Fd kfd_, render_;
  Mapping vma_;
};

// In a kernel with the series.
class KfdHooksTest : public KfdProgramTest {
 protected:
  void SetUp() override {
    KfdProgramTest::SetUp();
    // Only the file whose VM KFD uses is carried of the render node.
    state_.features = AMDGPU_CRIU_FEATURE_KFD;
    state_.pid = getpid();
    state_.devices = {{kGpu, kGpu, render_.get()}};
    state_.blob = {std::byte{'b'}, std::byte{'l'}};
    for (uint64_t id = 1; id <= 3; id++)
      add_kfd_object(state_,
                     vram_bo(id, 4096 * (5 * id), id == 1 ? kOffset : kOffset + id * 0x100000), id);
  }
};

}  // namespace amdgpu_criu::testing_support
