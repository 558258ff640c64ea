// SPDX-License-Identifier: GPL-2.0
// The connection between processes of one workload: a UNIX stream socket.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace e2e {

// A request of the leader to a follower.
enum class Ask : uint32_t { kStep, kVerify, kExport, kClose, kStop };

struct Request {
  Ask what;
  uint32_t access;  // through which of the follower's files
  uint64_t number;  // kStep: the step; kVerify: steps done; kExport: which BO; kClose: descriptor
};

struct Reply {
  uint64_t problems;  // lines to print for the follower
  int64_t value;      // kExport: the descriptor
};

class Channel {
 public:
  static amdgpu_criu::Result<std::pair<Channel, Channel>> pair();
  // One connection; afterwards the socket is removed from the file system.
  static amdgpu_criu::Result<Channel> serve(const std::string& path);
  static amdgpu_criu::Result<Channel> join(const std::string& path, unsigned timeout_ms);

  amdgpu_criu::Result<Reply> ask(const Request& request) const;
  // The first answer, which a follower sends when it is ready.
  amdgpu_criu::Result<Reply> wait_for_answer() const;
  // ESHUTDOWN if the leader has exited.
  amdgpu_criu::Result<Request> next() const;
  amdgpu_criu::Status answer(const Reply& reply) const;
  amdgpu_criu::Status send_fds(const std::vector<amdgpu_criu::Fd>& fds) const;
  amdgpu_criu::Result<std::vector<amdgpu_criu::Fd>> receive_fds(size_t count) const;
  int fd() const { return fd_.get(); }

 private:
  explicit Channel(amdgpu_criu::Fd fd) : fd_(std::move(fd)) {}
  amdgpu_criu::Status send_all(const void* data, size_t size) const;
  amdgpu_criu::Status receive_all(void* data, size_t size) const;
  amdgpu_criu::Fd fd_;
};

}  // namespace e2e
