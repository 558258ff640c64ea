// SPDX-License-Identifier: GPL-2.0
// The only file that uses liburing.
#include <liburing.h>

#include <chrono>
#include <thread>
#include <vector>

#include "pipeline/io_queue.h"

namespace amdgpu_criu::pipeline {
namespace {

class UringQueue : public IoQueue {
 public:
  static Result<std::unique_ptr<IoQueue>> create(unsigned depth) {
    std::unique_ptr<UringQueue> queue(new UringQueue(depth));
    const int result = io_uring_queue_init(depth, &queue->ring_, 0);
    if (result < 0) return Error::of(-result, "no io_uring: {}", strerror(-result));
    queue->made_ = true;
    // A child that CRIU forks must not keep the files open.
    (void)io_uring_ring_dontfork(&queue->ring_);
    return std::unique_ptr<IoQueue>(std::move(queue));
  }
  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;
  ~UringQueue() override {
    if (!made_) return;
    drain();
    io_uring_queue_exit(&ring_);
  }

  const char* name() const override { return "io_uring"; }

 private:
  explicit UringQueue(unsigned depth) : depth_(depth) { under_way_.reserve(depth); }

  // At most depth_ transfers are under way, so there is always a free entry.
  void start(Work& work) noexcept override {
    under_way_.push_back(&work);
    if (given_up_) return;
    const IoRequest& request = work.request;
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    const auto parts = static_cast<unsigned>(work.parts());
    if (request.write)
      io_uring_prep_writev(entry, request.fd, work.next(), parts, request.offset);
    else
      io_uring_prep_readv(entry, request.fd, work.next(), parts, request.offset);
    io_uring_sqe_set_data(entry, &work);
    // The kernel takes the remaining entries at the next call.
    (void)submit();
  }

  int submit() {
    const int result = io_uring_submit(&ring_);
    if (result > 0) taken_ += result;
    return result;
  }

  static bool is_passing(int result) {
    return result == -EINTR || result == -EAGAIN || result == -EBUSY;
  }

  // The kernel never completes what it has not taken: waiting for that would not end.
  Completion wait_for_any() noexcept override {
    io_uring_cqe* entry = nullptr;
    int result = 0;
    const auto end = std::chrono::steady_clock::now() + kPatience;
    do {
      const int submitted = given_up_ ? 0 : submit();
      if (taken_ == 0) {
        if (is_passing(submitted) && std::chrono::steady_clock::now() < end) {
          std::this_thread::sleep_for(kPause);
          continue;
        }
        return transfer_here();
      }
      result = io_uring_wait_cqe(&ring_, &entry);
    } while (!entry && (taken_ == 0 || is_passing(result)));
    // The ring was closed, which ends all transfers.
    if (result != 0) return completed(under_way_.front(), result);
    taken_--;
    const Completion done = completed(static_cast<Work*>(io_uring_cqe_get_data(entry)), entry->res);
    io_uring_cqe_seen(&ring_, entry);
    return done;
  }

  // From now on nothing is submitted: the ring still has entries of what is transferred here.
  Completion transfer_here() {
    given_up_ = true;
    Work* const work = under_way_.front();
    return completed(work, transfer(work->request, work->next(), work->parts()));
  }

  Completion completed(Work* work, ssize_t result) {
    std::erase(under_way_, work);
    return {work, result};
  }

  size_t depth() const override { return depth_; }

  static constexpr std::chrono::milliseconds kPatience{1000}, kPause{1};

  size_t depth_;
  std::vector<Work*> under_way_;
  unsigned taken_ = 0;     // by the kernel, and not complete
  bool given_up_ = false;  // the kernel takes nothing
  io_uring ring_{};
  bool made_ = false;
};

}  // namespace

Result<std::unique_ptr<IoQueue>> make_uring_queue(unsigned depth) {
  return UringQueue::create(depth);
}

}  // namespace amdgpu_criu::pipeline
