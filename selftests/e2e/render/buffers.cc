// SPDX-License-Identifier: GPL-2.0
#include "render/buffers.h"

#include <algorithm>
#include <cstring>

namespace e2e {

using amdgpu_criu::Error;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

namespace {

constexpr uint64_t kKib = 1 << 10, kMib = 1 << 20;
constexpr uint32_t kVram = AMDGPU_GEM_DOMAIN_VRAM, kGtt = AMDGPU_GEM_DOMAIN_GTT;
constexpr uint64_t kVisible = AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED;
constexpr uint64_t kHidden = AMDGPU_GEM_CREATE_NO_CPU_ACCESS;
constexpr uint64_t kAlwaysValid = AMDGPU_GEM_CREATE_VM_ALWAYS_VALID;
constexpr uint64_t kExtCoherent = 1ull << 15;

struct Kind {
  RenderBoSpec spec;
  bool cpu;  // the workload maps it
};

// Sizes differ, so that exchanged BOs are detected.
constexpr Kind kKinds[] = {
    {{"vram", kVram, 0, 516 * kKib}, true},
    {{"vram, visible", kVram, kVisible, 260 * kKib}, true},
    {{"vram, hidden", kVram, kHidden, 1 * kMib}, false},
    {{"vram or gtt", kVram | kGtt, 0, 132 * kKib}, true},
    {{"vram, always valid", kVram, kAlwaysValid, 3 * kMib + 4 * kKib}, true},
    {{"vram, always valid, hidden", kVram, kAlwaysValid | kHidden, 268 * kKib}, false},
    {{"vram, discardable", kVram, AMDGPU_GEM_CREATE_DISCARDABLE, 272 * kKib, 64 * kKib}, true},
    {{"vram, cleared", kVram, AMDGPU_GEM_CREATE_VRAM_CLEARED, 20 * kKib}, true},
    {{"vram, wiped", kVram, AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE, 24 * kKib}, true},
    {{"vram, aligned", kVram, 0, 28 * kKib, 2 * kMib}, true},
    {{"gtt", kGtt, 0, 1028 * kKib}, true},
    {{"gtt, write-combined", kGtt, AMDGPU_GEM_CREATE_CPU_GTT_USWC, 36 * kKib}, true},
    {{"gtt, always valid", kGtt, kAlwaysValid, 40 * kKib}, true},
    {{"gtt, always valid, write-combined", kGtt, kAlwaysValid | AMDGPU_GEM_CREATE_CPU_GTT_USWC,
      44 * kKib},
     true},
    {{"gtt, explicit sync", kGtt, AMDGPU_GEM_CREATE_EXPLICIT_SYNC, 48 * kKib}, true},
    {{"gtt, coherent", kGtt, AMDGPU_GEM_CREATE_COHERENT, 52 * kKib}, true},
    {{"gtt, ext coherent", kGtt, kExtCoherent, 56 * kKib}, true},
    {{"gtt, uncached", kGtt, AMDGPU_GEM_CREATE_UNCACHED, 60 * kKib}, true},
    {{"vram, placed in gtt later", kVram, 0, 68 * kKib}, true},
    {{"window", kVram, 0, 2 * kMib}, true},
};

// Without contents; not every GPU has all of them.
constexpr RenderBoSpec kSpecial[] = {
    {"gds", AMDGPU_GEM_DOMAIN_GDS, 0, 4096, 4},
    {"gws", AMDGPU_GEM_DOMAIN_GWS, 0, 4, 4},
    {"oa", AMDGPU_GEM_DOMAIN_OA, 0, 2, 1},
    {"doorbell", AMDGPU_GEM_DOMAIN_DOORBELL, 0, 4096},
};

constexpr uint64_t kTiling = 0x00000000'00000a15;
constexpr char kUmdData[] = "what a user-mode driver says of an image";

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

// The commands are in a BO that needs no list.
Result<ListedOnly> ListedOnly::create(const RenderDevice& device) {
  RenderContext context = TRY(RenderContext::create(device));
  RenderBo nops = TRY(RenderBo::create(device, {"nops", kGtt, kAlwaysValid, kGpuPage}));
  TRY(nops.map_for_cpu());
  TRY(nops.map_for_gpu());
  const RenderBo listed = TRY(RenderBo::create(device, {"listed only", kVram, 0, 80 * kKib}));
  const uint32_t handle = listed.handle();
  BoList list = TRY(BoList::create(device, {&handle, 1}, 3));
  return ListedOnly(std::move(context), std::move(nops), std::move(list));
}

Status ListedOnly::use(unsigned timeout_ms) const {
  const Submission submission = {
      .ib = nops_.va(), .ib_bytes = 64, .bo_list = list_.handle(), .handles = {}};
  return context_.wait(TRY(context_.submit(submission)), timeout_ms);
}

Result<std::unique_ptr<BufferSet>> BufferSet::create(const RenderDevice& device, unsigned many) {
  std::unique_ptr<BufferSet> set(new BufferSet(device));
  TRY(set->add_kinds());
  TRY(set->add_userptrs());
  TRY(set->add_special());
  TRY(set->make_holes());
  TRY(set->add_windows());
  TRY(set->add_unbacked());
  TRY(set->set_metadata());
  set->listed_only_ = std::make_unique<ListedOnly>(TRY(ListedOnly::create(device)));
  TRY(set->add_many(many));
  return set;
}

Status BufferSet::add(const RenderBoSpec& spec, bool cpu) {
  RenderBo bo = TRY(RenderBo::create(*device_, spec));
  if (cpu) TRY(bo.map_for_cpu());
  const bool always_valid = (spec.flags & kAlwaysValid) != 0;
  buffers_.push_back({std::move(bo), Pattern(0xb0 + buffers_.size()), spec.label, always_valid});
  return {};
}

Status BufferSet::add_kinds() {
  buffers_.reserve(std::size(kKinds) + 8);
  for (const Kind& kind : kKinds) {
    const Status added = add(kind.spec, kind.cpu);
    if (!added.ok() && added.error().code() == EINVAL) {  // older kernels have fewer flags
      notes_.push_back(added.error().message());
      continue;
    }
    TRY(added);
    Buffer& buffer = buffers_.back();
    TRY(buffer.bo.map_for_gpu());
    windows_.push_back({buffer.bo.va(), buffer.bo.size(), buffers_.size() - 1, 0});
  }
  drm_amdgpu_gem_op place = {};
  place.handle = buffers_[find("vram, placed in gtt later")].bo.handle();
  place.op = AMDGPU_GEM_OP_SET_PLACEMENT;
  place.value = kGtt;
  return device_->command(DRM_AMDGPU_GEM_OP, &place, sizeof(place), "cannot place a BO");
}

Status BufferSet::add_userptrs() {
  constexpr uint32_t kCommon =
      AMDGPU_GEM_USERPTR_ANONONLY | AMDGPU_GEM_USERPTR_REGISTER | AMDGPU_GEM_USERPTR_VALIDATE;
  struct Userptr {
    const char* label;
    uint64_t size;
    uint32_t flags;
  };
  for (const Userptr& kind : {Userptr{"userptr", 320 * kKib, kCommon},
                              Userptr{"userptr, read-only", 72 * kKib,
                                      AMDGPU_GEM_USERPTR_READONLY | AMDGPU_GEM_USERPTR_REGISTER},
                              Userptr{"userptr, late", 76 * kKib, AMDGPU_GEM_USERPTR_REGISTER}}) {
    RenderBo bo = TRY(RenderBo::create_userptr(*device_, kind.size, kind.flags));
    const bool read_only = (kind.flags & AMDGPU_GEM_USERPTR_READONLY) != 0;
    buffers_.push_back({std::move(bo), Pattern(0xb0 + buffers_.size()), kind.label, false});
    const size_t index = buffers_.size() - 1;
    ranges_.push_back(TRY(VaRange::reserve(*device_, kind.size)));
    TRY(map(index, ranges_.back().start(), 0, kind.size,
            read_only ? AMDGPU_VM_PAGE_READABLE : kReadWrite));
  }
  return {};
}

Status BufferSet::add_special() {
  for (const RenderBoSpec& spec : kSpecial) {
    Result<RenderBo> bo = RenderBo::create(*device_, spec);
    if (bo.ok())
      special_.push_back(*std::move(bo));
    else
      notes_.push_back(bo.error().message());
  }
  return {};
}

// Handles with gaps, the last one at the end.
Status BufferSet::make_holes() {
  std::vector<RenderBo> gone;
  for (int i = 0; i < 5; ++i) {
    gone.push_back(TRY(RenderBo::create(*device_, {"hole", kGtt, 0, kGpuPage})));
    if (i % 2 == 0) TRY(add({"after a gap", kGtt, 0, 8 * kKib}, true));
  }
  return {};
}

Status BufferSet::map(size_t bo, uint64_t va, uint64_t offset, uint64_t size, uint64_t flags) {
  TRY(device_->change_map(buffers_[bo].bo.handle(), AMDGPU_VA_OP_MAP, va, offset, size, flags));
  windows_.push_back({va, size, bo, offset});
  return {};
}

// More windows on one BO: another of the whole BO, of a part, of one page; and one without its
// middle.
Status BufferSet::add_windows() {
  const size_t bo = find("window");
  const uint64_t size = buffers_[bo].bo.size();
  ranges_.push_back(TRY(VaRange::reserve(*device_, 4 * size)));
  const uint64_t base = ranges_.back().start();
  TRY(map(bo, base, 0, size));
  TRY(map(bo, base + size, 320 * kKib, 640 * kKib));
  TRY(map(bo, base + 2 * size, size - kGpuPage, kGpuPage));

  const uint64_t cut = base + 3 * size, hole = 256 * kKib;
  const size_t other = find("gtt");
  TRY(device_->change_map(buffers_[other].bo.handle(), AMDGPU_VA_OP_MAP, cut, 0, 1 * kMib));
  TRY(device_->change_map(0, AMDGPU_VA_OP_CLEAR, cut + hole, 0, hole));
  windows_.push_back({cut, hole, other, 0});
  windows_.push_back({cut + 2 * hole, 2 * hole, other, 2 * hole});
  return {};
}

// An unbacked range with one part replaced by a BO, and one that was backed and is cleared.
Status BufferSet::add_unbacked() {
  const size_t bo = find("vram, visible");
  const uint64_t size = 4 * kMib, part = 128 * kKib, at = 1 * kMib;
  ranges_.push_back(TRY(VaRange::reserve(*device_, size)));
  const uint64_t base = ranges_.back().start();
  const uint64_t flags = AMDGPU_VM_PAGE_PRT;
  TRY(device_->change_map(0, AMDGPU_VA_OP_MAP, base, 0, size, flags));
  TRY(device_->change_map(buffers_[bo].bo.handle(), AMDGPU_VA_OP_REPLACE, base + at, part, part));
  TRY(device_->change_map(buffers_[bo].bo.handle(), AMDGPU_VA_OP_REPLACE, base + 2 * at, 0, part));
  TRY(device_->change_map(0, AMDGPU_VA_OP_REPLACE, base + 2 * at, 0, part, flags));
  windows_.push_back({base, at, kUnbacked, 0});
  windows_.push_back({base + at, part, bo, part});
  windows_.push_back({base + at + part, size - at - part, kUnbacked, 0});
  return {};
}

Status BufferSet::set_metadata() {
  drm_amdgpu_gem_metadata args = {};
  args.handle = buffers_[find("vram, aligned")].bo.handle();
  args.op = AMDGPU_GEM_METADATA_OP_SET_METADATA;
  args.data.flags = 0x5a;
  args.data.tiling_info = kTiling;
  args.data.data_size_bytes = sizeof(kUmdData);
  memcpy(args.data.data, kUmdData, sizeof(kUmdData));
  return device_->command(DRM_AMDGPU_GEM_METADATA, &args, sizeof(args), "cannot set metadata");
}

Status BufferSet::check_metadata(std::vector<std::string>& problems) const {
  drm_amdgpu_gem_metadata args = {};
  args.handle = buffers_[find("vram, aligned")].bo.handle();
  args.op = AMDGPU_GEM_METADATA_OP_GET_METADATA;
  TRY(device_->command(DRM_AMDGPU_GEM_METADATA, &args, sizeof(args), "cannot get metadata"));
  if (args.data.flags != 0x5a || args.data.tiling_info != kTiling ||
      args.data.data_size_bytes != sizeof(kUmdData) ||
      memcmp(args.data.data, kUmdData, sizeof(kUmdData)) != 0)
    problems.push_back(amdgpu_criu::formatted("metadata: flags {:#x} tiling {:#x} size {}",
                                              args.data.flags, args.data.tiling_info,
                                              args.data.data_size_bytes));
  return {};
}

// Half as Mesa makes its BOs, half in GTT. One in 64 is mapped for the CPU.
Status BufferSet::add_many(unsigned many) {
  if (!many) return {};
  buffers_.reserve(buffers_.size() + many);
  ranges_.push_back(TRY(VaRange::reserve(*device_, many * kGpuPage)));
  const uint64_t base = ranges_.back().start();
  for (unsigned i = 0; i < many; ++i) {
    const bool vram = i % 2 != 0;
    TRY(add({"one of many", vram ? kVram : kGtt, vram ? kAlwaysValid : 0, kGpuPage}, i % 64 == 0));
    TRY(map(buffers_.size() - 1, base + i * kGpuPage, 0, kGpuPage));
  }
  return {};
}

size_t BufferSet::find(const char* label) const {
  const auto found = std::ranges::find(buffers_, std::string_view(label), &Buffer::label);
  return static_cast<size_t>(found - buffers_.begin());
}

std::vector<uint32_t> BufferSet::handles(std::span<const Window> windows) const {
  std::vector<uint32_t> handles;
  for (const Window& window : windows)
    if (window.bo != kUnbacked && !buffers_[window.bo].always_valid)
      handles.push_back(buffers_[window.bo].bo.handle());
  return handles;
}

// How many windows from this one on are contiguous single pages, which need one copy.
size_t BufferSet::row_of_pages(size_t first) const {
  size_t end = first;
  while (end < windows_.size() && windows_[end].size == kGpuPage && windows_[end].bo != kUnbacked &&
         (end - first) * kGpuPage < RenderCopier::kMost &&
         windows_[end].va == windows_[first].va + (end - first) * kGpuPage)
    ++end;
  return end - first;
}

uint64_t BufferSet::bytes() const {
  uint64_t sum = 0;
  for (const Buffer& buffer : buffers_) sum += buffer.bo.size();
  return sum;
}

// One by one by the CPU, or through its window if the CPU has no mapping.
Status BufferSet::fill(RenderCopier& copier) {
  for (Buffer& buffer : buffers_)
    if (!buffer.bo.bytes().empty()) buffer.pattern.fill(buffer.bo.bytes());
  std::vector<std::byte> content;
  for (size_t i = 0; i < windows_.size();) {
    const auto row = std::span(windows_).subspan(i, std::max<size_t>(row_of_pages(i), 1));
    i += row.size();
    const Window& window = row[0];
    if (row.size() == 1 && (window.bo == kUnbacked || !buffers_[window.bo].bo.bytes().empty()))
      continue;
    const uint64_t size = row.size() == 1 ? window.size : row.size() * kGpuPage;
    content.resize(size);
    for (size_t page = 0; page < row.size(); ++page)
      buffers_[row[page].bo].pattern.fill(
          row.size() == 1 ? std::span(content)
                          : std::span(content).subspan(page * kGpuPage, kGpuPage),
          row[page].offset);
    for (uint64_t at = 0; at < size; at += RenderCopier::kMost)
      TRY(copier.write(window.va + at,
                       std::span(content).subspan(at, std::min(size - at, RenderCopier::kMost)),
                       handles(row)));
  }
  // A BO gets its placement, and a userptr its pages, when a submission names it; afterwards
  // nothing moves.
  std::vector<std::string> problems;
  for (size_t i = 0; i < windows_.size(); ++i)
    if (row_of_pages(i) <= 1) TRY(check_window(windows_[i], copier, problems));
  if (!problems.empty()) return Error(EBADMSG, problems[0]);
  return {};
}

Status BufferSet::check_window(const Window& window, RenderCopier& copier,
                               std::vector<std::string>& problems) {
  for (uint64_t at = 0; at < window.size; at += RenderCopier::kMost) {
    const uint64_t part = std::min(window.size - at, RenderCopier::kMost);
    const auto bytes = TRY(copier.read(window.va + at, part, handles({&window, 1})));
    if (window.bo == kUnbacked) {
      if (!is_zero(bytes))
        problems.push_back(
            amdgpu_criu::formatted("unbacked range at {:#x} is not zero", window.va + at));
      continue;
    }
    const Buffer& buffer = buffers_[window.bo];
    if (const auto damage = buffer.pattern.check(bytes, window.offset + at))
      problems.push_back(amdgpu_criu::formatted(
          "BO {} ({}) by the GPU at {:#x}: {} bytes wrong from {:#x}: {:#018x}, expected {:#018x}",
          buffer.bo.handle(), buffer.label, window.va + at, damage->bytes, damage->first_offset,
          damage->found, damage->expected));
  }
  return {};
}

Status BufferSet::check_row(std::span<const Window> row, RenderCopier& copier,
                            std::vector<std::string>& problems) {
  const auto bytes = TRY(copier.read(row[0].va, row.size() * kGpuPage, handles(row)));
  for (size_t page = 0; page < row.size(); ++page) {
    const Buffer& buffer = buffers_[row[page].bo];
    if (const auto damage =
            buffer.pattern.check(bytes.subspan(page * kGpuPage, kGpuPage), row[page].offset))
      problems.push_back(amdgpu_criu::formatted("BO {} ({}) by the GPU at {:#x}: wrong from {:#x}",
                                                buffer.bo.handle(), buffer.label, row[page].va,
                                                damage->first_offset));
  }
  return {};
}

Status BufferSet::check(RenderCopier& copier, std::vector<std::string>& problems) {
  for (const Buffer& buffer : buffers_) {
    if (buffer.bo.bytes().empty()) continue;
    if (const auto damage = buffer.pattern.check(buffer.bo.bytes()))
      problems.push_back(amdgpu_criu::formatted(
          "BO {} ({}) by the CPU: {} bytes wrong from {:#x}: {:#018x}, expected {:#018x}",
          buffer.bo.handle(), buffer.label, damage->bytes, damage->first_offset, damage->found,
          damage->expected));
  }
  for (size_t i = 0; i < windows_.size();) {
    const size_t row = row_of_pages(i);
    if (row > 1)
      TRY(check_row(std::span(windows_).subspan(i, row), copier, problems));
    else
      TRY(check_window(windows_[i], copier, problems));
    i += std::max<size_t>(row, 1);
  }
  TRY(check_aliases(copier, problems));
  TRY(listed_only_->use(copier.timeout_ms()));
  return check_metadata(problems);
}

// Checks that the CPU and all other windows see what the GPU writes through a window; then undoes
// it.
Status BufferSet::check_aliases(RenderCopier& copier, std::vector<std::string>& problems) {
  for (const char* label : {"window", "userptr", "userptr, late", "gtt"}) {
    const size_t bo = find(label);
    const Buffer& buffer = buffers_[bo];
    const uint64_t at = buffer.bo.size() - kGpuPage;
    std::vector<Window> seen_by;
    std::ranges::copy_if(windows_, std::back_inserter(seen_by), [&](const Window& window) {
      return window.bo == bo && window.offset <= at && window.offset + window.size > at;
    });
    const auto handles = this->handles(seen_by);
    std::vector<std::byte> content(kGpuPage);
    const Pattern other(0xa11a5);
    for (const Pattern* pattern : {&other, &buffer.pattern}) {
      pattern->fill(content, at);
      TRY(copier.write(seen_by[0].va + at - seen_by[0].offset, content, handles));
      if (pattern->check(buffer.bo.bytes().subspan(at, kGpuPage), at))
        problems.push_back(
            amdgpu_criu::formatted("{}: the CPU does not see what the GPU writes", label));
      for (const Window& window : seen_by)
        if (pattern->check(TRY(copier.read(window.va + at - window.offset, kGpuPage, handles)), at))
          problems.push_back(
              amdgpu_criu::formatted("{}: a write is not seen at {:#x}", label, window.va));
    }
  }
  return {};
}

}  // namespace e2e
