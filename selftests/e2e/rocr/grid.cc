// SPDX-License-Identifier: GPL-2.0
// rocr_grid: work-groups that wait for each other, through a cooperative queue of stock ROCr. In
// each round of a kernel a group works on what its neighbor wrote in the round before; GWS keeps
// them together. The kernel runs until a verdict or the end is requested. A second queue runs on
// the compute units that the step before has chosen; with --full there is none, and the groups fill
// the GPU. A line is printed before the long kernel
// starts, so that a dump can meet waves that wait.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <vector>

#include "rocr/code_object.h"
#include "rocr/hsa.h"
#include "rocr/program.h"
#include "workload/chain_math.h"
#include "workload/control.h"
#include "workload/options.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

constexpr uint32_t kGroup = 256, kGroups = 8, kMaxGroups = 255, kPlaces = 16;
constexpr uint32_t kGroupsOfUnit = 8;  // 4 waves each, of 32

// As in the kernel meet_until.
struct MeetControl {
  uint32_t stop;
  std::array<uint32_t, 2> stopping;
  uint32_t rounds;
};

struct Shared {
  std::array<uint32_t, size_t{2} * kGroup * kMaxGroups> rows;
  MeetControl control;
  std::array<uint32_t, kPlaces> places;
  alignas(64) std::array<std::byte, 64> arguments;
};

struct Workload {
  std::unique_ptr<Runtime> runtime;
  Buffer shared;
  Executable executable;
  Kernel grid_init, meet_until, units_used;
  AqlUserQueue together, elsewhere;
  Signal done_signal;
  unsigned timeout_ms;
  bool full;
  uint32_t groups;        // that wait for each other
  uint32_t units = 0xff;  // of the second queue
  bool in_pairs = false;  // the units of a WGP
  uint64_t done = 0;

  Shared& data() const { return *reinterpret_cast<Shared*>(shared.data()); }
};

// Arguments are of 8 bytes, then of 4.
template <typename... T>
Status submit(const Workload& w, const AqlUserQueue& queue, const Kernel& kernel,
              const AqlUserQueue::Shape& shape, T... values) {
  std::byte* at = w.data().arguments.data();
  ((memcpy(at, &values, sizeof(T)), at += sizeof(T)), ...);
  w.done_signal.store(1);
  return queue.dispatch(kernel, shape, w.data().arguments.data(), &w.done_signal);
}

template <typename... T>
Status launch(const Workload& w, const AqlUserQueue& queue, const Kernel& kernel,
              const AqlUserQueue::Shape& shape, T... values) {
  TRY(submit(w, queue, kernel, shape, values...));
  return kernel_ends(w.done_signal, w.timeout_ms);
}

std::vector<uint32_t> met(std::vector<uint32_t> from, uint32_t rounds) {
  std::vector<uint32_t> to(from.size());
  for (uint32_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < from.size(); ++i)
      to[i] = from[(i + kGroup) % from.size()] * 1664525u + 1013904223u + round;
    from.swap(to);
  }
  return from;
}

Status meet(Workload& w, uint64_t step, uint64_t key) {
  Shared& data = w.data();
  const uint32_t count = kGroup * w.groups;
  std::vector<uint32_t> numbers(count);
  for (uint32_t i = 0; i < count; ++i)
    numbers[i] = static_cast<uint32_t>(key >> (i % 32)) * 2654435761u + i;
  std::ranges::copy(numbers, data.rows.begin());
  TRY(launch(w, w.together, w.grid_init, {{kGroup, 1}, {kGroup, 1}}, w.groups));
  say(amdgpu_criu::formatted("long kernel of step {}", step));
  data.control = {};
  TRY(submit(w, w.together, w.meet_until, {{count, 1}, {kGroup, 1}}, data.rows.data(),
             &data.control.stop, w.groups));
  TRY(held_until_requested(w.done_signal, data.control.stop, w.timeout_ms));
  const uint32_t rounds = data.control.rounds;
  const auto* end = data.rows.data() + (rounds % 2 ? count : 0);
  if (!std::ranges::equal(std::span(end, count), met(numbers, rounds)))
    return Error::of(EBADMSG, "groups have waited for each other in too few rounds");
  return {};
}

// The kernel runs on all units that are enabled, and on no others.
Status look_where(Workload& w) {
  Shared& data = w.data();
  data.places.fill(~0u);
  TRY(launch(w, w.elsewhere, w.units_used, {{kPlaces * 64, 1}, {64, 1}}, data.places.data()));
  uint32_t used = 0;
  for (const uint32_t units : data.places) used |= units;
  w.in_pairs = std::popcount(data.places[0]) == 2;
  if (used != w.units)
    return Error::of(EBADMSG, "a kernel ran on the units {:#x} instead of {:#x}", used, w.units);
  return {};
}

Status step(Workload& w) {
  const uint64_t next = w.done + 1, key = value_at(next);
  if (!w.full) {
    TRY(look_where(w));
    w.units = 1u << (next % 8) | 1u << (next * 3 % 8);
    if (w.in_pairs) w.units |= (w.units & 0x55) << 1 | (w.units & 0xaa) >> 1;
    TRY(w.elsewhere.enable_units(w.units));
  }
  TRY(meet(w, next, key));
  w.done = next;
  say(amdgpu_criu::formatted("step {} value {:#018x}", next, key));
  return {};
}

Result<Workload> set_up(std::unique_ptr<Runtime> runtime, const Options& options) {
  const Runtime& r = *runtime;
  Buffer shared = TRY(Buffer::create(r, Buffer::Place::kHost, sizeof(Shared)));
  Executable executable = TRY(Executable::load(r, code_objects()));
  const Kernel grid_init = TRY(executable.kernel("grid_init"));
  const Kernel meet_until = TRY(executable.kernel("meet_until"));
  const Kernel units_used = TRY(executable.kernel("units"));
  AqlUserQueue together = TRY(AqlUserQueue::create_with(r, {.cooperative = true}));
  AqlUserQueue elsewhere = TRY(AqlUserQueue::create(r));
  Signal done_signal = TRY(Signal::create(1));
  const uint32_t groups = options.full ? TRY(r.compute_units()) * kGroupsOfUnit : kGroups;
  if (groups > kMaxGroups) return Error::of(E2BIG, "{} work-groups fill the GPU", groups);
  return Workload{std::move(runtime),
                  std::move(shared),
                  std::move(executable),
                  grid_init,
                  meet_until,
                  units_used,
                  std::move(together),
                  std::move(elsewhere),
                  std::move(done_signal),
                  options.timeout_s * 1000,
                  options.full,
                  groups};
}

bool run(Workload& w, const Options& options) {
  while (!stop_requested() && (!options.steps || w.done < options.steps)) {
    const Status status = step(w);
    if (!status.ok()) {
      say("stopped: " + status.error().message());
      return false;
    }
    if (take_verify_request()) give_verdict("verify", w.done, {});
    pause_ms(options.interval_ms);
  }
  return give_verdict("final", w.done, {});
}

int main_with(const Options& options) {
  return run_program(
      options, set_up, [](const Workload&) { return Status(); },
      [](const Workload& w) { return w.shared.size(); },
      [](Workload& w, const Options& o) { return run(w, o) ? kGood : kDamaged; });
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"rocr_grid",
       "Work-groups that wait for each other (GWS), and kernels on chosen compute units, through\n"
       "stock ROCr.",
       "--full --steps --interval --timeout"},
      argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_with(parsed.options);
}
