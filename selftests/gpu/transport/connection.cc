// SPDX-License-Identifier: GPL-2.0
#include "transport/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>

namespace gpu::vfio {
namespace {

// Room for one descriptor more than a message may have, to detect that there were too many.
constexpr size_t kControlBytes = CMSG_SPACE(sizeof(int) * (kMaxFds + 1));

void take_fds(const msghdr& received, Message& message) {
  for (cmsghdr* control = CMSG_FIRSTHDR(&received); control;
       control = CMSG_NXTHDR(const_cast<msghdr*>(&received), control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::vector<int> numbers(count);
    std::memcpy(numbers.data(), CMSG_DATA(control), count * sizeof(int));
    for (const int number : numbers) {
      amdgpu_criu::Fd fd(number);
      if (message.fds.size() < kMaxFds)
        message.fds.push_back(std::move(fd));
      else
        message.too_many_fds = true;
    }
  }
  if (received.msg_flags & MSG_CTRUNC) message.too_many_fds = true;
}

}  // namespace

amdgpu_criu::Result<bool> Connection::receive_all(std::span<std::byte> into, Message& message) {
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control;
  size_t done = 0;
  while (done < into.size()) {
    iovec vector{into.data() + done, into.size() - done};
    msghdr received{};
    received.msg_iov = &vector;
    received.msg_iovlen = 1;
    received.msg_control = control.data();
    received.msg_controllen = control.size();
    const ssize_t got = recvmsg(socket_.get(), &received, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ECONNRESET) return false;
    if (got < 0) return amdgpu_criu::Error::system("cannot receive");
    take_fds(received, message);
    if (got == 0 && done == 0) return false;
    if (got == 0)
      return amdgpu_criu::Error::of(EPROTO, "the client closed in the middle of a message");
    done += static_cast<size_t>(got);
  }
  return true;
}

amdgpu_criu::Result<std::optional<Message>> Connection::receive() {
  Message message;
  const auto header = std::as_writable_bytes(std::span(&message.header, 1));
  if (!TRY(receive_all(header, message))) return std::optional<Message>();
  const size_t size = message.header.size;
  // Shorter than its own header: there is no payload to skip. Longer than any message: what
  // follows is not read, and the session ends the connection because of the size.
  if (size <= sizeof(Header) || size > kMaxMessage)
    return std::optional<Message>(std::move(message));
  message.payload.resize(size - sizeof(Header));
  if (!TRY(receive_all(message.payload, message)))
    return amdgpu_criu::Error::of(EPROTO, "the client closed in the middle of a message");
  return std::optional<Message>(std::move(message));
}

amdgpu_criu::Status Connection::send(const Header& header, std::span<const std::byte> payload,
                                     int fd) {
  std::array<iovec, 2> vectors = {iovec{const_cast<Header*>(&header), sizeof(header)},
                                  iovec{const_cast<std::byte*>(payload.data()), payload.size()}};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control = {};
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = payload.empty() ? 1 : 2;
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd, sizeof(int));
  }
  size_t left = sizeof(header) + payload.size();
  while (left) {
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return amdgpu_criu::Error::system("cannot send");
    left -= static_cast<size_t>(sent);
    message.msg_control = nullptr;
    message.msg_controllen = 0;
    size_t skip = static_cast<size_t>(sent);
    for (iovec& vector : vectors) {
      const size_t part = std::min(skip, vector.iov_len);
      vector.iov_base = static_cast<std::byte*>(vector.iov_base) + part;
      vector.iov_len -= part;
      skip -= part;
    }
  }
  return {};
}

void Connection::shut_down() { ::shutdown(socket_.get(), SHUT_RDWR); }

}  // namespace gpu::vfio
