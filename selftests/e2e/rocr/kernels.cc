// SPDX-License-Identifier: GPL-2.0
// rocr_kernels: compiled kernels launched through stock ROCr, each result compared with the CPU's.
// Step n draws numbers (Philox) with a key made of n, sums them through LDS, counts their bytes
// with atomics, works on them in private memory, sorts them, and multiplies two matrices. With
// --held N a step ends with a kernel of N work-groups that runs until a verdict or the end is
// requested. A line is
// printed before it starts, so that a dump can meet its waves. With --plain the data is in ordinary
// memory, which each step gives back first: the GPU finds no page of it mapped (XNACK). Device
// memory that no step changes is compared for a verdict.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "rocr/code_object.h"  // built from selftests/gpu/shader/kernels/basic.cl
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

constexpr uint32_t kNumbers = 2048, kGroup = 256, kMatrix = 32, kPrivateRounds = 20;
constexpr uint32_t kChurned = kHeldMax * kGroup;
static_assert(kNumbers == 8 * kGroup);  // the kernel sort
constexpr uint64_t kDeviceSeed = 3;
constexpr size_t kStaging = 4 << 20;

// The places of a step's data in the buffer that the GPU and the CPU share.
struct Shared {
  std::array<uint32_t, kNumbers> numbers, stirred, sorted;
  std::array<uint32_t, kNumbers / kGroup / 4> sums;
  std::array<uint32_t, 256> counts;
  std::array<uint32_t, kChurned> churned;
  std::array<uint32_t, kChurned / kGroup> rounds;
  uint32_t stop;
  std::array<float, size_t{kMatrix} * kMatrix> a, b, product;
  alignas(64) std::array<std::byte, 64> arguments;
};

struct Kernels {
  Kernel philox, reduce, histogram, private_memory, sort, matrix_multiply, churn_until;
};

struct Workload {
  std::unique_ptr<Runtime> runtime;
  Buffer device, staging, shared;
  amdgpu_criu::Mapping plain;  // if there is one, instead of the shared buffer
  Executable executable;
  Kernels kernels;
  AqlUserQueue queue;
  Signal done_signal;
  unsigned timeout_ms;
  unsigned held;  // work-groups
  uint64_t done = 0;

  Shared& data() const {
    return *reinterpret_cast<Shared*>(plain.size() ? plain.bytes().data() : shared.data());
  }
};

std::vector<uint32_t> philox_numbers(uint32_t key0, uint32_t key1) {
  std::vector<uint32_t> out;
  for (uint32_t counter = 0; counter < kNumbers / 4; ++counter) {
    std::array<uint32_t, 4> c = {counter, 0, 0, 0};
    uint32_t k0 = key0, k1 = key1;
    for (int round = 0; round < 10; ++round, k0 += 0x9e3779b9, k1 += 0xbb67ae85) {
      const uint64_t p0 = uint64_t{0xd2511f53} * c[0], p1 = uint64_t{0xcd9e8d57} * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    }
    out.insert(out.end(), c.begin(), c.end());
  }
  return out;
}

uint32_t stir(uint32_t value) {
  uint32_t sum = 0;
  for (uint32_t k = 0; k < kPrivateRounds; ++k) sum += (value * ((value + k * 7) % 24 + 1)) ^ k;
  return sum;
}

// The kernel churn_until: each number becomes a function of its neighbor's in the same work-group.
void churn(std::span<uint32_t> group, uint32_t rounds) {
  for (uint32_t round = 0; round < rounds; ++round) {
    const uint32_t first = group[0];
    for (size_t i = 0; i < group.size(); ++i) {
      const uint32_t neighbor = i + 1 < group.size() ? group[i + 1] : first;
      group[i] = neighbor * 1664525u + 1013904223u + round;
    }
  }
}

// The arguments one behind the other, aligned to their size.
template <typename... T>
Status submit(const Workload& w, const Kernel& kernel, const AqlUserQueue::Shape& shape,
              T... values) {
  std::byte* const start = w.data().arguments.data();
  size_t at = 0;
  const auto add = [&](auto value) {
    at = (at + sizeof(value) - 1) / sizeof(value) * sizeof(value);
    memcpy(start + at, &value, sizeof(value));
    at += sizeof(value);
  };
  (add(values), ...);
  w.done_signal.store(1);
  return w.queue.dispatch(kernel, shape, start, &w.done_signal);
}

