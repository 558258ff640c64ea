// SPDX-License-Identifier: GPL-2.0
// Threads that sum, hash and compress chunks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/result.h"
#include "pipeline/codec.h"

namespace amdgpu_criu::pipeline {

// More threads do not shorten the time that a GPU's copies wait.
inline constexpr unsigned kMaxThreadsOfGpu = 16;

// The CPUs that the process may use, but at most `most`.
unsigned worker_threads(unsigned most);

// How many threads each GPU gets, which has that many bytes: `cpus` divided by bytes, at least one
// and at most `most`. Each GPU has threads of its own, so that none waits for another one's.
std::vector<unsigned> threads_by_bytes(const std::vector<uint64_t>& bytes, unsigned cpus,
                                       unsigned most = kMaxThreadsOfGpu);

class Workers {
 public:
  // Called once for each part of a batch, in any order, by several threads.
  using Task = std::function<void(size_t part, Codec& codec)>;

  // Parts that wait() waits for together. Must outlive the work.
  class Batch {
    friend class Workers;
    Task task_;
    size_t parts_ = 0;
    size_t next_ = 0;
    size_t left_ = 0;
    std::optional<Error> error_;  // an exception of a part
  };

  // Creates fewer threads if the system allows no more. Without threads, start() does the work
  // itself.
  explicit Workers(unsigned threads);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();
  unsigned threads() const { return static_cast<unsigned>(threads_.size()); }

  // From any thread. The batch must be idle; it is busy until wait().
  void start(Batch& batch, size_t parts, Task task);
  // An exception in a part is the error of the batch, whose other parts may be left undone.
  Status wait(Batch& batch);

 private:
  void run();

  std::mutex lock_;  // protects batches and the members below, except the threads
  std::condition_variable started_;
  std::condition_variable completed_;
  std::deque<Batch*> to_do_;  // with parts that no thread has begun
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace amdgpu_criu::pipeline
