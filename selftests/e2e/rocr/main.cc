// SPDX-License-Identifier: GPL-2.0
// rocr_chain: a process that uses the GPU through stock ROCr. Step n copies a block from host to
// device, goes through a barrier packet of an AQL queue, and copies the block back, each waiting
// for the previous one by signals. kAhead further steps are always submitted, behind closed gates.
#include <unistd.h>

#include <atomic>
#include <optional>
#include <vector>

#include "rocr/hsa.h"
#include "rocr/program.h"
#include "workload/chain_math.h"
#include "workload/control.h"
#include "workload/options.h"
#include "workload/pattern.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

constexpr size_t kBlock = 64 << 10;
constexpr size_t kValue = 36 << 10;
constexpr size_t kStaging = 4 << 20;
constexpr unsigned kAhead = 8;
constexpr unsigned kSlots = 2 * kAhead;
constexpr uint64_t kBlockSeed = 0xb10c, kDeviceSeed = 1, kHostSeed = 2;

struct Slot {
  Signal gate, on_device, passed, on_host;
};

Result<Slot> make_slot() {
  return Slot{TRY(Signal::create(1)), TRY(Signal::create(1)), TRY(Signal::create(1)),
              TRY(Signal::create(1))};
}

struct Workload {
  std::unique_ptr<Runtime> runtime;
  Buffer device, host, staging;       // the data, and the buffer to check it
  Buffer block_in, block, block_out;  // host, device, host
  AqlUserQueue queue;
  Signal copied;
  std::vector<Slot> slots;
  std::unique_ptr<std::atomic<uint64_t>> handled;  // steps that the runtime's thread has reported
  unsigned timeout_ms;
  uint64_t done = 0;
};

Status copy_now(const Workload& w, const Buffer& to, size_t to_at, const Buffer& from,
                size_t from_at, size_t size) {
  w.copied.store(1);
  TRY(async_copy(to, to_at, from, from_at, size, nullptr, w.copied));
  if (!w.copied.wait_for(0, w.timeout_ms)) return Error::of(ETIMEDOUT, "a copy did not complete");
  return {};
}

void put_value(std::byte* block, uint64_t value) { memcpy(block + kValue, &value, sizeof(value)); }

Status submit(Workload& w, uint64_t step) {
  const Slot& slot = w.slots[step % kSlots];
  for (const Signal* signal : {&slot.gate, &slot.on_device, &slot.passed, &slot.on_host})
    signal->store(1);
  TRY(slot.on_host.when_zero(
      [](void* counter) { static_cast<std::atomic<uint64_t>*>(counter)->fetch_add(1); },
      w.handled.get()));
  TRY(async_copy(w.block, 0, w.block_in, 0, kBlock, &slot.gate, slot.on_device));
  TRY(w.queue.barrier(slot.on_device, slot.passed));
  return async_copy(w.block_out, 0, w.block, 0, kBlock, &slot.passed, slot.on_host);
}

Result<Workload> set_up(std::unique_ptr<Runtime> runtime, const Options& options) {
  const Runtime& r = *runtime;
  using Place = Buffer::Place;
  Buffer device = TRY(Buffer::create(r, Place::kDevice, options.vram_mib << 20));
  Buffer host = TRY(Buffer::create(r, Place::kHost, options.gtt_mib << 20));
  Buffer staging = TRY(Buffer::create(r, Place::kHost, kStaging));
  Buffer block_in = TRY(Buffer::create(r, Place::kHost, kBlock));
  Buffer block = TRY(Buffer::create(r, Place::kDevice, kBlock));
  Buffer block_out = TRY(Buffer::create(r, Place::kHost, kBlock));
  AqlUserQueue queue = TRY(AqlUserQueue::create(r));
  Signal copied = TRY(Signal::create(1));
  std::vector<Slot> slots;
  for (unsigned i = 0; i < kSlots; ++i) slots.push_back(TRY(make_slot()));
  return Workload{std::move(runtime),
                  std::move(device),
                  std::move(host),
                  std::move(staging),
                  std::move(block_in),
                  std::move(block),
                  std::move(block_out),
                  std::move(queue),
                  std::move(copied),
                  std::move(slots),
                  std::make_unique<std::atomic<uint64_t>>(0),
                  options.timeout_s * 1000};
}

Status start(Workload& w) {
  Pattern(kHostSeed).fill(w.host.bytes());
  for (size_t at = 0; at < w.device.size(); at += kStaging) {
    const auto part = w.staging.bytes().first(std::min(kStaging, w.device.size() - at));
    Pattern(kDeviceSeed).fill(part, at);
    TRY(copy_now(w, w.device, at, w.staging, 0, part.size()));
  }
  Pattern(kBlockSeed).fill(w.block_in.bytes());
  for (uint64_t step = 1; step <= kAhead; ++step) TRY(submit(w, step));
  return {};
}

