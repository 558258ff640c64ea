// SPDX-License-Identifier: GPL-2.0
// Whole vfio-user messages over a connected UNIX stream socket, with the descriptors they carry.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "transport/protocol.h"

namespace gpu::vfio {

struct Message {
  Header header = {};
  std::vector<std::byte> payload;
  std::vector<amdgpu_criu::Fd> fds;
  bool too_many_fds = false;  // the surplus has been closed
};

class Connection {
 public:
  explicit Connection(amdgpu_criu::Fd socket) : socket_(std::move(socket)) {}

  // The next message, or nothing if the peer has closed. An error is final: the start of the next
  // message is unknown.
  amdgpu_criu::Result<std::optional<Message>> receive();
  amdgpu_criu::Status send(const Header& header, std::span<const std::byte> payload, int fd = -1);

  // Makes receive() return, from any thread.
  void shut_down();

 private:
  // False at the end of the stream before the first byte.
  amdgpu_criu::Result<bool> receive_all(std::span<std::byte> into, Message& message);

  amdgpu_criu::Fd socket_;
};

}  // namespace gpu::vfio
