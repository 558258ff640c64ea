// SPDX-License-Identifier: GPL-2.0
#include "workload/data.h"

namespace e2e {

using amdgpu_criu::Result;
using amdgpu_criu::Status;

namespace {
constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kMiB = 1 << 20;
}  // namespace

std::string describe(const std::string& what, uint64_t size, const Damage& damage) {
  return amdgpu_criu::formatted(
      "{}: {} of {} bytes wrong, first at {:#x}: expected {:#018x} found {:#018x}", what,
      damage.bytes, size, damage.first_offset, damage.expected, damage.found);
}

Status DataSet::add(const Kfd& kfd, std::span<const Gpu* const> gpus, size_t owner, bool shared,
                    const BoSpec& spec) {
  if (!spec.size) return {};
  std::vector<size_t> mapped = {owner};
  for (size_t i = 0; shared && i < gpus.size(); ++i)
    if (i != owner) mapped.push_back(i);
  const std::span<const Gpu* const> peers = shared ? gpus : std::span<const Gpu* const>();
  Bo bo = TRY(Bo::create(kfd, *gpus[owner], peers, spec));
  std::string label = amdgpu_criu::formatted(
      "BO {} ({}{}{}, {} bytes, GPU {})", bos_.size(), shared ? "shared " : "",
      spec.cpu_visible ? "" : "hidden ", name_of(spec.domain), spec.size, owner);
  bos_.push_back({std::move(bo), Pattern(bos_.size() + 1), std::move(label), std::move(mapped)});
  return {};
}

Status DataSet::add_own(const Kfd& kfd, std::span<const Gpu* const> gpus, size_t owner,
                        const Options& options) {
  const BoSpec specs[] = {
      {Domain::kVram, options.vram_mib * kMiB},
      {Domain::kVram, options.hidden_mib * kMiB, false},
      {Domain::kVram, 4 * kKiB},
      {Domain::kVram, 68 * kKiB},
      {Domain::kVram, 2 * kMiB + 4 * kKiB},
      {Domain::kVram, 68 * kKiB, false},
      {Domain::kGtt, options.gtt_mib * kMiB},
      {Domain::kUserptr, options.userptr_mib * kMiB},
  };
  for (const BoSpec& spec : specs) TRY(add(kfd, gpus, owner, false, spec));
  for (unsigned i = 0; i < options.small; ++i)
    TRY(add(kfd, gpus, owner, false, {i % 2 ? Domain::kGtt : Domain::kVram, 4 * kKiB}));
  return {};
}

Result<DataSet> DataSet::create(const Kfd& kfd, std::span<const Gpu* const> gpus,
                                const Options& options) {
  DataSet set;
  for (size_t owner = 0; owner < gpus.size(); ++owner) {
    TRY(set.add_own(kfd, gpus, owner, options));
    if (gpus.size() < 2) continue;
    for (Domain domain : {shared_vram(gpus), Domain::kGtt, Domain::kUserptr})
      TRY(set.add(kfd, gpus, owner, true, {domain, 1 * kMiB + 4 * kKiB}));
  }
  return set;
}

Status DataSet::fill(std::span<Copier* const> copiers) {
  for (DataBo& data : bos_) {
    if (data.bo.cpu_visible())
      data.pattern.fill(data.bo.bytes());
    else
      TRY(copiers[data.gpus[0]]->fill(data.bo, data.pattern));
  }
  return {};
}

Status DataSet::check(std::span<Copier* const> copiers, std::vector<std::string>& problems) const {
  for (const DataBo& data : bos_) {
    if (data.bo.cpu_visible())
      if (const auto damage = data.pattern.check(data.bo.bytes()))
        problems.push_back(describe(data.label + " by CPU", data.bo.size(), *damage));
    for (size_t gpu : data.gpus)
      if (const auto damage = TRY(copiers[gpu]->check(data.bo, data.pattern)))
        problems.push_back(describe(amdgpu_criu::formatted("{} by GPU {}", data.label, gpu),
                                    data.bo.size(), *damage));
  }
  return {};
}

uint64_t DataSet::bytes() const {
  uint64_t sum = 0;
  for (const DataBo& data : bos_) sum += data.bo.size();
  return sum;
}

}  // namespace e2e
