// SPDX-License-Identifier: GPL-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "gpu/drm.h"
#include "gpu/engine.h"

namespace amdgpu_criu::gpu {

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// A BO, or pages of this process, and the GPU address it is mapped at; undone in reverse.
class MappedBo : public Imported {
 public:
  static Result<std::unique_ptr<MappedBo>> create(amdgpu_device* device, DrmBo handle,
                                                  uint64_t size);
  // GTT of that many bytes, rounded up to whole pages.
  static Result<std::unique_ptr<MappedBo>> allocate(amdgpu_device* device, uint64_t bytes);
  // Whole pages, which must stay mapped. Unlike those of libdrm, they may be of a mapped file.
  static Result<std::unique_ptr<MappedBo>> of_pages(amdgpu_device* device,
                                                    std::span<const std::byte> pages, PageUse use);
  MappedBo(const MappedBo&) = delete;
  MappedBo& operator=(const MappedBo&) = delete;
  ~MappedBo() override;

  Result<std::span<std::byte>> map_for_cpu();
  uint32_t handle() const { return handle_; }  // of GEM
  uint64_t address() const { return address_; }
  uint64_t size() const { return size_; }
  bool is_writable() const { return writable_; }

 private:
  MappedBo(amdgpu_device* device, uint64_t size) : device_(device), size_(size) {}
  Status map(uint64_t access);
  Status change_mapping(uint64_t access, uint32_t operation);

  amdgpu_device* device_;
  DrmBo bo_;             // null: pages
  uint32_t handle_ = 0;  // that of the BO; else it is owned
  uint64_t size_;
  uint64_t address_ = 0;
  amdgpu_va_handle range_ = nullptr;
  bool mapped_ = false;
  bool writable_ = true;  // by the GPU
  void* cpu_ = nullptr;
};

}  // namespace amdgpu_criu::gpu