std::string progress(const Slot& slot) {
  return amdgpu_criu::formatted("signals: gate {} on device {} passed {} on host {}",
                                slot.gate.load(), slot.on_device.load(), slot.passed.load(),
                                slot.on_host.load());
}

bool block_is_right(const Buffer& block, uint64_t value) {
  uint64_t found;
  memcpy(&found, block.data() + kValue, sizeof(found));
  const Pattern pattern(kBlockSeed);
  return found == value && !pattern.check(block.bytes().first(kValue)) &&
         !pattern.check(block.bytes().subspan(kValue + 8), kValue + 8);
}

// Lets the next submitted step run.
Status run_step(Workload& w) {
  const uint64_t step = w.done + 1;
  const Slot& slot = w.slots[step % kSlots];
  memset(w.block_out.data(), 0xee, kBlock);
  put_value(w.block_in.data(), value_at(step));
  slot.gate.store(0);
  if (!slot.on_host.wait_for(0, w.timeout_ms))
    return Error::of(ETIMEDOUT, "step {} is not complete after {} s: {}", step, w.timeout_ms / 1000,
                     progress(slot));
  if (!block_is_right(w.block_out, value_at(step)))
    return Error::of(EBADMSG, "step {}: the copied block is wrong", step);
  for (unsigned ms = 0; w.handled->load() < step; ++ms) {
    if (ms > w.timeout_ms)
      return Error::of(ETIMEDOUT, "step {}: the runtime's event thread reported {} steps", step,
                       w.handled->load());
    pause_ms(1);
  }
  w.done = step;
  say(amdgpu_criu::formatted("step {} value {:#018x}", w.done, value_at(w.done)));
  return {};
}

Status step(Workload& w) {
  TRY(run_step(w));
  return submit(w, w.done + kAhead);
}

Status check_device(const Workload& w, std::vector<std::string>& problems) {
  for (size_t at = 0; at < w.device.size(); at += kStaging) {
    const auto part = w.staging.bytes().first(std::min(kStaging, w.device.size() - at));
    memset(part.data(), 0xee, part.size());
    TRY(copy_now(w, w.staging, 0, w.device, at, part.size()));
    if (const auto damage = Pattern(kDeviceSeed).check(part, at))
      problems.push_back(amdgpu_criu::formatted("device memory: {} bytes wrong, first at {:#x}",
                                                damage->bytes, damage->first_offset));
  }
  return {};
}

Status check_all(Workload& w, std::vector<std::string>& problems) {
  // The runtime has one SDMA queue for each direction: waiting steps would block the comparison.
  for (unsigned i = 0; i < kAhead; ++i) TRY(run_step(w));
  TRY(check_device(w, problems));
  if (const auto damage = Pattern(kHostSeed).check(w.host.bytes()))
    problems.push_back(amdgpu_criu::formatted("host memory: {} bytes wrong, first at {:#x}",
                                              damage->bytes, damage->first_offset));
  for (unsigned i = 1; i <= kAhead; ++i) TRY(submit(w, w.done + i));
  return {};
}

bool verify(Workload& w, const char* word) {
  std::vector<std::string> problems;
  const Status status = check_all(w, problems);
  if (!status.ok()) problems.push_back(status.error().message());
  for (const std::string& problem : problems) say("damage: " + problem);
  if (problems.empty())
    say(amdgpu_criu::formatted("{} ok: step {} bos 2 bytes {}", word, w.done,
                               w.device.size() + w.host.size()));
  else
    say(amdgpu_criu::formatted("{} FAILED: step {} problems {}", word, w.done, problems.size()));
  return problems.empty();
}

bool run(Workload& w, const Options& options) {
  while (!stop_requested() && (!options.steps || w.done < options.steps)) {
    const Status status = step(w);
    if (!status.ok()) {
      say("stopped: " + status.error().message());
      return false;
    }
    // A comparison that failed may have left steps half submitted: stop.
    if (take_verify_request() && !verify(w, "verify")) return false;
    pause_ms(options.interval_ms);
  }
  return verify(w, "final");
}

int main_with(const Options& options) {
  return run_program(
      options, set_up, start, [](const Workload& w) { return w.device.size() + w.host.size(); },
      [](Workload& w, const Options& o) -> int {
        const bool good = run(w, o);
        // The runtime's threads still hold submitted steps, which only the end of the process ends.
        _exit(good ? kGood : kDamaged);
      });
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"rocr_chain",
       "Copies and barrier packets through stock ROCr, each step dependent on the previous;\n"
       "device (--vram) and host (--gtt) memory filled with a pattern. No kernels are dispatched.",
       "--vram --gtt --steps --interval --timeout"},
      argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_with(parsed.options);
}
