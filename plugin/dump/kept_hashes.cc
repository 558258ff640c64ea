// SPDX-License-Identifier: GPL-2.0
#include "dump/kept_hashes.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/log.h"
#include "dump/outside_files.h"

namespace amdgpu_criu::dump {
namespace {

using Access = KeptHashes::Access;
using Hashes = std::vector<gpu::ChunkHash>;

constexpr uint32_t kChunkBytes = 256u << 10;
// Nothing is copied.
constexpr gpu::StagingSize kStaging{1, 4096};

// Of all BOs, one after another.
Result<Hashes> hash_all(const Access& access, const VramOfGpu& vram) {
  auto engine =
      TRY(access.make_engine(TRY(access.host.open_render(vram.gpu.render_minor)), kStaging));
  const kernel::Node node{engine->file(), kernel::Node::Kind::kRender};
  Hashes hashes;
  for (std::span<const kernel::Bo> bos = vram.bos; !bos.empty();) {
    gpu::HashBatch batch(kChunkBytes);
    while (batch.size() < bos.size() && batch.has_room()) {
      const kernel::Bo& bo = bos[batch.size()];
      const Fd dmabuf = TRY(access.api.dmabuf(node, access.tree.session(), bo.object_id));
      batch.add(std::shared_ptr<gpu::Imported>(TRY(engine->import(dmabuf, bo.size))), bo.size);
    }
    TRY(engine->hash(batch.bos(), kChunkBytes, [&](std::span<const gpu::ChunkHash> some) {
      hashes.insert(hashes.end(), some.begin(), some.end());
      return true;
    }));
    bos = bos.subspan(batch.size());
  }
  return hashes;
}

// Mappings of render nodes by which a process of the tree that still exists can write.
std::vector<host::ProcessVma> writable_mappings(const Access& access) {
  std::vector<host::ProcessVma> result;
  for (const Member& member : access.tree.members())
    if (const auto vmas = access.host.vmas_of(member.pid); vmas.ok())
      std::ranges::copy_if(*vmas, std::back_inserter(result), [](const host::ProcessVma& vma) {
        return vma.writable && vma.node.kind == host::NodeKind::kRender;
      });
  return result;
}

// For calls that any node accepts; not valid: there is no GPU.
Result<Fd> open_any_render(const host::Host& host, Tree& tree) {
  const auto gpus = TRY(host.gpus());
  if (gpus.empty() && tree.renders().empty()) return Fd();
  return host.open_render(gpus.empty() ? tree.renders().front().minor : gpus.front().render_minor);
}

Result<kernel::Outside> outside_of(kernel::Api& api, const Fd& render, const Tree& tree) {
  if (!render.valid()) return kernel::Outside{};
  return api.outside(kernel::render_node(render), tree.session());
}

// A process that has a dma-buf or an open file of a render node can map memory and write to it.
Result<bool> others_have_files(const Access& access, const Fd& render,
                               std::span<const VramOfGpu> vram) {
  std::set<pid_t> tree;
  for (const Member& member : access.tree.members()) tree.insert(member.pid);
  const auto outside = TRY(OutsideFiles::find(access.host, tree));
  for (const OpenRender& open : access.tree.renders())
    if (outside.same_render(open.file.get(), open.minor)) return true;
  for (const VramOfGpu& one : vram)
    if (TRY(outside.find_bo(access.api, kernel::render_node(render), access.tree.session(),
                            one.bos)))
      return true;
  return false;
}

bool may_be_written_by_others(const Access& access, std::span<const VramOfGpu> vram) {
  const auto render = open_any_render(access.host, access.tree);
  if (!render.ok()) return true;
  const auto outside = outside_of(access.api, *render, access.tree);
  if (!outside.ok() || outside->num_bos > 0) return true;
  const auto files = others_have_files(access, *render, vram);
  if (!files.ok() || *files) return true;
  return std::ranges::any_of(access.tree.members(), [&](const Member& member) {
    return access.host.maps_writable_dmabuf(member.pid);
  });
}

// minor: of the render node of the BO's GPU
bool is_writable(const kernel::Bo& bo, unsigned minor, std::span<const host::ProcessVma> writable) {
  if (bo.mmap_offset == ~uint64_t{0}) return false;
  return std::ranges::any_of(writable, [&](const host::ProcessVma& vma) {
    return vma.node.minor == minor && vma.offset < bo.mmap_offset + bo.size &&
           bo.mmap_offset < vma.offset + (vma.end - vma.start);
  });
}

Status compare_bos(const VramOfGpu& vram, const Hashes& before, const Hashes& now,
                   std::span<const host::ProcessVma> writable, uint64_t& compared) {
  size_t next = 0;
  for (const kernel::Bo& bo : vram.bos) {
    const size_t first = next;
    next += gpu::chunks_of(bo.size, kChunkBytes);
    if (is_writable(bo, vram.gpu.render_minor, writable)) continue;
    for (size_t i = first; i < next; i++)
      if (now[i] != before[i])
        return Error::of(EIO,
                         "its memory on {} is not what it was: the BO with handle {:#x} of {} "
                         "bytes differs at {:#x}; host memory, the link or the GPU is faulty",
                         vram.gpu.describe(), bo.handle, bo.size, (i - first) * kChunkBytes);
    compared += bo.size;
  }
  return {};
}

}  // namespace

uint64_t VramOfGpu::bytes() const {
  return std::accumulate(bos.begin(), bos.end(), uint64_t{0},
                         [](uint64_t sum, const kernel::Bo& bo) { return sum + bo.size; });
}

Result<std::vector<VramOfGpu>> vram_of(kernel::Api& api, const host::Host& host, Tree& tree) {
  std::vector<VramOfGpu> result;
  for (topology::Gpu& gpu : TRY(host.gpus())) result.push_back({std::move(gpu), {}});
  VramOfGpu unknown;
  std::map<uint64_t, VramOfGpu*> counted;  // by object id
  for (const PausedClient* client : tree.paused_clients()) {
    const auto state = TRY(api.checkpoint(client->node(), tree.session(), client->info()));
    const auto owners = tree.owners_of(*client);
    for (const kernel::Bo& bo : state.bos) {
      if (bo.domain != AMDGPU_CRIU_DOMAIN_VRAM) continue;
      const auto device =
          std::ranges::find(state.devices, bo.gpu_id, &kernel::CheckpointDevice::gpu_id);
      const uint32_t id = device == state.devices.end() ? bo.gpu_id : device->actual_gpu_id;
      const auto found =
          std::ranges::find(result, id, [](const VramOfGpu& one) { return one.gpu.gpu_id; });
      const auto [known, first] =
          counted.emplace(bo.object_id, found == result.end() ? &unknown : &*found);
      if (first) known->second->bos.push_back(bo);
      known->second->owners[bo.object_id].insert(owners.begin(), owners.end());
    }
  }
  result.push_back(std::move(unknown));
  return result;
}

Result<kernel::Outside> outside_of(kernel::Api& api, const host::Host& host, Tree& tree) {
  return outside_of(api, TRY(open_any_render(host, tree)), tree);
}

KeptHashes KeptHashes::compute(const Access& access, const std::vector<VramOfGpu>& vram) {
  KeptHashes result;
  if (may_be_written_by_others(access, vram)) {
    log_info("memory is not compared when work continues: other processes might write to it");
    return result;
  }
  const auto writable = writable_mappings(access);
  for (const VramOfGpu& one : vram) {
    VramOfGpu kept{one.gpu, {}};
    std::ranges::copy_if(one.bos, std::back_inserter(kept.bos), [&](const kernel::Bo& bo) {
      return bo.flags & AMDGPU_CRIU_BO_CONTENTS && !is_writable(bo, one.gpu.render_minor, writable);
    });
    if (kept.bos.empty()) continue;
    auto hashes = hash_all(access, kept);
    if (!hashes.ok()) {
      log_info("memory of {} is not compared when work continues: {}", one.gpu.describe(),
               hashes.error().message());
      continue;
    }
    result.vram_.push_back(std::move(kept));
    result.hashes_.push_back(std::move(*hashes));
  }
  return result;
}

uint64_t KeptHashes::bytes() const {
  return std::accumulate(vram_.begin(), vram_.end(), uint64_t{0},
                         [](uint64_t sum, const VramOfGpu& one) { return sum + one.bytes(); });
}

Result<uint64_t> KeptHashes::compare(const Access& access) const {
  uint64_t compared = 0;
  if (vram_.empty() || may_be_written_by_others(access, vram_)) return compared;
  for (size_t i = 0; i < vram_.size(); i++) {
    const auto hashes = hash_all(access, vram_[i]);
    if (hashes.ok())
      TRY(compare_bos(vram_[i], hashes_[i], *hashes, writable_mappings(access), compared));
    else
      log_info("memory of {} is not compared: {}", vram_[i].gpu.describe(),
               hashes.error().message());
  }
  return compared;
}

}  // namespace amdgpu_criu::dump
