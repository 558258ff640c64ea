// SPDX-License-Identifier: GPL-2.0
// Kernels of more queues than the GPU has descriptors or GWS for.
#include <gtest/gtest.h>

#include <algorithm>

#include "engines/compute_registers.h"
#include "engines/fake_gpu.h"
#include "shader/code_object.h"
#include "shader/driver_trap_handler.h"

namespace gpu::test {
namespace {

constexpr uint64_t kCode = 0x200000, kTrapHandler = 0x300000, kSaveAreas = 0x800000;

// A queue that waits to run one kernel over work-groups of 256.
struct Job {
  TestQueue queue;
  uint64_t signal, kernarg, data;
  std::vector<uint32_t> expected;
};

class TurnsTest : public ::testing::Test {
 protected:
  explicit TurnsTest(const char* object = "basic.co") : object_(object_path(object)) {
    gpu_.start_hiq();
  }

  template <typename T>
  void put_all(const Job& job, uint64_t address, const std::vector<T>& values) {
    put_bytes(job.queue, address, values.data(), values.size() * sizeof(T));
  }
  void put_bytes(const TestQueue& queue, uint64_t address, const void* data, size_t size) {
    std::memcpy(gpu_.memory.space(queue.base).data() + address, data, size);
  }
  // index: even, so that the control stack has room behind the MQD.
  Job make(uint32_t process, unsigned index) {
    Job job = {.queue = gpu_.make(TestQueue::kAql, process, index),
               .signal = 0x4000 + index * uint64_t{0x40},
               .kernarg = 0x5000 + index * uint64_t{0x40},
               .data = 0x400000 + index * uint64_t{0x10000},
               .expected = {}};
    // As ROCr lays it out.
    job.queue.rptr = 0x20000 + index * uint64_t{0x200} + aql::kReadIdOffset;
    job.queue.wptr_at = 0x3000 + index * uint64_t{8};
    gpu_.memory.put<uint32_t>(0, job.queue.mqd + mqd::kRptrReport * uint64_t{4},
                              low32(job.queue.rptr));
    gpu_.memory.put<uint32_t>(job.queue.base, job.queue.rptr + aql::kReadIdOffsetField,
                              aql::kReadIdOffset);
    job.queue.tba = kTrapHandler;
    put_bytes(job.queue, kCode, object_.image().data(), object_.image().size());
    put_trap_handlers(kTrapHandler, [&](uint64_t to, const void* data, size_t size) {
      put_bytes(job.queue, to, data, size);
    });
    constexpr uint32_t kTrapPresent = 1 << 6;
    gpu_.memory.put<uint32_t>(
        0, job.queue.mqd + uint64_t{mqd::kCompute + ComputeRegisters::kRsrc2} * 4, kTrapPresent);
    gpu_.give_save_area(job.queue, kSaveAreas + index * uint64_t{0x80000}, 0x100000);
    return job;
  }
  void append(Job& job, const char* kernel, uint32_t groups,
              const std::vector<uint32_t>& arguments) {
    put_all(job, job.kernarg, arguments);
    const uint64_t object = kCode + object_.kernel(kernel);
    std::vector<uint32_t> words(16);
    words[0] = aql::kKernelDispatch | 1u << 8 | 1u << 16;
    words[1] = 256 | 1 << 16;
    words[2] = 1;
    words[3] = groups * 256;
    words[4] = words[5] = 1;
    words[7] = gpu_.memory.get<uint32_t>(job.queue.base, object);
    words[8] = low32(object);
    words[10] = low32(job.kernarg);
    words[14] = low32(job.signal);
    gpu_.memory.put<uint64_t>(job.queue.base, job.signal + aql::kSignalValue, 1);
    gpu_.append(job.queue, words);
  }
  bool done(const Job& job) {
    return gpu_.memory.get<uint64_t>(job.queue.base, job.signal + aql::kSignalValue) == 0;
  }
  bool has_saved_waves(const Job& job) {
    return gpu_.memory.get<uint32_t>(0, job.queue.mqd + mqd::kWaveOffset * uint64_t{4}) >
           FakeGpu::kStackBytes;
  }
  // Runs all, and counts those that were seen without their waves on the GPU.
  unsigned run(std::vector<Job>& jobs) {
    std::vector<TestQueue*> list;
    for (Job& job : jobs) list.push_back(&job.queue);
    gpu_.run(list);
    std::vector<bool> seen(jobs.size());
    const bool all = FakeGpu::eventually(
        [&] {
          for (size_t i = 0; i < jobs.size(); ++i) seen[i] = seen[i] || has_saved_waves(jobs[i]);
          return std::ranges::all_of(jobs, [&](const Job& job) { return done(job); });
        },
        60);
    EXPECT_TRUE(all);
    EXPECT_TRUE(gpu_.reports().empty());
    return static_cast<unsigned>(std::ranges::count(seen, true));
  }
  std::vector<uint32_t> data(const Job& job, size_t count) {
    std::vector<uint32_t> values(count);
    std::memcpy(values.data(), gpu_.memory.space(job.queue.base).data() + job.data, count * 4);
    return values;
  }

