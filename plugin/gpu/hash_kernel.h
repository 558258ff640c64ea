// SPDX-License-Identifier: GPL-2.0
// The compiled kernel of each chip, and the commands that dispatch it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace amdgpu_criu::gpu {

// What the kernel's arguments are: kernels/blake3.cl.
struct HashArguments {
  uint64_t memory;
  uint64_t hashes;
  uint32_t memory_kib;
  uint32_t chunk_kib;
};

class HashKernel {
 public:
  // ip_version: of GC, as AMDGPU_INFO_HW_IP_INFO has it. ENOTSUP: there is none for that chip.
  static Result<HashKernel> find(uint32_t ip_version);

  // The code, as it lies in GPU memory, at an address that is a multiple of 4 KiB.
  std::span<const std::byte> image() const { return image_; }
  // PM4 that prepares dispatches of code at that address.
  void setup(uint64_t image_address, std::vector<uint32_t>& pm4) const;
  // PM4 of one dispatch: work-groups, and the address of its HashArguments.
  void dispatch(uint32_t groups, uint64_t arguments, std::vector<uint32_t>& pm4) const;

 private:
  friend struct HashKernelLoader;
  std::vector<std::byte> image_;
  uint64_t entry_ = 0;  // in the image
  uint32_t rsrc1_ = 0, rsrc2_ = 0, rsrc3_ = 0;
  uint32_t rsrc3_register_ = 0;
  unsigned arguments_at_ = 0;  // number of the user SGPR
  bool wave32_ = false;
};

}  // namespace amdgpu_criu::gpu
