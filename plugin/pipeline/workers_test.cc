// SPDX-License-Identifier: GPL-2.0
#include "pipeline/workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <semaphore>
#include <stdexcept>

namespace amdgpu_criu::pipeline {
namespace {

TEST(WorkersOfChunks, DoEachPartOfEachBatchOnce) {
  constexpr size_t kParts = 1000;
  for (const unsigned threads : {0, 1, 3}) {
    Workers workers(threads);
    std::array<std::array<std::atomic<int>, kParts>, 4> done{};
    std::array<Workers::Batch, 4> batches;
    {
      std::vector<std::jthread> callers;
      for (size_t i = 0; i < batches.size(); i++)
        callers.emplace_back([&, i] {
          for (int round = 0; round < 3; round++) {
            workers.start(batches[i], kParts, [&, i](size_t part, Codec&) { done[i][part]++; });
            EXPECT_TRUE(workers.wait(batches[i]).ok());
            EXPECT_TRUE(std::ranges::all_of(done[i], [&](int count) { return count == round + 1; }))
                << threads << " threads, batch " << i;
          }
        });
    }
  }
}

TEST(WorkersOfChunks, DoNotBlockTheCaller) {
  Workers workers(1);
  Workers::Batch batch, empty;
  std::binary_semaphore go_on(0);
  bool done = false;
  workers.start(batch, 1, [&](size_t, Codec&) {
    go_on.acquire();
    done = true;
  });
  workers.start(empty, 0, [](size_t, Codec&) { FAIL() << "there is no part"; });
  EXPECT_TRUE(workers.wait(empty).ok());
  EXPECT_FALSE(done);
  go_on.release();
  EXPECT_TRUE(workers.wait(batch).ok());
  EXPECT_TRUE(done);
}

TEST(WorkersOfChunks, AnExceptionIsAnErrorOfItsBatch) {
  for (const unsigned threads : {0, 2}) {
    Workers workers(threads);
    Workers::Batch bad, good;
    for (int round = 0; round < 2; round++) {
      workers.start(bad, 100, [](size_t part, Codec&) {
        if (part == 50) throw std::runtime_error("no memory for part 50");
      });
      workers.start(good, 100, [](size_t, Codec&) {});
      EXPECT_EQ(workers.wait(bad).error().message(), "no memory for part 50");
      EXPECT_TRUE(workers.wait(good).ok());
    }
    workers.start(bad, 1, [](size_t, Codec&) {});
    EXPECT_TRUE(workers.wait(bad).ok());
  }
}

TEST(WorkersOfChunks, AreNoMoreThanAllowed) {
  EXPECT_EQ(worker_threads(0), 1u);
  EXPECT_EQ(worker_threads(1), 1u);
  EXPECT_LE(worker_threads(1000), std::max(std::thread::hardware_concurrency(), 1u));
}

TEST(WorkersOfChunks, AreDividedByBytes) {
  using Threads = std::vector<unsigned>;
  EXPECT_EQ(threads_by_bytes({1000}, 2), Threads({2}));
  EXPECT_EQ(threads_by_bytes({1000, 1000, 1000}, 2), Threads({1, 1, 1}));
  EXPECT_EQ(threads_by_bytes({1ull << 40, 1 << 20, 1 << 20}, 16), Threads({16, 1, 1}));
  EXPECT_EQ(threads_by_bytes({3ull << 40, 1ull << 40}, 16), Threads({12, 4}));
  EXPECT_EQ(threads_by_bytes(std::vector<uint64_t>(8, 1ull << 37), 192), Threads(8, 16));
  EXPECT_EQ(threads_by_bytes({0, 0}, 16), Threads({1, 1}));
  EXPECT_EQ(threads_by_bytes({1000, 1000}, 16, 3), Threads({3, 3}));
  EXPECT_EQ(threads_by_bytes({1000}, 16, 0), Threads({1}));
}

}  // namespace
}  // namespace amdgpu_criu::pipeline
