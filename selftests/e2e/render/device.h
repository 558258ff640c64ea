// SPDX-License-Identifier: GPL-2.0
// One open file of a render node with its BOs, contexts, syncobjs and submissions. Only device.cc
// and files that include this header use libdrm.
#pragma once

#include <amdgpu.h>
#include <amdgpu_drm.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace e2e {

constexpr uint64_t kGpuPage = 4096;
constexpr uint64_t kReadWrite =
    AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE;

// libdrm returns negated errno values.
amdgpu_criu::Status checked(int result, const std::string& what);

class RenderDevice {
 public:
  static amdgpu_criu::Result<RenderDevice> open(const std::string& path);
  static amdgpu_criu::Result<RenderDevice> adopt(amdgpu_criu::Fd fd, const std::string& path);

  int fd() const { return fd_.get(); }
  amdgpu_device_handle get() const { return device_.get(); }
  // A command of this driver, or of DRM; errno becomes a Status.
  amdgpu_criu::Status command(unsigned long index, void* argument, size_t size,
                              const char* what) const;
  amdgpu_criu::Status call(unsigned long request, void* argument, const char* what) const;
  // AMDGPU_VA_OP_*; handle 0 for PRT and CLEAR.
  amdgpu_criu::Status change_map(uint32_t handle, uint32_t operation, uint64_t va, uint64_t offset,
                                 uint64_t size, uint64_t flags = kReadWrite) const;

 private:
  struct Closer {
    void operator()(amdgpu_device* device) const { amdgpu_device_deinitialize(device); }
  };
  amdgpu_criu::Fd fd_;
  std::unique_ptr<amdgpu_device, Closer> device_;
};

// Paths of the render nodes of this driver, in the order of their minors.
amdgpu_criu::Result<std::vector<std::string>> list_render_nodes();

// Addresses of the file's VM, from libdrm's allocator.
class VaRange {
 public:
  static amdgpu_criu::Result<VaRange> reserve(const RenderDevice& device, uint64_t size);
  uint64_t start() const { return start_; }

 private:
  struct Freer {
    void operator()(amdgpu_va* range) const { amdgpu_va_range_free(range); }
  };
  std::unique_ptr<amdgpu_va, Freer> range_;
  uint64_t start_ = 0;
};

struct RenderBoSpec {
  const char* label;
  uint32_t domains;
  uint64_t flags;
  uint64_t size;
  uint64_t alignment = kGpuPage;
};

class RenderBo {
 public:
  static amdgpu_criu::Result<RenderBo> create(const RenderDevice& device, const RenderBoSpec& spec);
  // AMDGPU_GEM_USERPTR_*, over fresh anonymous memory.
  static amdgpu_criu::Result<RenderBo> create_userptr(const RenderDevice& device, uint64_t size,
                                                      uint32_t flags);
  static amdgpu_criu::Result<RenderBo> import(const RenderDevice& device,
                                              const amdgpu_criu::Fd& dmabuf);
  RenderBo(RenderBo&& other) noexcept;
  RenderBo& operator=(RenderBo&&) = delete;
  ~RenderBo();

  // At an address of its own; the BO's destructor unmaps it.
  amdgpu_criu::Status map_for_gpu();
  amdgpu_criu::Status map_for_cpu();
  // Of mmap() of the node.
  amdgpu_criu::Result<uint64_t> mmap_offset() const;
  amdgpu_criu::Result<amdgpu_criu::Fd> export_dmabuf() const;

  uint32_t handle() const { return handle_; }
  uint64_t size() const { return size_; }
  uint64_t va() const { return range_.start(); }
  // Empty without a CPU mapping.
  std::span<std::byte> bytes() const { return cpu_.bytes(); }
  template <typename T>
  T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(cpu_.data() + offset);
  }

 private:
  explicit RenderBo(const RenderDevice& device) : device_(&device) {}
  static amdgpu_criu::Result<RenderBo> adopt(const RenderDevice& device, amdgpu_bo_handle bo);

  const RenderDevice* device_;
  amdgpu_bo_handle bo_ = nullptr;  // none for a userptr, which libdrm cannot make read-only
  uint32_t handle_ = 0;
  uint64_t size_ = 0;
  VaRange range_;
  bool mapped_ = false;
  amdgpu_criu::Mapping cpu_;
};

