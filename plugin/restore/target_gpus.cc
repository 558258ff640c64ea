// SPDX-License-Identifier: GPL-2.0
#include "restore/target_gpus.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

#include "base/log.h"

namespace amdgpu_criu::restore {

using topology::Assignment;
using topology::Gpu;

// Lives in memory shared over fork. Behind it are the targets, in the order of the sources, and one
// more than how often each GPU of this machine had lost its memory when it was opened first, or 0.
struct TargetGpus::Choice {
  enum State : uint32_t { kFirst, kChanging, kSettled };
  std::atomic<uint32_t> state;
};

namespace {

// Between two stores to memory.
constexpr std::chrono::seconds kLongestChange{30};
constexpr std::chrono::milliseconds kPoll{1};
// The kernel frees memory of a process some time after its end.
constexpr std::chrono::seconds kFreedWithin{2};
// Before another GPU is chosen.
constexpr std::chrono::milliseconds kFreedSoon{500};
// Other restores allocate what they have reserved within this time.
constexpr std::chrono::seconds kTakenWithin{60};
constexpr std::chrono::milliseconds kMemoryPoll{100};

template <typename Predicate>
std::vector<Gpu> only(const std::vector<Gpu>& gpus, const Predicate& predicate) {
  std::vector<Gpu> result;
  std::ranges::copy_if(gpus, std::back_inserter(result), predicate);
  return result;
}

std::string names_of(const std::vector<Gpu>& gpus) {
  std::string names;
  for (const Gpu& gpu : gpus) names += (names.empty() ? "" : ", ") + gpu.describe();
  return names;
}

const Gpu& find(const std::vector<Gpu>& gpus, uint32_t gpu_id) {
  return *std::ranges::find(gpus, gpu_id, &Gpu::gpu_id);
}

}  // namespace

TargetGpus::TargetGpus(const RestoreContext& environment, Nodes nodes, const image::Set& images,
                       Gpus here)
    : env_(environment), nodes_(nodes), here_(std::move(here)) {
  for (const auto& [gpu_id, gpu] : images.gpus()) {
    sources_.push_back(gpu);
    if (!images.used_gpus().contains(gpu_id)) unused_.insert(gpu_id);
  }
}

Result<TargetGpus> TargetGpus::create(const RestoreContext& environment, const image::Set& images,
                                      const Interruption& interruption) {
  const bool needs_kfd = std::ranges::any_of(
      images.processes(), [](const auto& entry) { return entry.second.blob.has_value(); });
  if (needs_kfd && !environment.host.has_kfd())
    return Error(ENODEV, "the images hold state of /dev/kfd, which this machine lacks");
  const Nodes nodes = TRY(Nodes::create(environment.host, environment.store));
  Gpus here;
  if (!images.gpus().empty()) here = TRY(environment.host.gpus());
  TargetGpus machine(environment, nodes, images, std::move(here));
  TRY(machine.make_first_choice(images, interruption));
  return machine;
}

Status TargetGpus::make_first_choice(const image::Set& images, const Interruption& interruption) {
  static_assert(std::atomic<uint32_t>::is_always_lock_free);
  const size_t numbers = sources_.size() + here_.size();
  shared_ = TRY(Mapping::map(sizeof(Choice) + numbers * sizeof(std::atomic<uint32_t>),
                             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS));
  new (shared_.data()) Choice{Choice::kFirst};
  for (auto& target : chosen()) new (&target) std::atomic<uint32_t>(0);
  for (auto& count : losses()) new (&count) std::atomic<uint32_t>(0);
  room_.spread = env_.options.replicas;
  needed_ = images.kfd_vram();
  for (const auto& [index, vram] : needed_)
    for (const auto& [source, bytes] : vram) room_.needed[source] += bytes;
  TRY(find_candidates());
  if (!sources_.empty()) choose(TRY(plan_with_room(interruption)));
  return {};
}

// Places in the order of render nodes are those among all GPUs of this machine.
Status TargetGpus::resolve_map() {
  for (topology::Wish& wish : env_.options.map) {
    const Gpu& gpu = here_[TRY(topology::find_called(here_, wish.target, "on this machine"))];
    wish.target = formatted("{:#x}", gpu.gpu_id);
  }
  return {};
}

// The device cgroup decides what the task may open. crun sets its rules only after the restore, so
// a GPU that the container lacks is chosen only if the user names it.
Status TargetGpus::find_candidates() {
  candidates_ = here_;
  if (sources_.empty()) return {};
  TRY(resolve_map());
  const auto minors = env_.host.render_minors_of_container();
  if (minors.empty()) return {};
  const Gpus listed =
      only(here_, [&](const Gpu& gpu) { return minors.contains(gpu.render_minor); });
  candidates_ = only(here_, [&](const Gpu& gpu) {
    const auto names = [&](const auto& wish) {
      return wish.target == formatted("{:#x}", gpu.gpu_id);
    };
    return minors.contains(gpu.render_minor) || std::ranges::any_of(env_.options.map, names);
  });
  if (auto fitting = plan(candidates_, {}); !fitting.ok())
    return std::move(fitting).error().within(formatted(
        "the container may have no other GPUs than those that its configuration lists ({}) and "
        "amdgpu.map names, and they do not fit",
        listed.empty() ? "none of this machine" : names_of(listed)));
  log_info("the configuration of the container lists {} GPUs of this machine", listed.size());
  return {};
}

// If CRIU has no descriptor store yet, only the tasks may open /dev/kfd.
void TargetGpus::look_at_memory() {
  if (room_.needed.empty() || !env_.store.is_ready()) return;
  const auto kfd = nodes_.open_kfd();
  if (!kfd.ok()) return;
  for (const Gpu& gpu : here_) {
    const auto free = env_.api.available_memory(*kfd, gpu.gpu_id);
    if (!free.ok()) continue;
    room_.free[gpu.gpu_id] = *free;
    // KFD counts no memory of render nodes.
    const uint64_t size = gpu.property("vram_size");
    const uint64_t used = env_.host.vram_used(gpu.render_minor).value_or(0);
    room_.unused[gpu.gpu_id] = std::min(*free, size - std::min(used, size));
  }
}

Reservation::Bytes TargetGpus::needed_by(const Assignment& targets) const {
  Reservation::Bytes result;
  for (const auto& [source, bytes] : room_.needed) result[targets.at(source)] += bytes;
  return result;
}

// Reserves the memory that it chooses. fits_without_others: the plan fails only because of the
// reservations of other restores.
Result<Assignment> TargetGpus::try_plan(bool& fits_without_others) {
  if (room_.needed.empty()) return plan(candidates_);
  auto turn = Reservation::begin(env_.host.run_directory());
  look_at_memory();
  auto without_others = plan(candidates_);
  fits_without_others = without_others.ok();
  if (!turn.ok()) {
    log_warning("GPU memory is not reserved: {}", turn.error().message());
    return without_others;
  }
  for (const auto& [gpu_id, bytes] : turn->of_others())
    for (auto* amounts : {&room_.free, &room_.unused})
      if (const auto left = amounts->find(gpu_id); left != amounts->end())
        left->second -= std::min(bytes, left->second);
  Assignment result = TRY(plan(candidates_));
  if (const Status taken = turn->take(needed_by(result)); !taken.ok())
    log_warning("GPU memory is not reserved: {}", taken.error().message());
  reservation_.emplace(std::move(*turn));
  reserved_on_ = result;
  return result;
}

void TargetGpus::note_allocated(uint32_t process) const {
  if (!reservation_) return;
  for (const auto& [source, bytes] : needed_.at(process))
    reservation_->allocated(reserved_on_.at(source), bytes);
}

// Reservations of others end soon, and memory of ended processes becomes free soon: that of the
// saved process itself, if it was killed a moment ago.
Result<Assignment> TargetGpus::plan_with_room(const Interruption& interruption) {
  const auto start = std::chrono::steady_clock::now();
  const auto preferred = plan(candidates_, {});
  bool fits_without_others = false;
  auto result = try_plan(fits_without_others);
  // Waiting helps only if memory is missing.
  if (!preferred.ok()) return result;
  const auto patience = [&]() -> std::chrono::milliseconds {
    if (!result.ok()) return fits_without_others ? kTakenWithin : kFreedWithin;
    return room_.spread || *result == *preferred ? std::chrono::milliseconds(0) : kFreedSoon;
  };
  while (std::chrono::steady_clock::now() < start + patience()) {
    if (Status status = interruption.check(); !status.ok())
      return result.ok() ? std::move(status).error()
                         : std::move(status).error().within(result.error().message());
    reservation_.reset();
    std::this_thread::sleep_for(kMemoryPoll);
    result = try_plan(fits_without_others);
  }
  return result;
}

TargetGpus::Choice& TargetGpus::choice() const {
  return *std::launder(reinterpret_cast<Choice*>(shared_.data()));
}

std::span<std::atomic<uint32_t>> TargetGpus::chosen() const {
  return {reinterpret_cast<std::atomic<uint32_t>*>(shared_.data() + sizeof(Choice)),
          sources_.size()};
}

std::span<std::atomic<uint32_t>> TargetGpus::losses() const {
  return {chosen().data() + sources_.size(), here_.size()};
}

void TargetGpus::choose(const Assignment& targets) const {
  for (size_t i = 0; i < sources_.size(); i++) {
    const uint32_t source = sources_[i].gpu_id;
    const auto found = targets.find(source);
    const uint32_t target = found == targets.end() ? 0 : found->second;
    chosen()[i] = target;
    if (is_used(sources_[i]))
      log_info("GPU {:#x} of the images is restored on GPU {:#x}", source, target);
    else if (target)
      log_info("GPU {:#x} of the images, which no process uses, is GPU {:#x} here", source, target);
    else
      log_info("GPU {:#x} of the images, which no process uses, is left out", source);
  }
}

Result<Assignment> TargetGpus::plan(const Gpus& among, const topology::Room& room) const {
  return topology::plan(sources_, among, env_.options.map, env_.options.ignore, room, unused_);
}

// Prefers GPUs that have a node in the task's /dev to others that it may open.
Result<Assignment> TargetGpus::plan_in_task() const {
  const Gpus own =
      only(candidates_, [&](const Gpu& gpu) { return nodes_.has_render(gpu.render_minor); });
  if (auto result = plan(own); result.ok()) return result;
  const Gpus all =
      only(candidates_, [&](const Gpu& gpu) { return nodes_.may_open_render(gpu.render_minor); });
  auto result = plan(all);
  if (result.ok()) return result;
  return std::move(result).error().within(formatted(
      "the processes may open {} where they are restored", all.empty() ? "no GPU" : names_of(all)));
}

// The container's /dev is restored from the images, and may lack the node of a GPU that it gets.
bool TargetGpus::suits_task() const {
  const bool listed = candidates_.size() < here_.size();
  return std::ranges::all_of(sources_, [&](const Gpu& source) {
    if (!is_used(source)) return true;
    const unsigned minor = find(here_, target(source.gpu_id)).render_minor;
    return listed ? nodes_.may_open_render(minor) : nodes_.has_render(minor);
  });
}

// The device cgroup of the task hides them from KFD.
void TargetGpus::leave_out_closed(Assignment& targets) const {
  std::erase_if(targets, [&](const auto& pair) {
    return unused_.contains(pair.first) &&
           !nodes_.may_open_render(find(here_, pair.second).render_minor);
  });
}

Status TargetGpus::settle() const {
  std::atomic<uint32_t>& state = choice().state;
  uint32_t seen = Choice::kFirst;
  if (state == Choice::kSettled || sources_.empty()) return {};
  Assignment other = suits_task() ? targets() : TRY(plan_in_task());
  leave_out_closed(other);
  if (state.compare_exchange_strong(seen, Choice::kChanging)) {
    if (other != targets()) {
      log_info("the container has other GPUs than the chosen ones");
      choose(other);
    }
    state = Choice::kSettled;
    return {};
  }
  const auto end = std::chrono::steady_clock::now() + kLongestChange;
  while (state != Choice::kSettled) {
    if (std::chrono::steady_clock::now() > end)
      return Error(ETIMEDOUT, "the task that was to choose the GPUs is gone");
    std::this_thread::sleep_for(kPoll);
  }
  return {};
}

Assignment TargetGpus::targets() const {
  Assignment result;
  for (size_t i = 0; i < sources_.size(); i++)
    if (const uint32_t target = chosen()[i]) result[sources_[i].gpu_id] = target;
  return result;
}

uint32_t TargetGpus::target(uint32_t source) const {
  const auto found = std::ranges::find(sources_, source, &Gpu::gpu_id);
  return found == sources_.end() ? 0 : chosen()[found - sources_.begin()].load();
}

Result<Fd> TargetGpus::open_render(uint32_t source) const {
  const auto gpu = std::ranges::find(here_, target(source), &Gpu::gpu_id);
  if (gpu == here_.end())
    return Error::of(EPROTO, "GPU {:#x} of the images is needed, but left out", source);
  Fd file = TRY(nodes_.open_render(gpu->render_minor));
  TRY(check_losses(*gpu, file));
  return file;
}

Status TargetGpus::check_losses(const Gpu& gpu, const Fd& file) const {
  const uint32_t now = TRY(env_.count_losses(file)) + 1;
  uint32_t first = 0;
  if (losses()[&gpu - here_.data()].compare_exchange_strong(first, now) || first == now) return {};
  return Error::of(ENODATA,
                   "{} was reset during the restore, and its memory was lost: restore once more",
                   gpu.describe());
}

Status TargetGpus::watch_memory() {
  for (const auto& [source, target] : targets()) {
    const Gpu& gpu = find(here_, target);
    if (losses()[&gpu - here_.data()] != 0)
      watched_[target] = TRY(nodes_.open_render(gpu.render_minor));
  }
  return check_memory();
}

Status TargetGpus::check_memory() const {
  for (const auto& [gpu_id, file] : watched_) TRY(check_losses(find(here_, gpu_id), file));
  return {};
}

}  // namespace amdgpu_criu::restore
