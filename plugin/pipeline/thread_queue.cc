// SPDX-License-Identifier: GPL-2.0
// File I/O by system calls: in threads, or in the caller.
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/numbers.h"
#include "pipeline/io_queue.h"

namespace amdgpu_criu::pipeline {

ssize_t transfer(const IoRequest& request, const iovec* parts, size_t count) {
  const auto number = static_cast<int>(count);
  const auto offset = static_cast<off_t>(request.offset);
  const ssize_t result = request.write ? pwritev(request.fd, parts, number, offset)
                                       : preadv(request.fd, parts, number, offset);
  return result < 0 ? -errno : result;
}

namespace {

class InlineQueue : public IoQueue {
 public:
  explicit InlineQueue(Transfer by) : transfer_(std::move(by)) {}
  InlineQueue(const InlineQueue&) = delete;
  InlineQueue& operator=(const InlineQueue&) = delete;
  ~InlineQueue() override { drain(); }
  const char* name() const override { return "system calls"; }

 private:
  void start(Work& work) noexcept override {
    done_ = {&work, transfer_(work.request, work.next(), work.parts())};
  }
  Completion wait_for_any() noexcept override { return done_; }
  size_t depth() const override { return 1; }

  const Transfer transfer_;
  Completion done_{};
};

class ThreadQueue : public IoQueue {
 public:
  static Result<std::unique_ptr<IoQueue>> create(unsigned depth, Transfer by) {
    std::unique_ptr<ThreadQueue> queue(new ThreadQueue(std::move(by)));
    queue->threads_.reserve(depth);
    queue->to_do_.reserve(size_t{2} * depth);
    queue->done_.reserve(size_t{2} * depth);
    try {
      for (unsigned i = 0; i < depth; i++)
        queue->threads_.push_back(start_helper_thread([q = &*queue] { q->run(); }));
    } catch (const std::system_error& error) {
      return Error::of(error.code().value(), "no threads: {}", error.what());
    }
    return std::unique_ptr<IoQueue>(std::move(queue));
  }
  ThreadQueue(const ThreadQueue&) = delete;
  ThreadQueue& operator=(const ThreadQueue&) = delete;
  ~ThreadQueue() override {
    drain();
    {
      const std::lock_guard guard(lock_);
      stop_ = true;
    }
    started_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  const char* name() const override { return "threads"; }

 private:
  explicit ThreadQueue(Transfer by) : transfer_(std::move(by)) {}

  void start(Work& work) noexcept override {
    {
      const std::lock_guard guard(lock_);
      to_do_.push_back(&work);
    }
    started_.notify_one();
  }

  Completion wait_for_any() noexcept override {
    std::unique_lock guard(lock_);
    completed_.wait(guard, [&] { return !done_.empty(); });
    const Completion done = done_.front();
    done_.erase(done_.begin());
    return done;
  }

  size_t depth() const override { return 2 * threads_.size(); }

  void run() {
    std::unique_lock guard(lock_);
    while (true) {
      started_.wait(guard, [&] { return stop_ || !to_do_.empty(); });
      if (to_do_.empty()) return;
      Work* const work = to_do_.front();
      to_do_.erase(to_do_.begin());
      guard.unlock();
      const ssize_t result = transfer_(work->request, work->next(), work->parts());
      guard.lock();
      done_.push_back({work, result});
      completed_.notify_one();
    }
  }

  const Transfer transfer_;
  std::mutex lock_;  // protects the members below, except the threads
  std::condition_variable started_;
  std::condition_variable completed_;
  std::vector<Work*> to_do_;
  std::vector<Completion> done_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<IoQueue>> make_thread_queue(unsigned depth, Transfer by) {
  return ThreadQueue::create(depth, std::move(by));
}
std::unique_ptr<IoQueue> make_inline_queue(Transfer by) {
  return std::make_unique<InlineQueue>(std::move(by));
}

Status transfer_now(IoRequest request, const Transfer& by) {
  InlineQueue queue(by);
  queue.submit(0, std::move(request));
  return queue.finish(0);
}

std::unique_ptr<IoQueue> make_io_queue(IoKind wanted, unsigned depth) {
  if (wanted == IoKind::kUring)
    if (auto queue = make_uring_queue(depth); queue.ok()) return std::move(*queue);
  if (wanted != IoKind::kInline)
    if (auto queue = make_thread_queue(depth); queue.ok()) return std::move(*queue);
  return make_inline_queue();
}

}  // namespace amdgpu_criu::pipeline