// Identifies a submission, to wait for it.
struct RenderFence {
  uint32_t ip = 0;
  uint32_t ring = 0;
  uint64_t number = 0;
};

// A point of a timeline syncobj; 0: a binary one.
struct SyncPoint {
  uint32_t syncobj;
  uint64_t point;
};

class RenderContext;

struct Dependency {
  const RenderContext* context;
  RenderFence fence;
};

struct Submission {
  uint32_t ip = AMDGPU_HW_IP_DMA;
  uint32_t ring = 0;
  uint64_t ib = 0;
  uint32_t ib_bytes = 0;
  uint32_t bo_list = 0;               // either a list
  std::span<const uint32_t> handles;  // or GEM handles
  std::vector<Dependency> after = {};
  std::vector<SyncPoint> wait = {};
  std::vector<SyncPoint> signal = {};
};

class RenderContext {
 public:
  static amdgpu_criu::Result<RenderContext> create(const RenderDevice& device,
                                                   int priority = AMDGPU_CTX_PRIORITY_NORMAL);
  amdgpu_criu::Result<RenderFence> submit(const Submission& submission) const;
  // Does not wait.
  amdgpu_criu::Result<bool> is_done(const RenderFence& fence) const;
  amdgpu_criu::Status wait(const RenderFence& fence, unsigned timeout_ms) const;
  // ENODATA if the GPU was reset.
  amdgpu_criu::Status check_alive() const;
  uint32_t id() const;

 private:
  struct Freer {
    void operator()(amdgpu_context* context) const { amdgpu_cs_ctx_free(context); }
  };
  amdgpu_cs_fence named(const RenderFence& fence) const;

  const RenderDevice* device_ = nullptr;
  std::unique_ptr<amdgpu_context, Freer> context_;
};

class SyncObject {
 public:
  static amdgpu_criu::Result<SyncObject> create(const RenderDevice& device, bool signaled = false);
  // The same object in another file.
  static amdgpu_criu::Result<SyncObject> import(const RenderDevice& device,
                                                const amdgpu_criu::Fd& fd);
  SyncObject(SyncObject&& other) noexcept
      : device_(other.device_), handle_(std::exchange(other.handle_, 0)) {}
  SyncObject& operator=(SyncObject&&) = delete;
  ~SyncObject();

  uint32_t handle() const { return handle_; }
  amdgpu_criu::Result<amdgpu_criu::Fd> export_fd() const;
  amdgpu_criu::Status signal() const;
  amdgpu_criu::Status signal(uint64_t point) const;
  amdgpu_criu::Status reset() const;
  amdgpu_criu::Result<uint64_t> last_point() const;
  // True if a wait returns at once; point 0: of a binary one.
  amdgpu_criu::Result<bool> is_signaled(uint64_t point = 0) const;
  // Waits until it is signaled, even if nothing was submitted for it yet.
  amdgpu_criu::Status wait_forever() const;

 private:
  SyncObject(const RenderDevice& device, uint32_t handle) : device_(&device), handle_(handle) {}
  const RenderDevice* device_;
  uint32_t handle_;
};

class BoList {
 public:
  static amdgpu_criu::Result<BoList> create(const RenderDevice& device,
                                            std::span<const uint32_t> handles,
                                            uint32_t priority = 0);
  BoList(BoList&& other) noexcept
      : device_(other.device_), handle_(std::exchange(other.handle_, 0)) {}
  BoList& operator=(BoList&&) = delete;
  ~BoList();
  uint32_t handle() const { return handle_; }

 private:
  BoList(const RenderDevice& device, uint32_t handle) : device_(&device), handle_(handle) {}
  const RenderDevice* device_;
  uint32_t handle_;
};

}  // namespace e2e
