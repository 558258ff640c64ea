// SPDX-License-Identifier: GPL-2.0
#include "workload/memory.h"

#include <algorithm>
#include <cstdio>

namespace e2e {

using amdgpu_criu::Error;
using amdgpu_criu::Fd;
using amdgpu_criu::Mapping;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

namespace {

// A destructor cannot return an error, so it logs it.
void report(const Status& status) {
  if (!status.ok()) fprintf(stderr, "gpu_chain: %s\n", status.error().message().c_str());
}

}  // namespace

Domain shared_vram(std::span<const Gpu* const> gpus) {
  const uint64_t hive = gpus[0]->node().hive_id;
  const bool reached = gpus.size() == 1 || (hive && std::ranges::all_of(gpus, [&](const Gpu* gpu) {
                                              return gpu->node().hive_id == hive;
                                            }));
  return reached ? Domain::kVram : Domain::kGtt;
}

// Pages of a GPU's mappings are never merged again.
Status split_mapping(std::span<std::byte> range) {
  constexpr size_t kPage = 4096;
  std::byte* middle = range.data() + range.size() / kPage / 2 * kPage;
  if (range.size() < 2 * kPage) return {};
  for (int protection : {PROT_READ, PROT_READ | PROT_WRITE})
    if (mprotect(middle, kPage, protection) != 0) return Error::system("cannot protect a page");
  if (range.size() < 4 * kPage) return {};
  if (madvise(range.data(), kPage, MADV_RANDOM) != 0) return Error::system("cannot advise a page");
  const Mapping elsewhere =
      TRY(Mapping::map(kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE));
  for (auto [from, to] : {std::pair(middle, elsewhere.data()), std::pair(elsewhere.data(), middle)})
    if (mremap(from, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED)
      return Error::system("cannot move a page");
  return {};
}

Result<Gpu> Gpu::open(const Kfd& kfd, const GpuNode& node) {
  const std::string path = amdgpu_criu::formatted("/dev/dri/renderD{}", node.render_minor);
  Fd render = TRY(Fd::open(path.c_str(), O_RDWR));
  TRY(kfd.acquire_vm(node.gpu_id, render.get()));
  return Gpu(node, std::move(render));
}

Bo::Bo(Bo&& other) noexcept
    : kfd_(other.kfd_),
      range_(std::move(other.range_)),
      spec_(other.spec_),
      handle_(std::exchange(other.handle_, 0)),
      mmap_offset_(other.mmap_offset_),
      keep_(other.keep_),
      mapped_on_(std::move(other.mapped_on_)) {}

Bo::~Bo() {
  if (handle_ && !keep_) report(free());
}

Status Bo::free() {
  if (!mapped_on_.empty()) TRY(kfd_->unmap(handle_, mapped_on_));
  mapped_on_.clear();
  return kfd_->free(std::exchange(handle_, 0));
}

Status Bo::allocate(const Gpu& owner, std::span<const Gpu* const> peers) {
  const Allocation allocation = TRY(
      kfd_->allocate({owner.id(), spec_.domain, va(), size(), spec_.cpu_visible, spec_.coherent}));
  handle_ = allocation.handle;
  mmap_offset_ = allocation.mmap_offset;
  std::vector<uint32_t> gpu_ids = {owner.id()};
  for (const Gpu* peer : peers)
    if (peer->id() != owner.id()) gpu_ids.push_back(peer->id());
  TRY(kfd_->map(handle_, gpu_ids));
  mapped_on_ = std::move(gpu_ids);
  return {};
}

Status Bo::map_for_cpu(int fd, uint64_t offset) {
  if (mmap(range_.data(), size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
           static_cast<off_t>(offset)) == MAP_FAILED)
    return Error::system("cannot map {} bytes of {} for the CPU", size(), name_of(spec_.domain));
  return kfd_->ways().split ? split_mapping(bytes()) : Status();
}

Result<Bo> Bo::create(const Kfd& kfd, const Gpu& owner, std::span<const Gpu* const> peers,
                      const BoSpec& spec) {
  const bool userptr = spec.domain == Domain::kUserptr;
  Bo bo(kfd,
        TRY(Mapping::map(spec.size, userptr ? PROT_READ | PROT_WRITE : PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)),
        spec);
  TRY(bo.allocate(owner, peers));
  if (!userptr && spec.cpu_visible) TRY(bo.map_for_cpu(owner.render_fd(), bo.mmap_offset_));
  return bo;
}

Result<Bo> Bo::create_special(const Kfd& kfd, const Gpu& owner, Domain domain, uint64_t size,
                              uint64_t mmap_offset) {
  Bo bo(kfd, TRY(Mapping::map(size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)),
        {domain, size});
  TRY(bo.allocate(owner, {}));
  if (kfd.ways().own_pages) TRY(bo.free());
  TRY(bo.map_for_cpu(kfd.fd(), domain == Domain::kMmio ? bo.mmap_offset_ : mmap_offset));
  return bo;
}

}  // namespace e2e