template <typename... T>
Status launch(const Workload& w, const Kernel& kernel, const AqlUserQueue::Shape& shape,
              T... values) {
  TRY(submit(w, kernel, shape, values...));
  return kernel_ends(w.done_signal, w.timeout_ms);
}

Status launch_all(Workload& w, uint32_t key0, uint32_t key1) {
  Shared& data = w.data();
  const Kernels& k = w.kernels;
  TRY(launch(w, k.philox, {{kNumbers / 4, 1}, {kGroup, 1}}, data.numbers.data(), key0, key1));
  data.stirred = data.sorted = data.numbers;
  data.counts.fill(0);
  for (uint32_t i = 0; i < kMatrix * kMatrix; ++i) {
    data.a[i] = static_cast<float>(data.numbers[i] >> 8) * 0x1p-24f;
    data.b[i] = static_cast<float>(data.numbers[kNumbers - 1 - i] >> 8) * 0x1p-24f;
  }
  TRY(launch(w, k.reduce, {{kNumbers / 4, 1}, {kGroup, 1}}, data.numbers.data(), data.sums.data(),
             kNumbers));
  TRY(launch(w, k.histogram, {{4 * kGroup, 1}, {kGroup, 1}}, data.numbers.data(),
             data.counts.data(), uint32_t{sizeof(data.numbers)}));
  TRY(launch(w, k.private_memory, {{kNumbers, 1}, {kGroup, 1}}, data.stirred.data(),
             kPrivateRounds));
  TRY(launch(w, k.sort, {{kGroup, 1}, {kGroup, 1}}, data.sorted.data()));
  return launch(w, k.matrix_multiply, {{kMatrix, kMatrix}, {16, 16}}, data.a.data(), data.b.data(),
                data.product.data(), kMatrix);
}

// A kernel that was started again instead of continued would give other numbers.
Status launch_held(Workload& w, uint64_t step) {
  Shared& data = w.data();
  const uint32_t size = w.held * kGroup;
  std::vector<uint32_t> expected(data.numbers.begin(), data.numbers.begin() + size);
  std::ranges::copy(expected, data.churned.begin());
  data.stop = 0;
  say(amdgpu_criu::formatted("long kernel of step {}", step));
  TRY(submit(w, w.kernels.churn_until, {{size, 1}, {kGroup, 1}}, data.churned.data(),
             data.rounds.data(), &data.stop));
  TRY(held_until_requested(w.done_signal, data.stop, w.timeout_ms));
  for (size_t group = 0; group < w.held; ++group)
    churn(std::span(expected).subspan(group * kGroup, kGroup), data.rounds[group]);
  if (!std::ranges::equal(expected, std::span(data.churned).first(size)))
    return Error::of(EBADMSG, "a number of the long kernel is wrong");
  return {};
}

Status check_product(const Shared& data) {
  for (uint32_t row = 0; row < kMatrix; ++row) {
    for (uint32_t column = 0; column < kMatrix; ++column) {
      float sum = 0;
      for (uint32_t k = 0; k < kMatrix; ++k)
        sum = std::fma(data.a[row * kMatrix + k], data.b[k * kMatrix + column], sum);
      if (data.product[row * kMatrix + column] != sum)
        return Error::of(EBADMSG, "the product is wrong at {}, {}", row, column);
    }
  }
  return {};
}

Status check_results(const Shared& data, uint32_t key0, uint32_t key1) {
  const std::vector<uint32_t> numbers = philox_numbers(key0, key1);
  std::array<uint32_t, 256> counts = {};
  std::array<uint32_t, kNumbers / kGroup / 4> sums = {};
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (data.numbers[i] != numbers[i]) return Error::of(EBADMSG, "number {} is wrong", i);
    if (data.stirred[i] != stir(numbers[i]))
      return Error::of(EBADMSG, "number {} is wrong after its time in private memory", i);
    sums[i / (4 * size_t{kGroup})] += numbers[i];
    for (unsigned shift = 0; shift < 32; shift += 8) ++counts[numbers[i] >> shift & 0xff];
  }
  if (data.sums != sums) return Error::of(EBADMSG, "a sum is wrong");
  if (data.counts != counts) return Error::of(EBADMSG, "a count is wrong");
  std::vector<uint32_t> sorted = numbers;
  std::ranges::sort(sorted);
  if (!std::ranges::equal(sorted, data.sorted))
    return Error::of(EBADMSG, "the numbers are sorted wrong");
  return check_product(data);
}

