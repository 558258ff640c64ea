// SPDX-License-Identifier: GPL-2.0
#include "render/numbers.h"

#include <algorithm>
#include <sstream>
#include <tuple>

namespace e2e {

using amdgpu_criu::Error;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

namespace {

// Newer than libdrm's copy of amdgpu_drm.h.
struct ListedHandle {
  uint32_t gem_handle;
  uint32_t flags;
  uint64_t size;
  uint64_t preferred_domains;
  uint64_t alloc_flags;
  uint64_t alignment;
};
struct ListHandles {
  uint64_t entries;
  uint32_t num_entries;
  uint32_t pad;
};
struct ListedMapping {
  uint64_t addr, size, offset, flags;
};
struct GemOpWithCount {
  uint32_t handle;
  uint32_t op;
  uint64_t value;
  uint32_t num_entries;
  uint32_t pad;
};
constexpr unsigned long kListHandles = 0x19;
constexpr uint32_t kGetMappingInfo = 2;

template <typename T>
uint64_t address_of(std::vector<T>& values) {
  return reinterpret_cast<uint64_t>(values.data());
}

Result<std::vector<ListedHandle>> list_handles(const RenderDevice& device) {
  std::vector<ListedHandle> entries;
  for (;;) {
    ListHandles args = {address_of(entries), static_cast<uint32_t>(entries.size()), 0};
    TRY(device.command(kListHandles, &args, sizeof(args), "cannot list the GEM handles"));
    if (args.num_entries <= entries.size()) {
      entries.resize(args.num_entries);
      return entries;
    }
    entries.resize(args.num_entries);
  }
}

Result<std::vector<ListedMapping>> list_mappings(const RenderDevice& device, uint32_t handle) {
  std::vector<ListedMapping> entries(8);
  for (;;) {
    GemOpWithCount args = {handle, kGetMappingInfo, address_of(entries),
                           static_cast<uint32_t>(entries.size()), 0};
    const Status status =
        device.command(DRM_AMDGPU_GEM_OP, &args, sizeof(args), "cannot list the mappings of a BO");
    if (!status.ok() && status.error().code() == ENOENT) return std::vector<ListedMapping>();
    TRY(status);
    const bool complete = args.num_entries <= entries.size();
    entries.resize(args.num_entries);
    if (complete) break;
  }
  std::ranges::sort(entries, {}, [](const ListedMapping& m) { return std::tie(m.addr, m.size); });
  return entries;
}

Result<uint64_t> create_flags(const RenderDevice& device, uint32_t handle) {
  drm_amdgpu_gem_create_in info = {};
  drm_amdgpu_gem_op args = {};
  args.handle = handle;
  args.op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO;
  args.value = reinterpret_cast<uint64_t>(&info);
  TRY(device.command(DRM_AMDGPU_GEM_OP, &args, sizeof(args), "cannot query how a BO was created"));
  return info.domain_flags;
}

Result<std::string> census(const RenderDevice& device) {
  const Result<std::vector<ListedHandle>> handles = list_handles(device);
  if (!handles.ok() && handles.error().code() == EINVAL) return std::string();
  if (!handles.ok()) return Error(handles.error());
  // The driver sets it itself when the CPU touches a BO or a peer asks for it.
  constexpr uint64_t kComesAndGoes = AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED;
  std::ostringstream text;
  for (const ListedHandle& bo : *handles) {
    text << amdgpu_criu::formatted(
        "handle {} size {:#x} domains {:#x} flags {:#x} {:#x} list flags {:#x} "
        "alignment {:#x}\n",
        bo.gem_handle, bo.size, bo.preferred_domains, bo.alloc_flags & ~kComesAndGoes,
        TRY(create_flags(device, bo.gem_handle)) & ~kComesAndGoes, bo.flags, bo.alignment);
    for (const ListedMapping& mapping : TRY(list_mappings(device, bo.gem_handle)))
      text << amdgpu_criu::formatted("handle {} at {:#x} size {:#x} offset {:#x} flags {:#x}\n",
                                     bo.gem_handle, mapping.addr, mapping.size, mapping.offset,
                                     mapping.flags);
  }
  return text.str();
}

Result<std::string> find_next_numbers(const RenderDevice& device) {
  constexpr int kEach = 3;
  std::vector<RenderBo> bos;
  std::vector<RenderContext> contexts;
  std::vector<SyncObject> syncobjs;
  std::vector<BoList> lists;
  std::string text[4] = {"handles", "contexts", "syncobjs", "lists"};
  for (int i = 0; i < kEach; ++i) {
    bos.push_back(TRY(RenderBo::create(device, {"probe", AMDGPU_GEM_DOMAIN_GTT, 0, kGpuPage})));
    contexts.push_back(TRY(RenderContext::create(device)));
    syncobjs.push_back(TRY(SyncObject::create(device)));
    const uint32_t handle = bos.front().handle();
    lists.push_back(TRY(BoList::create(device, {&handle, 1})));
    text[0] += amdgpu_criu::formatted(" {}", bos.back().handle());
    text[1] += amdgpu_criu::formatted(" {}", contexts.back().id());
    text[2] += amdgpu_criu::formatted(" {}", syncobjs.back().handle());
    text[3] += amdgpu_criu::formatted(" {}", lists.back().handle());
  }
  return text[0] + ", " + text[1] + ", " + text[2] + ", " + text[3];
}

// For a person; empty if no line differs.
std::string first_difference(const std::string& before, const std::string& after) {
  std::istringstream old_text(before), new_text(after);
  for (std::string old_line, new_line;;) {
    const bool more_old = static_cast<bool>(std::getline(old_text, old_line));
    const bool more_new = static_cast<bool>(std::getline(new_text, new_line));
    if (!more_old && !more_new) return {};
    if (more_old && more_new && old_line == new_line) continue;
    return amdgpu_criu::formatted("was '{}', is '{}'", more_old ? old_line : "nothing",
                                  more_new ? new_line : "nothing");
  }
}

}  // namespace

Result<FileLists> FileLists::of(const RenderDevice& device) {
  return FileLists{TRY(census(device)), TRY(find_next_numbers(device))};
}

Status FileLists::check(const RenderDevice& device, std::vector<std::string>& problems) const {
  if (const auto line = first_difference(bos, TRY(census(device))); !line.empty())
    problems.push_back("the driver's list: " + line);
  if (const auto line = first_difference(next_numbers, TRY(find_next_numbers(device)));
      !line.empty())
    problems.push_back("new numbers: " + line);
  return {};
}

}  // namespace e2e
