// SPDX-License-Identifier: GPL-2.0
#include "pipeline/workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <semaphore>

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
            workers.wait(batches[i]);
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
  workers.wait(empty);
  EXPECT_FALSE(done);
  go_on.release();
  workers.wait(batch);
  EXPECT_TRUE(done);
}

TEST(WorkersOfChunks, AreNoMoreThanAllowed) {
  EXPECT_EQ(worker_threads(0), 1u);
  EXPECT_EQ(worker_threads(1), 1u);
  EXPECT_LE(worker_threads(1000), std::max(std::thread::hardware_concurrency(), 1u));
}

}  // namespace
}  // namespace amdgpu_criu::pipeline
