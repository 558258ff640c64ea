// SPDX-License-Identifier: GPL-2.0
#include "render/stepper.h"

#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "workload/chain_math.h"
#include "workload/packets.h"
#include "workload/pattern.h"

namespace e2e {

using amdgpu_criu::Error;
using amdgpu_criu::Fd;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

namespace {

constexpr uint64_t kBlockSeed = 0x5e1dbe;

// Without a domain: X and Y.
constexpr RenderBoSpec kBlocks[SharedBlocks::kCount] = {
    {"block X", 0, AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED, SharedBlocks::kBlockSize},
    {"block Y", 0, AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED, SharedBlocks::kBlockSize},
    {"history", AMDGPU_GEM_DOMAIN_GTT, 0, SharedBlocks::kHistorySlots * 8},
    {"page", AMDGPU_GEM_DOMAIN_GTT, AMDGPU_GEM_CREATE_CPU_GTT_USWC, kGpuPage},
};

uint64_t load(const RenderBo& bo, uint64_t offset) {
  return std::atomic_ref(*bo.at<uint64_t>(offset)).load(std::memory_order_acquire);
}

void store(const RenderBo& bo, uint64_t offset, uint64_t value) {
  std::atomic_ref(*bo.at<uint64_t>(offset)).store(value, std::memory_order_release);
}

void check_block(const RenderBo& block, const std::string& name, uint64_t value,
                 std::vector<std::string>& problems) {
  constexpr uint64_t kValue = SharedBlocks::kValue;
  const Pattern pattern(kBlockSeed);
  const auto bytes = block.bytes();
  auto damage = pattern.check(bytes.first(kValue));
  if (!damage) damage = pattern.check(bytes.subspan(kValue + 8), kValue + 8);
  if (damage)
    problems.push_back(amdgpu_criu::formatted("{}: wrong at {:#x}: {:#018x}, expected {:#018x}",
                                              name, damage->first_offset, damage->found,
                                              damage->expected));
  const uint64_t found = load(block, kValue);
  if (found != value)
    problems.push_back(
        amdgpu_criu::formatted("{}: value {:#018x}, expected {:#018x}", name, found, value));
}

Result<unsigned> count_rings(const RenderDevice& device, uint32_t ip) {
  drm_amdgpu_info_hw_ip info = {};
  TRY(checked(amdgpu_query_hw_ip_info(device.get(), ip, 0, &info), "cannot query the rings"));
  return static_cast<unsigned>(std::popcount(info.available_rings));
}

}  // namespace

Result<SharedBlocks> SharedBlocks::create(const RenderDevice& device, uint32_t domain) {
  SharedBlocks blocks;
  for (RenderBoSpec spec : kBlocks) {
    if (!spec.domains) spec.domains = domain;
    blocks.bos_.push_back(TRY(RenderBo::create(device, spec)));
    TRY(blocks.bos_.back().map_for_cpu());
    TRY(blocks.bos_.back().map_for_gpu());
  }
  return blocks;
}

Result<SharedBlocks> SharedBlocks::import(const RenderDevice& device, std::span<const Fd> dmabufs,
                                          const SharedBlocks* cpu) {
  if (dmabufs.size() != kCount)
    return Error(EPROTO, "the number of dma-bufs is not that of shared BOs");
  SharedBlocks blocks;
  blocks.cpu_ = cpu;
  for (const Fd& dmabuf : dmabufs) {
    blocks.bos_.push_back(TRY(RenderBo::import(device, dmabuf)));
    if (!cpu) TRY(blocks.bos_.back().map_for_cpu());
    TRY(blocks.bos_.back().map_for_gpu());
  }
  return blocks;
}

Result<std::vector<Fd>> SharedBlocks::export_all() const {
  std::vector<Fd> fds;
  for (const RenderBo& bo : bos_) fds.push_back(TRY(bo.export_dmabuf()));
  return fds;
}

std::vector<uint32_t> SharedBlocks::handles() const {
  std::vector<uint32_t> handles;
  for (const RenderBo& bo : bos_) handles.push_back(bo.handle());
  return handles;
}

void SharedBlocks::prepare() const {
  Pattern(kBlockSeed).fill(x().bytes());
  Pattern(kBlockSeed).fill(y().bytes());
  memset(history().bytes().data(), 0, history().size());
  memset(page().bytes().data(), 0, page().size());
  store(x(), kValue, value_at(0));
}

Status SharedBlocks::check_step(uint64_t step) const {
  const uint64_t found_x = load(cpu().x(), kValue), found_y = load(cpu().y(), kValue);
  const uint64_t found = load(cpu().history(), step % kHistorySlots * 8);
  const uint64_t value = value_at(step);
  if (found_x == value && found_y == half_value_at(step) && found == value) return {};
  return Error::of(EBADMSG,
                   "step {} has wrong values: X {:#x} Y {:#x} history {:#x}, expected {:#x} {:#x}",
                   step, found_x, found_y, found, value, half_value_at(step));
}

void SharedBlocks::check(uint64_t done, const std::string& seen_by,
                         std::vector<std::string>& problems) const {
  check_block(cpu().x(), "block X by " + seen_by, value_at(done), problems);
  if (done == 0) return;
  check_block(cpu().y(), "block Y by " + seen_by, half_value_at(done), problems);
  for (uint64_t slot = 0; slot < kHistorySlots; ++slot) {
    const uint64_t step = latest_step_in_slot(slot, kHistorySlots, done);
    const uint64_t expected = step ? value_at(step) : 0;
    if (load(cpu().history(), slot * 8) == expected) continue;
    problems.push_back(amdgpu_criu::formatted("history of step {} by {}: {:#x}, expected {:#x}",
                                              step, seen_by, load(cpu().history(), slot * 8),
                                              expected));
    break;
  }
  const Pattern pattern(kBlockSeed);
  const uint64_t at = done % (kValue / kGpuPage) * kGpuPage;
  if (const auto damage = pattern.check(cpu().page().bytes(), at))
    problems.push_back(amdgpu_criu::formatted("page of step {} by {}: wrong at {:#x}", done,
                                              seen_by, damage->first_offset));
}

Result<Stepper> Stepper::create(const RenderDevice& device, const SharedBlocks& blocks,
                                unsigned sdma_ring, unsigned compute_ring) {
  const struct {
    const char* name;
    uint32_t ip;
    unsigned ring;
    int priority;
  } wanted[kMostEngines] = {
      {"SDMA", AMDGPU_HW_IP_DMA, sdma_ring, AMDGPU_CTX_PRIORITY_NORMAL},
      {"compute", AMDGPU_HW_IP_COMPUTE, compute_ring, AMDGPU_CTX_PRIORITY_LOW},
      {"graphics", AMDGPU_HW_IP_GFX, 0, AMDGPU_CTX_PRIORITY_NORMAL},
  };
  std::vector<Engine> engines;
  for (const auto& [name, ip, ring, priority] : wanted) {
    const unsigned rings = TRY(count_rings(device, ip));
    if (!rings && ip == AMDGPU_HW_IP_GFX) continue;
    if (!rings) return Error::of(ENODEV, "the GPU has no ring for {}", name);
    engines.push_back({name, ip, ring % rings, TRY(RenderContext::create(device, priority))});
  }
  RenderBo ibs = TRY(RenderBo::create(
      device, {"command buffers", AMDGPU_GEM_DOMAIN_GTT, 0, kIbSlot * kIbSlots * kMostEngines}));
  TRY(ibs.map_for_cpu());
  TRY(ibs.map_for_gpu());
  std::vector<uint32_t> handles = blocks.handles();
  handles.push_back(ibs.handle());
  BoList list = TRY(BoList::create(device, handles));
  SyncObject between = TRY(SyncObject::create(device));
  return Stepper(blocks, std::move(engines), std::move(ibs), std::move(between), std::move(list));
}

std::vector<Dwords> Stepper::commands(uint64_t step) const {
  constexpr size_t kAlignDwords = 16;
  constexpr uint64_t kValue = SharedBlocks::kValue;
  const uint64_t x = blocks_->x().va(), y = blocks_->y().va();

  SdmaStream sdma;
  sdma.copy(y, x, SharedBlocks::kBlockSize).add64(y + kValue, sdma_addend(step));
  Pm4Stream pm4[2];
  pm4[0].copy64(x + kValue, y + kValue).add64(x + kValue, pm4_addend(step));
  pm4[engines_.size() - 2]
      .copy64(blocks_->history().va() + step % SharedBlocks::kHistorySlots * 8, x + kValue)
      .dma(blocks_->page().va(), x + step % (kValue / kGpuPage) * kGpuPage, kGpuPage);

  const auto padded = [](auto& stream) {
    return stream.pad((stream.dwords().size() + kAlignDwords - 1) / kAlignDwords * kAlignDwords)
        .dwords();
  };
  std::vector<Dwords> all = {padded(sdma)};
  for (size_t engine = 1; engine < engines_.size(); ++engine)
    all.push_back(padded(pm4[engine - 1]));
  return all;
}

Submission Stepper::put(const Dwords& commands, size_t engine) {
  const uint64_t slot = (submitted_ % kIbSlots * kMostEngines + engine) * kIbSlot;
  memcpy(ibs_.at<std::byte>(slot), commands.data(), commands.size() * 4);
  return {.ip = engines_[engine].ip,
          .ring = engines_[engine].ring,
          .ib = ibs_.va() + slot,
          .ib_bytes = static_cast<uint32_t>(commands.size() * 4),
          .bo_list = list_.handle(),
          .handles = {}};
}

// Numbers of one ring of one context have no gaps, even over a checkpoint.
Status Stepper::follows(Engine& engine, const RenderFence& fence) const {
  const uint64_t before = std::exchange(engine.last, fence.number);
  if (before == 0 || fence.number == before + 1) return {};
  return Error::of(EBADMSG, "{} returned number {} after {}", engine.name, fence.number, before);
}

Result<Stepper::Fences> Stepper::submit(uint64_t step, std::vector<SyncPoint> after,
                                        std::vector<SyncPoint> signal) {
  const std::vector<Dwords> streams = commands(step);
  Fences fences;
  for (size_t i = 0; i < engines_.size(); ++i) {
    Submission submission = put(streams[i], i);
    // Alternates between the two ways to wait for the previous engine.
    if (i == 0)
      submission.wait = std::exchange(after, {});
    else if (step % 2)
      submission.after = {{&engines_[i - 1].context, fences.back()}};
    else
      submission.wait = {{between_.handle(), 0}};
    if (i + 1 == engines_.size())
      submission.signal = std::exchange(signal, {});
    else
      submission.signal = {{between_.handle(), 0}};
    fences.push_back(TRY(engines_[i].context.submit(submission)));
    TRY(follows(engines_[i], fences.back()));
  }
  ++submitted_;
  remember(fences);
  return fences;
}

void Stepper::remember(const Fences& fences) {
  if (oldest_.size() < kRemembered) oldest_.push_back(fences);
  if (latest_.size() == kRemembered) latest_.erase(latest_.begin());
  latest_.push_back(fences);
}

Status Stepper::wait(const Fences& fences, unsigned timeout_ms) const {
  for (size_t i = 0; i < engines_.size(); ++i) TRY(engines_[i].context.wait(fences[i], timeout_ms));
  return {};
}

Status Stepper::check_history() const {
  for (size_t i = 0; i < engines_.size(); ++i) {
    const Engine& engine = engines_[i];
    for (const auto* fences : {&oldest_, &latest_})
      for (const Fences& old : *fences)
        if (!TRY(engine.context.is_done(old[i])))
          return Error::of(EBADMSG, "old fence {} of {} is not signaled", old[i].number,
                           engine.name);
    TRY(engine.context.check_alive());
  }
  return {};
}

Result<RenderCopier> RenderCopier::create(const RenderDevice& device, unsigned timeout_ms) {
  RenderContext context = TRY(RenderContext::create(device));
  RenderBo staging = TRY(RenderBo::create(
      device, {"staging", AMDGPU_GEM_DOMAIN_GTT, AMDGPU_GEM_CREATE_EXPLICIT_SYNC, kMost}));
  RenderBo ib =
      TRY(RenderBo::create(device, {"copy commands", AMDGPU_GEM_DOMAIN_GTT, 0, kGpuPage}));
  for (RenderBo* bo : {&staging, &ib}) {
    TRY(bo->map_for_cpu());
    TRY(bo->map_for_gpu());
  }
  return RenderCopier(std::move(context), std::move(staging), std::move(ib), timeout_ms);
}

Status RenderCopier::copy(uint64_t to, uint64_t from, uint64_t bytes,
                          std::span<const uint32_t> handles) {
  SdmaStream stream;
  stream.copy(to, from, bytes).pad(16);
  memcpy(ib_.bytes().data(), stream.dwords().data(), stream.dwords().size() * 4);
  std::vector<uint32_t> all(handles.begin(), handles.end());
  all.push_back(staging_.handle());
  all.push_back(ib_.handle());
  Submission submission = {.ib = ib_.va(),
                           .ib_bytes = static_cast<uint32_t>(stream.dwords().size() * 4),
                           .handles = all};
  return context_.wait(TRY(context_.submit(submission)), timeout_ms_);
}

Status RenderCopier::write(uint64_t va, std::span<const std::byte> bytes,
                           std::span<const uint32_t> handles) {
  if (bytes.size() > kMost) return Error(EMSGSIZE, "copy larger than its staging buffer");
  memcpy(staging_.bytes().data(), bytes.data(), bytes.size());
  return copy(va, staging_.va(), bytes.size(), handles);
}

Result<std::span<const std::byte>> RenderCopier::read(uint64_t va, uint64_t bytes,
                                                      std::span<const uint32_t> handles) {
  if (bytes > kMost) return Error(EMSGSIZE, "copy larger than its staging buffer");
  // Clears the result of an earlier copy, to detect one that does nothing.
  memset(staging_.bytes().data(), 0xee, bytes);
  TRY(copy(staging_.va(), va, bytes, handles));
  return std::span<const std::byte>(staging_.bytes().first(bytes));
}

}  // namespace e2e