  CodeObject object_;
  FakeGpu gpu_;
};

// What churn makes of one group.
std::vector<uint32_t> churned(std::vector<uint32_t> values, uint32_t rounds) {
  for (uint32_t round = 0; round < rounds; ++round) {
    const uint32_t first = values[0];
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t next = i + 1 < values.size() ? values[i + 1] : first;
      values[i] = next * 1664525u + 1013904223u + round;
    }
  }
  return values;
}

TEST_F(TurnsTest, KernelsOfMoreQueuesThanDescriptors) {
  constexpr uint32_t kRounds = 3000;
  std::vector<Job> jobs;
  for (uint32_t process = 1; process <= 3; ++process) {
    for (unsigned index = 0; index < 8; index += 2) jobs.push_back(make(process, index));
  }
  for (Job& job : jobs) {
    std::vector<uint32_t> in(256);
    for (uint32_t i = 0; i < in.size(); ++i) in[i] = (i + job.queue.doorbell) * 2654435761u;
    put_all(job, job.data, in);
    job.expected = churned(in, kRounds);
    append(job, "churn", 1, {low32(job.data), 0, kRounds});
  }
  EXPECT_GE(run(jobs), 8u);
  for (const Job& job : jobs) EXPECT_EQ(data(job, 256), job.expected) << job.queue.doorbell;
}

class GwsTurnsTest : public TurnsTest {
 protected:
  GwsTurnsTest() : TurnsTest("grid.co") {}
};

// As when several processes launch cooperative kernels: each has all resources in its turn.
TEST_F(GwsTurnsTest, OneQueueAtATimeHasGws) {
  constexpr uint32_t kGroups = 3, kRounds = 1500;
  std::vector<Job> jobs;
  for (uint32_t process = 1; process <= 3; ++process) jobs.push_back(make(process, 0));
  for (Job& job : jobs) {
    job.queue.gws = true;
    gpu_.memory.put<uint8_t>(
        0, job.queue.mqd + (mi210().compute_mqd.reserved + mqd::kGws) * uint64_t{4}, kGroups - 1);
    std::vector<uint32_t> rows(2 * kGroups * 256u);
    for (uint32_t i = 0; i < rows.size() / 2; ++i) rows[i] = (i + job.queue.pasid) * 2654435761u;
    put_all(job, job.data, rows);
    job.expected.assign(rows.begin(), rows.begin() + kGroups * 256);
    for (uint32_t round = 0; round < kRounds; ++round) {
      const auto from = job.expected;
      for (size_t i = 0; i < from.size(); ++i)
        job.expected[i] = from[(i + 256) % from.size()] * 1664525u + 1013904223u + round;
    }
    append(job, "meet", kGroups, {low32(job.data), 0, kGroups, kRounds});
  }
  EXPECT_GE(run(jobs), 2u);
  for (const Job& job : jobs) EXPECT_EQ(data(job, kGroups * 256), job.expected);
}

}  // namespace
}  // namespace gpu::test
