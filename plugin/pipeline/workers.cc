// SPDX-License-Identifier: GPL-2.0
#include "pipeline/workers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/log.h"
#include "base/numbers.h"

namespace amdgpu_criu::pipeline {

namespace {

// codec: made at the first call
Status run_parts(const Workers::Task& task, size_t first, size_t end, std::optional<Codec>& codec) {
  return without_exceptions([&] {
    if (!codec) codec.emplace();
    for (size_t part = first; part < end; part++) task(part, *codec);
    return Status();
  });
}

}  // namespace

unsigned worker_threads(unsigned most) {
  return std::clamp(std::thread::hardware_concurrency(), 1u, std::max(most, 1u));
}

std::vector<unsigned> threads_by_bytes(const std::vector<uint64_t>& bytes, unsigned cpus,
                                       unsigned most) {
  const double all = std::max(std::accumulate(bytes.begin(), bytes.end(), 0.0), 1.0);
  std::vector<unsigned> threads;
  for (const uint64_t one : bytes) {
    const double share = std::ceil(cpus * static_cast<double>(one) / all);
    threads.push_back(std::clamp(static_cast<unsigned>(share), 1u, std::max(most, 1u)));
  }
  return threads;
}

Workers::Workers(unsigned threads) {
  threads_.reserve(threads);
  try {
    for (unsigned i = 0; i < threads; i++)
      threads_.push_back(start_helper_thread([this] { run(); }));
  } catch (const std::exception& error) {
    log_warning("{} of {} threads for checksums: {}", threads_.size(), threads, error.what());
  }
}

Workers::~Workers() {
  {
    const std::lock_guard guard(lock_);
    stop_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::start(Batch& batch, size_t parts, Task task) {
  batch.error_.reset();
  if (threads_.empty()) {
    std::optional<Codec> codec;
    if (Status status = run_parts(task, 0, parts, codec); !status.ok())
      batch.error_ = std::move(status).error();
    return;
  }
  if (parts == 0) return;
  {
    const std::lock_guard guard(lock_);
    to_do_.push_back(&batch);
    batch.task_ = std::move(task);
    batch.parts_ = batch.left_ = parts;
    batch.next_ = 0;
  }
  started_.notify_all();
}

Status Workers::wait(Batch& batch) {
  std::unique_lock guard(lock_);
  completed_.wait(guard, [&] { return batch.left_ == 0; });
  return batch.error_ ? Status(*batch.error_) : Status();
}

void Workers::run() {
  std::optional<Codec> codec;
  std::unique_lock guard(lock_);
  while (true) {
    started_.wait(guard, [&] { return stop_ || !to_do_.empty(); });
    if (to_do_.empty()) return;
    Batch& batch = *to_do_.front();
    // Small enough for the threads to end at about the same time, and no smaller, because each
    // takes the lock.
    const size_t share = std::max<size_t>((batch.parts_ - batch.next_) / (4 * threads_.size()), 1);
    const size_t first = batch.next_;
    batch.next_ += share;
    if (batch.next_ == batch.parts_) to_do_.pop_front();
    guard.unlock();
    Status status = run_parts(batch.task_, first, first + share, codec);
    guard.lock();
    if (!status.ok() && !batch.error_) batch.error_ = std::move(status).error();
    batch.left_ -= share;
    if (batch.left_ == 0) completed_.notify_all();
  }
}

}  // namespace amdgpu_criu::pipeline