Status copy_now(const Workload& w, const Buffer& to, size_t to_at, const Buffer& from,
                size_t from_at, size_t size) {
  w.done_signal.store(1);
  TRY(async_copy(to, to_at, from, from_at, size, nullptr, w.done_signal));
  if (!w.done_signal.wait_for(0, w.timeout_ms)) return Error::of(ETIMEDOUT, "a copy did not end");
  return {};
}

Result<Workload> set_up(std::unique_ptr<Runtime> runtime, const Options& options) {
  const Runtime& r = *runtime;
  using Place = Buffer::Place;
  Buffer device = TRY(Buffer::create(r, Place::kDevice, options.vram_mib << 20));
  Buffer staging = TRY(Buffer::create(r, Place::kHost, kStaging));
  Buffer shared = TRY(Buffer::create(r, Place::kHost, sizeof(Shared)));
  amdgpu_criu::Mapping plain;
  if (options.plain) {
    constexpr size_t kPage = 4096;
    plain = TRY(amdgpu_criu::Mapping::map((sizeof(Shared) + kPage - 1) / kPage * kPage,
                                          PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS));
    TRY(keep_on_host(r, plain.bytes()));
  }
  Executable executable = TRY(Executable::load(r, code_objects()));
  const Kernels kernels = {
      TRY(executable.kernel("philox")),     TRY(executable.kernel("reduce")),
      TRY(executable.kernel("histogram")),  TRY(executable.kernel("private_memory")),
      TRY(executable.kernel("sort")),       TRY(executable.kernel("matrix_multiply")),
      TRY(executable.kernel("churn_until"))};
  AqlUserQueue queue = TRY(AqlUserQueue::create(r));
  Signal done_signal = TRY(Signal::create(1));
  return Workload{std::move(runtime),
                  std::move(device),
                  std::move(staging),
                  std::move(shared),
                  std::move(plain),
                  std::move(executable),
                  kernels,
                  std::move(queue),
                  std::move(done_signal),
                  options.timeout_s * 1000,
                  options.held};
}

Status start(Workload& w) {
  for (size_t at = 0; at < w.device.size(); at += kStaging) {
    const auto part = w.staging.bytes().first(std::min(kStaging, w.device.size() - at));
    Pattern(kDeviceSeed).fill(part, at);
    TRY(copy_now(w, w.device, at, w.staging, 0, part.size()));
  }
  return {};
}

Status step(Workload& w) {
  const uint64_t next = w.done + 1;
  const uint64_t key = value_at(next);
  const auto key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  if (w.plain.size() && madvise(w.plain.bytes().data(), w.plain.size(), MADV_DONTNEED))
    return Error::system("madvise");
  TRY(launch_all(w, key0, key1));
  TRY(check_results(w.data(), key0, key1));
  if (w.held) TRY(launch_held(w, next));
  w.done = next;
  say(amdgpu_criu::formatted("step {} value {:#018x}", next, key));
  return {};
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

bool verify(Workload& w, const char* word) {
  std::vector<std::string> problems;
  const Status status = check_device(w, problems);
  if (!status.ok()) problems.push_back(status.error().message());
  for (const std::string& problem : problems) say("damage: " + problem);
  if (problems.empty())
    say(amdgpu_criu::formatted("{} ok: step {} bos 1 bytes {}", word, w.done, w.device.size()));
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
    if (take_verify_request() && !verify(w, "verify")) return false;
    pause_ms(options.interval_ms);
  }
  return verify(w, "final");
}

int main_with(const Options& options) {
  if (options.plain) setenv("HSA_XNACK", "1", 1);
  return run_program(
      options, set_up, start, [](const Workload& w) { return w.device.size(); },
      [](Workload& w, const Options& o) { return run(w, o) ? kGood : kDamaged; });
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"rocr_kernels",
       "Compiled kernels through stock ROCr, each result compared with the CPU's; device memory\n"
       "(--vram) filled with a pattern.",
       "--vram --plain --held --steps --interval --timeout"},
      argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_with(parsed.options);
}
