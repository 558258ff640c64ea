// SPDX-License-Identifier: GPL-2.0
// rocr_parked: two waves that wait, with known numbers in registers of each kind and in LDS,
// until SIGTERM. Prints these registers as saved_waves does. At its end the waves hash what they
// have, and the hashes are compared with the CPU's.
#include <array>
#include <cstring>
#include <vector>

#include "rocr/code_object.h"  // built from selftests/gpu/shader/kernels/parked.s
#include "rocr/hsa.h"
#include "rocr/program.h"
#include "workload/control.h"
#include "workload/options.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::formatted;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

constexpr uint32_t kItems = 128, kLanes = 64, kParked = 1;  // the wave at the barrier
// As in the kernel.
constexpr uint32_t kSBase = 0x5a000000, kVBase = 0xa0000000, kABase = 0xc0000000,
                   kLdsBase = 0xe0000000;
constexpr uint32_t kSFirst = 16, kSCount = 80, kVFirst = 2, kVCount = 22;

struct Mailbox {
  uint64_t released;
  uint64_t pc;
  std::array<uint32_t, kItems> results;
  alignas(64) std::array<std::byte, 64> arguments;
};

struct Workload {
  std::unique_ptr<Runtime> runtime;
  Buffer shared;
  Executable executable;
  Kernel kernel;
  AqlUserQueue queue;
  Signal ended;
  unsigned timeout_ms;
  uint32_t accumulators;  // registers that gfx11 lacks

  Mailbox& mail() const { return *reinterpret_cast<Mailbox*>(shared.data()); }
};

uint32_t sgpr(uint32_t wave, uint32_t number) { return kSBase + (wave << 16) + number; }
uint32_t of_item(uint32_t base, uint32_t item, uint32_t number) {
  return base + (item << 8) + number;
}

uint32_t hash(uint32_t item, uint32_t accumulators) {
  uint32_t sum = 0;
  const auto add = [&](uint32_t value) { sum = sum * 0x01000193 + value; };
  for (uint32_t i = kVFirst; i < kVFirst + kVCount; ++i) add(of_item(kVBase, item, i));
  for (uint32_t i = kSFirst; i < kSFirst + kSCount; ++i) add(sgpr(item / kLanes, i));
  for (uint32_t i = 0; i < accumulators; ++i) add(of_item(kABase, item, i));
  add(of_item(kLdsBase, item, 0));
  return sum;
}

void say_lanes(uint32_t wave, const char* kind, uint32_t base, uint32_t number) {
  std::string line = formatted("group 0 wave {} {}{}", wave, kind, number);
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    line += formatted(" {:08x}", of_item(base, wave * kLanes + lane, number));
  say(line);
}

void say_registers(uint64_t pc, uint32_t accumulators) {
  for (uint32_t wave = 0; wave < kItems / kLanes; ++wave) {
    for (uint32_t i = kVFirst; i < kVFirst + kVCount; ++i) say_lanes(wave, "v", kVBase, i);
    for (uint32_t i = 0; i < accumulators; ++i) say_lanes(wave, "a", kABase, i);
    for (uint32_t i = kSFirst; i < kSFirst + kSCount; ++i)
      say(formatted("group 0 wave {} s{} {:08x}", wave, i, sgpr(wave, i)));
  }
  for (uint32_t item = 0; item < kItems; ++item)
    say(formatted("group 0 wave 0 lds{} {:08x}", item, of_item(kLdsBase, item, 0)));
  say(formatted("group 0 wave {} pc {:016x}", kParked, pc));
}

Result<Workload> set_up(std::unique_ptr<Runtime> runtime, const Options& options) {
  Buffer shared = TRY(Buffer::create(*runtime, Buffer::Place::kHost, sizeof(Mailbox)));
  memset(shared.data(), 0, shared.size());
  Executable executable = TRY(Executable::load(*runtime, code_objects()));
  const Kernel kernel = TRY(executable.kernel("parked"));
  AqlUserQueue queue = TRY(AqlUserQueue::create(*runtime));
  Signal ended = TRY(Signal::create(1));
  const uint32_t accumulators = TRY(runtime->isa()) == "gfx1100" ? 0 : 8;
  return Workload{std::move(runtime), std::move(shared), std::move(executable),    kernel,
                  std::move(queue),   std::move(ended),  options.timeout_s * 1000, accumulators};
}

Status start(Workload& w) {
  Mailbox* const mail = &w.mail();
  const auto address = reinterpret_cast<uintptr_t>(mail);
  memcpy(mail->arguments.data(), &address, sizeof(address));
  TRY(w.queue.dispatch(w.kernel, {{kItems, 1}, {kItems, 1}}, mail->arguments.data(), &w.ended));
  for (unsigned ms = 0; !__atomic_load_n(&mail->pc, __ATOMIC_ACQUIRE); ++ms) {
    if (ms > w.timeout_ms) return Error::of(ETIMEDOUT, "no wave arrives at the barrier");
    pause_ms(1);
  }
  pause_ms(200);  // a few instructions to the barrier
  say_registers(mail->pc, w.accumulators);
  return {};
}

int run(Workload& w, const Options&) {
  while (!stop_requested()) {
    if (take_verify_request()) give_verdict("verify", 0, {});
    pause_ms(10);
  }
  __atomic_store_n(&w.mail().released, 1, __ATOMIC_RELEASE);
  std::vector<std::string> problems;
  if (!w.ended.wait_for(0, w.timeout_ms)) problems.push_back("the kernel does not end");
  for (uint32_t item = 0; item < kItems && w.ended.load() == 0; ++item)
    if (w.mail().results[item] != hash(item, w.accumulators))
      problems.push_back(formatted("the hash of work-item {} is wrong", item));
  return give_verdict("final", 0, problems) ? kGood : kDamaged;
}

int main_with(const Options& options) {
  return run_program(
      options, set_up, start, [](const Workload& w) { return w.shared.size(); }, run);
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"rocr_parked", "Waves that wait, with known numbers in their registers.", "--timeout"}, argc,
      argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_with(parsed.options);
}
