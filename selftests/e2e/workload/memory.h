// SPDX-License-Identifier: GPL-2.0
// Gpu: one GPU with its VM acquired. Bo: memory at the same address for the CPU and its GPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "workload/kfd.h"

namespace e2e {

class Gpu {
 public:
  // Opens the render node and lets KFD acquire its VM.
  static amdgpu_criu::Result<Gpu> open(const Kfd& kfd, const GpuNode& node);

  uint32_t id() const { return node_.gpu_id; }
  const GpuNode& node() const { return node_; }
  int render_fd() const { return render_.get(); }

 private:
  Gpu(const GpuNode& node, amdgpu_criu::Fd render) : node_(node), render_(std::move(render)) {}
  GpuNode node_;
  amdgpu_criu::Fd render_;
};

// Splits the mapping; the same pages stay mapped in the same way.
amdgpu_criu::Status split_mapping(std::span<std::byte> range);

// The domain for a BO that all of them use: VRAM, or GTT if a GPU cannot access the others' VRAM.
Domain shared_vram(std::span<const Gpu* const> gpus);

struct BoSpec {
  Domain domain;
  uint64_t size;
  bool cpu_visible = true;
  bool coherent = false;
};

class Bo {
 public:
  // Allocates on `owner` and maps on `owner` and on all of `peers`.
  static amdgpu_criu::Result<Bo> create(const Kfd& kfd, const Gpu& owner,
                                        std::span<const Gpu* const> peers, const BoSpec& spec);
  // A queue's doorbells, or the HDP flush page: CPU access through the KFD file. With own pages
  // there is only the mapping, and no BO.
  static amdgpu_criu::Result<Bo> create_special(const Kfd& kfd, const Gpu& owner, Domain domain,
                                                uint64_t size, uint64_t mmap_offset);
  Bo(Bo&& other) noexcept;
  Bo& operator=(Bo&&) = delete;
  ~Bo();

  // For a BO that KFD refuses to free: it is freed with the process.
  void keep_until_exit() { keep_ = true; }

  uint64_t va() const { return reinterpret_cast<uint64_t>(range_.data()); }
  uint64_t size() const { return range_.size(); }
  uint64_t handle() const { return handle_; }
  Domain domain() const { return spec_.domain; }
  // False: no CPU mapping, bytes() must not be touched.
  bool cpu_visible() const { return spec_.cpu_visible; }
  std::span<std::byte> bytes() const { return range_.bytes(); }
  template <typename T>
  T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(range_.data() + offset);
  }

 private:
  Bo(const Kfd& kfd, amdgpu_criu::Mapping range, const BoSpec& spec)
      : kfd_(&kfd), range_(std::move(range)), spec_(spec) {}
  amdgpu_criu::Status allocate(const Gpu& owner, std::span<const Gpu* const> peers);
  amdgpu_criu::Status free();
  amdgpu_criu::Status map_for_cpu(int fd, uint64_t offset);

  const Kfd* kfd_;
  amdgpu_criu::Mapping range_;  // reserves the address range; CPU mappings replace its pages
  BoSpec spec_;
  uint64_t handle_ = 0;
  uint64_t mmap_offset_ = 0;
  bool keep_ = false;
  std::vector<uint32_t> mapped_on_;
};

}  // namespace e2e
