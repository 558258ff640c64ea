// SPDX-License-Identifier: GPL-2.0
// BOs of every kind that a file can have, each filled with its pattern, and the windows through
// which the GPU accesses them: several, of parts, over unbacked (PRT) ranges, replaced and cleared.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "render/stepper.h"
#include "workload/pattern.h"

namespace e2e {

// A BO list with a BO whose handle is closed; only the list holds it.
class ListedOnly {
 public:
  static amdgpu_criu::Result<ListedOnly> create(const RenderDevice& device);
  // A submission that names the list.
  amdgpu_criu::Status use(unsigned timeout_ms) const;

 private:
  ListedOnly(RenderContext context, RenderBo nops, BoList list)
      : context_(std::move(context)), nops_(std::move(nops)), list_(std::move(list)) {}
  RenderContext context_;
  RenderBo nops_;
  BoList list_;
};

// A range of GPU addresses and the memory behind it.
struct Window {
  uint64_t va;
  uint64_t size;
  size_t bo;        // index, or kUnbacked: reads as zeros
  uint64_t offset;  // of the BO
};
constexpr size_t kUnbacked = ~size_t{0};

class BufferSet {
 public:
  // many: the number of further BOs of one page, in one range of addresses.
  static amdgpu_criu::Result<std::unique_ptr<BufferSet>> create(const RenderDevice& device,
                                                                unsigned many);
  amdgpu_criu::Status fill(RenderCopier& copier);
  // Appends a line for everything that is wrong.
  amdgpu_criu::Status check(RenderCopier& copier, std::vector<std::string>& problems);

  unsigned count() const { return static_cast<unsigned>(buffers_.size() + special_.size()); }
  uint64_t bytes() const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Buffer {
    RenderBo bo;
    Pattern pattern;
    std::string label;
    bool always_valid;
  };

  explicit BufferSet(const RenderDevice& device) : device_(&device) {}
  amdgpu_criu::Status add_kinds();
  amdgpu_criu::Status add(const RenderBoSpec& spec, bool cpu);
  amdgpu_criu::Status add_userptrs();
  amdgpu_criu::Status add_special();
  amdgpu_criu::Status add_many(unsigned many);
  amdgpu_criu::Status make_holes();
  amdgpu_criu::Status add_windows();
  amdgpu_criu::Status add_unbacked();
  amdgpu_criu::Status set_metadata();
  amdgpu_criu::Status check_metadata(std::vector<std::string>& problems) const;
  amdgpu_criu::Status check_window(const Window& window, RenderCopier& copier,
                                   std::vector<std::string>& problems);
  amdgpu_criu::Status check_row(std::span<const Window> row, RenderCopier& copier,
                                std::vector<std::string>& problems);
  size_t row_of_pages(size_t first) const;
  amdgpu_criu::Status check_aliases(RenderCopier& copier, std::vector<std::string>& problems);
  size_t find(const char* label) const;
  // What a submission must name to use these windows.
  std::vector<uint32_t> handles(std::span<const Window> windows) const;
  amdgpu_criu::Status map(size_t bo, uint64_t va, uint64_t offset, uint64_t size,
                          uint64_t flags = kReadWrite);

  const RenderDevice* device_;
  std::vector<VaRange> ranges_;  // destroyed after the BOs that are mapped there
  std::vector<Buffer> buffers_;
  std::vector<RenderBo> special_;  // GWS, OA, doorbells: without contents
  std::vector<Window> windows_;
  std::unique_ptr<ListedOnly> listed_only_;
  std::vector<std::string> notes_;
};

}  // namespace e2e
