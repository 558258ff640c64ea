// SPDX-License-Identifier: GPL-2.0
// Asynchronous file I/O between files and staging memory.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace amdgpu_criu::pipeline {

// kUring falls back to kThreads if io_uring is not available. kInline transfers at once in the
// caller: for a process that may create no thread, not even one of the kernel.
enum class IoKind { kUring, kThreads, kInline };

struct IoRequest {
  int fd = -1;
  bool write = false;
  uint64_t offset = 0;
  std::vector<iovec> parts;           // one after another in the file
  const std::string* name = nullptr;  // of the file, for errors; must outlive the request

  // Appends to the previous parts.
  void add(std::span<std::byte> bytes);
};

// Not thread-safe. Descriptors may have O_DIRECT, which is cleared if the file turns out not to
// support it; no other code may use their open file then.
class IoQueue {
 public:
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;
  virtual ~IoQueue() = default;

  // Starts it as one of the group. The memory must stay until finish() of the group. After an
  // exception nothing is started.
  void submit(unsigned group, IoRequest request);
  // Waits for all requests of the group; the first error of them.
  Status finish(unsigned group);
  virtual const char* name() const = 0;

 protected:
  struct Work {
    unsigned group = 0;
    IoRequest request;
    size_t first = 0;  // part of the request that is next
    bool direct = false;
    size_t parts() const;
    const iovec* next() const { return &request.parts[first]; }
  };
  struct Completion {
    Work* work;
    ssize_t result;  // bytes, or -errno
  };

  IoQueue() = default;
  // To be called by destructors of the derived classes, because memory and files belong to the
  // caller.
  void drain();

  // Starts all work from next() to the last; work is not moved until it is complete.
  virtual void start(Work& work) noexcept = 0;
  virtual Completion wait_for_any() noexcept = 0;
  // The number of transfers that may be under way at a time: queues allocate memory for so many.
  virtual size_t depth() const = 0;

 private:
  struct Group {
    size_t under_way = 0;
    Status status;
  };
  void complete_one();
  void start_again(Work& work);
  static Result<bool> advance(Work& work, ssize_t result);
  static Status without_direct(const Work& work, int error);

  std::map<Work*, std::unique_ptr<Work>> works_;
  std::map<unsigned, Group> groups_;
};

std::unique_ptr<IoQueue> make_io_queue(IoKind wanted, unsigned depth);

// Turns O_DIRECT on if the file supports it.
bool set_direct(int fd, bool on);
// An IoQueue turns it off if a transfer shows that the file does not support it.
bool is_direct(int fd);

// Transfers parts of a request by a system call. Returns bytes, or -errno.
ssize_t transfer(const IoRequest& request, const iovec* parts, size_t count);
using Transfer = std::function<decltype(transfer)>;

// Create one kind of IoQueue: for make_io_queue() and tests. Fail if the kernel or its
// configuration does not allow that kind.
Result<std::unique_ptr<IoQueue>> make_uring_queue(unsigned depth);
Result<std::unique_ptr<IoQueue>> make_thread_queue(unsigned depth, Transfer by = transfer);
std::unique_ptr<IoQueue> make_inline_queue(Transfer by = transfer);

// Transfers the whole request in the calling thread, as a queue would. Any number of threads may do
// so at the same time.
Status transfer_now(IoRequest request, const Transfer& by = transfer);

}  // namespace amdgpu_criu::pipeline
