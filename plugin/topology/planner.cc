// SPDX-License-Identifier: GPL-2.0
#include "topology/planner.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

namespace amdgpu_criu::topology {
namespace {

// Far more than a machine with equal GPUs needs. If it is not enough, the user must provide a map.
constexpr unsigned kStepsMax = 200'000;

// Empty if the source can be on the target, whatever else is there.
std::string obstacle_to(const Gpu& source, const Gpu& target, const Ignored& ignored,
                        const Room& room) {
  const auto needed = room.needed.find(source.gpu_id);
  const auto free = room.free.find(target.gpu_id);
  if (needed != room.needed.end() && free != room.free.end() && needed->second > free->second)
    return formatted("{} MiB of VRAM are needed, {} MiB are free", (needed->second >> 20) + 1,
                     free->second >> 20);
  return mismatch(source, target, ignored);
}

class Search {
 public:
  // needed: how many sources, the first ones, must have a target.
  Search(std::span<const Gpu> sources, size_t needed, std::span<const Gpu> targets,
         const Ignored& ignored, const Room& room)
      : sources_(sources),
        needed_(needed),
        targets_(targets),
        ignored_(ignored),
        room_(room),
        wished_(sources.size()),
        chosen_(sources.size()),
        taken_(targets.size()) {}

  Status wish(const Wish& wish) {
    const size_t source = TRY(find_called(sources_, wish.source, "in the images"));
    const size_t target = TRY(find_called(targets_, wish.target, "on this machine"));
    if (wished_[source]) return Error::of(EINVAL, "the GPU map names {} twice", wish.source);
    if (std::ranges::count(wished_, std::optional(target)))
      return Error::of(EINVAL, "the GPU map gives {} to two GPUs", wish.target);
    const std::string why = obstacle_to(sources_[source], targets_[target], ignored_, room_);
    if (!why.empty())
      return Error::of(ENODEV, "the GPU map puts {} on {}, which does not fit: {}",
                       sources_[source].describe(), targets_[target].describe(), why);
    wished_[source] = target;
    return {};
  }

  bool solve() {
    for (size_t source = 0; source < sources_.size(); source++)
      candidates_.push_back(candidates(source));
    if (!solve_from(0)) return false;
    for (size_t source = needed_; source < sources_.size(); source++) place_if_possible(source);
    return true;
  }
  bool gave_up() const { return steps_ > kStepsMax; }

  Assignment assignment() const {
    Assignment result;
    for (size_t i = 0; i < sources_.size(); i++)
      if (const auto& target = chosen_[i]) result[sources_[i].gpu_id] = targets_[*target].gpu_id;
    return result;
  }

  // The reason why GPUs fit alone but not together: the first obstacle in the order of preference.
  const std::string& obstacle() const { return obstacle_; }

 private:
  bool solve_from(size_t source) {
    if (source == needed_) return true;
    if (++steps_ > kStepsMax || !rest_can_match(source)) return false;
    for (size_t target : candidates_[source]) {
      if (taken_[target] || !joins(source, target)) continue;
      taken_[target] = true;
      chosen_[source] = target;
      if (solve_from(source + 1)) return true;
      taken_[target] = false;
    }
    return false;
  }

  void place_if_possible(size_t source) {
    for (size_t target : candidates_[source]) {
      if (taken_[target] || !joins(source, target)) continue;
      taken_[target] = true;
      chosen_[source] = target;
      return;
    }
  }

  // Targets that fit, in the order of preference. A target that the user assigned to another source
  // is not free.
  std::vector<size_t> candidates(size_t source) const {
    if (const auto& wished = wished_[source]) return {*wished};
    std::vector<size_t> result;
    for (size_t i = 0; i < targets_.size(); i++)
      if (!std::ranges::count(wished_, std::optional(i)) &&
          obstacle_to(sources_[source], targets_[i], ignored_, room_).empty())
        result.push_back(i);
    auto rank = [&](size_t i) {
      const int others = has_same_cus(sources_[source], targets_[i]) ? 0 : 3;
      if (targets_[i].gpu_id == sources_[source].gpu_id) return others;
      return others + (targets_[i].pci_address == sources_[source].pci_address ? 1 : 2);
    };
    std::ranges::stable_sort(result, {}, rank);
    auto unused = [&](size_t i) {
      const auto found = room_.unused.find(targets_[i].gpu_id);
      const uint64_t size = std::max<uint64_t>(targets_[i].property("vram_size"), 1);
      return found == room_.unused.end() ? 0.0 : static_cast<double>(found->second) / size;
    };
    if (room_.spread) std::ranges::stable_sort(result, std::greater(), unused);
    return result;
  }

  // True if `source` fits on `target` with the current targets of the previous sources.
  bool joins(size_t source, size_t target) {
    for (size_t before = 0; before < source; before++) {
      const auto& on = chosen_[before];
      if (!on) continue;
      const std::string why = torn_apart(before, source, *on, target);
      if (why.empty()) continue;
      if (obstacle_.empty()) obstacle_ = why;
      return false;
    }
    return true;
  }

