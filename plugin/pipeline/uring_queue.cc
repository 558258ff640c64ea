// SPDX-License-Identifier: GPL-2.0
// The only file that uses liburing.
#include <liburing.h>

#include <deque>

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
  explicit UringQueue(unsigned depth) : depth_(depth) {}

  // At most depth_ transfers are under way, so there is always a free entry.
  void start(Work& work) override {
    const IoRequest& request = work.request;
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    const auto parts = static_cast<unsigned>(work.parts());
    if (request.write)
      io_uring_prep_writev(entry, request.fd, work.next(), parts, request.offset);
    else
      io_uring_prep_readv(entry, request.fd, work.next(), parts, request.offset);
    io_uring_sqe_set_data(entry, &work);
    under_way_.push_back(&work);
    // The kernel takes the remaining entries at the next call.
    (void)io_uring_submit(&ring_);
  }

  Completion wait_for_any() override {
    io_uring_cqe* entry = nullptr;
    int result = 0;
    do {
      (void)io_uring_submit(&ring_);
      result = io_uring_wait_cqe(&ring_, &entry);
    } while (result == -EINTR || result == -EAGAIN || result == -EBUSY);
    // The ring was closed, which ends all transfers.
    if (result != 0) return completed(under_way_.front(), result);
    const Completion done = completed(static_cast<Work*>(io_uring_cqe_get_data(entry)), entry->res);
    io_uring_cqe_seen(&ring_, entry);
    return done;
  }

  Completion completed(Work* work, ssize_t result) {
    std::erase(under_way_, work);
    return {work, result};
  }

  size_t depth() const override { return depth_; }

  size_t depth_;
  std::deque<Work*> under_way_;
  io_uring ring_{};
  bool made_ = false;
};

}  // namespace

Result<std::unique_ptr<IoQueue>> make_uring_queue(unsigned depth) {
  return UringQueue::create(depth);
}

}  // namespace amdgpu_criu::pipeline