  std::string torn_apart(size_t a, size_t b, size_t on_a, size_t on_b) const {
    const Gpu &first = sources_[a], &second = sources_[b];
    const Gpu &first_now = targets_[on_a], &second_now = targets_[on_b];
    for (const char* property : grouping_properties()) {
      const auto group = group_of(first, property);
      if (ignored_.contains(property) || !group || group != group_of(second, property)) continue;
      const auto group_now = group_of(first_now, property);
      if (group_now && group_now == group_of(second_now, property)) continue;
      return formatted("{} and {} had {} {:#x} in common, {} has {:#x} and {} has {:#x}{}",
                       first.describe(), second.describe(), property, *group, first_now.describe(),
                       first_now.property(property), second_now.describe(),
                       second_now.property(property), remedy(property));
    }
    if (!ignored_.contains(kLinks) && first.links.contains(second.gpu_id) &&
        !first_now.links.contains(second_now.gpu_id))
      return formatted("{} and {} had a link, {} and {} have none{}", first.describe(),
                       second.describe(), first_now.describe(), second_now.describe(),
                       remedy(kLinks));
    return {};
  }

  // Kuhn's algorithm: true if there is a target for each source from `from` on, ignoring groups and
  // links.
  bool rest_can_match(size_t from) const {
    std::vector<std::optional<size_t>> owner(targets_.size());
    for (size_t source = from; source < needed_; source++) {
      std::vector<bool> seen(targets_.size());
      if (!augment(source, owner, seen)) return false;
    }
    return true;
  }

  bool augment(size_t source, std::vector<std::optional<size_t>>& owner,
               std::vector<bool>& seen) const {
    for (size_t target : candidates_[source]) {
      if (taken_[target] || seen[target]) continue;
      seen[target] = true;
      const std::optional<size_t> before = owner[target];
      if (before && !augment(*before, owner, seen)) continue;
      owner[target] = source;
      return true;
    }
    return false;
  }

  std::span<const Gpu> sources_;
  size_t needed_;
  std::span<const Gpu> targets_;
  const Ignored& ignored_;
  const Room& room_;
  std::vector<std::optional<size_t>> wished_;
  std::vector<std::vector<size_t>> candidates_;
  std::vector<std::optional<size_t>> chosen_;
  std::vector<bool> taken_;
  std::string obstacle_;
  unsigned steps_ = 0;
};

// The first source that fits no target, with the reason for each target.
std::optional<Error> unfit(std::span<const Gpu> sources, std::span<const Gpu> targets,
                           const Ignored& ignored, const Room& room) {
  for (const Gpu& source : sources) {
    std::string reasons;
    for (const Gpu& target : targets) {
      const std::string why = obstacle_to(source, target, ignored, room);
      if (why.empty()) {
        reasons.clear();
        break;
      }
      reasons += formatted("; {}: {}", target.describe(), why);
    }
    if (!reasons.empty())
      return Error::of(ENODEV, "no GPU of this machine fits the saved {}{}", source.describe(),
                       reasons);
  }
  return std::nullopt;
}

Error explain(const Search& search, std::span<const Gpu> sources, std::span<const Gpu> targets,
              const Ignored& ignored, const Room& room) {
  if (targets.size() < sources.size())
    return Error::of(ENODEV, "the images need {} GPUs, this machine has {}", sources.size(),
                     targets.size());
  if (auto error = unfit(sources, targets, ignored, room)) return std::move(*error);
  if (search.gave_up())
    return Error(ENODEV,
                 "too many ways to assign the saved GPUs to those of this machine: set amdgpu.map");
  if (!search.obstacle().empty())
    return Error::of(ENODEV, "every saved GPU fits some GPU of this machine, but not together: {}",
                     search.obstacle());
  return Error(ENODEV, "every saved GPU fits some GPU of this machine, but two need the same one");
}

// In the order in which they choose. A GPU that needs less memory would take the emptiest target.
std::vector<Gpu> in_order(std::span<const Gpu> sources, const Room& room,
                          const std::set<uint32_t>& last) {
  std::vector<Gpu> result(sources.begin(), sources.end());
  const auto needed = [&](const Gpu& source) {
    const auto found = room.needed.find(source.gpu_id);
    return found == room.needed.end() ? 0 : found->second;
  };
  if (room.spread) std::ranges::stable_sort(result, std::greater(), needed);
  std::ranges::stable_partition(result,
                                [&](const Gpu& source) { return !last.contains(source.gpu_id); });
  return result;
}

}  // namespace

Result<Assignment> plan(std::span<const Gpu> saved, std::span<const Gpu> targets,
                        std::span<const Wish> wishes, const Ignored& ignored, const Room& room,
                        const std::set<uint32_t>& unused) {
  std::set<uint32_t> last = unused;
  for (const Wish& wish : wishes)
    last.erase(saved[TRY(find_called(saved, wish.source, "in the images"))].gpu_id);
  const std::vector<Gpu> sources = in_order(saved, room, last);
  const auto needed = std::span(sources).first(
      std::ranges::count_if(sources, [&](const Gpu& one) { return !last.contains(one.gpu_id); }));
  Search search(sources, needed.size(), targets, ignored, room);
  for (const Wish& wish : wishes) TRY(search.wish(wish));
  if (!search.solve()) return explain(search, needed, targets, ignored, room);
  return search.assignment();
}

}  // namespace amdgpu_criu::topology
