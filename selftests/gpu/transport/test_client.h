// SPDX-License-Identifier: GPL-2.0
// The virtual machine's side of a vfio-user connection, for tests.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <thread>

#include "test_support/guest_ram.h"
#include "transport/connection.h"
#include "transport/session.h"

namespace gpu::test {

template <typename T>
std::vector<std::byte> bytes_of(const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

inline std::vector<std::byte> version_payload(uint16_t major, std::string_view json) {
  auto payload = bytes_of(vfio::Version{major, 0});
  for (const char c : json) payload.push_back(static_cast<std::byte>(c));
  return payload;
}

// Serves a device over a socketpair in a thread of its own.
class Client {
 public:
  struct Reply {
    uint32_t error = 0;
    bool is_error = false;
    std::vector<std::byte> payload;
    std::vector<amdgpu_criu::Fd> fds;

    template <typename T>
    T as() const {
      T value{};
      EXPECT_GE(payload.size(), sizeof(T));
      if (payload.size() >= sizeof(T)) std::memcpy(&value, payload.data(), sizeof(T));
      return value;
    }
  };

  explicit Client(PciDevice& device) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    socket_.reset(ends[0]);
    server_.emplace(amdgpu_criu::Fd(ends[1]));
    thread_ = std::thread([this, &device] {
      status_ = vfio::Session(device, *server_).run();
      server_.reset();
    });
  }
  ~Client() { (void)close(); }

  // Ends the session, and returns the server's result.
  amdgpu_criu::Status close() {
    socket_.reset();
    if (thread_.joinable()) thread_.join();
    return status_;
  }

  void send_raw(const vfio::Header& header, std::span<const std::byte> payload,
                std::span<const int> fds = {}) {
    iovec vectors[2] = {{const_cast<vfio::Header*>(&header), sizeof(header)},
                        {const_cast<std::byte*>(payload.data()), payload.size()}};
    std::vector<std::byte> control(CMSG_SPACE(sizeof(int) * fds.size()));
    msghdr message{};
    message.msg_iov = vectors;
    message.msg_iovlen = 2;
    if (!fds.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
      std::memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * fds.size());
    }
    EXPECT_EQ(sendmsg(socket_.get(), &message, MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof(header) + payload.size()));
  }
  void send(vfio::Command command, std::span<const std::byte> payload,
            std::span<const int> fds = {}, uint32_t flags = 0) {
    send_raw({.id = ++id_,
              .command = static_cast<uint16_t>(command),
              .size = static_cast<uint32_t>(sizeof(vfio::Header) + payload.size()),
              .flags = flags,
              .error = 0},
             payload, fds);
  }

  uint16_t id() const { return id_; }

  // Returns nothing if the server has closed.
  std::optional<Reply> receive() {
    Reply reply;
    vfio::Header header;
    if (!receive_bytes(std::as_writable_bytes(std::span(&header, 1)), reply)) return std::nullopt;
    EXPECT_EQ(header.id, id_);
    EXPECT_EQ(header.flags & vfio::kTypeMask, vfio::kTypeReply);
    reply.error = header.error;
    reply.is_error = header.flags & vfio::kError;
    EXPECT_EQ(reply.is_error, reply.error != 0);
    reply.payload.resize(header.size - sizeof(header));
    if (!reply.payload.empty()) receive_bytes(reply.payload, reply);
    return reply;
  }
  Reply call(vfio::Command command, std::span<const std::byte> payload = {},
             std::span<const int> fds = {}) {
    send(command, payload, fds);
    auto reply = receive();
    EXPECT_TRUE(reply.has_value());
    return reply ? std::move(*reply) : Reply{};
  }
  void negotiate() {
    EXPECT_FALSE(call(vfio::Command::kVersion,
                      version_payload(0, std::string_view("{\"capabilities\":{}}\0", 20)))
                     .is_error);
  }

 private:
  bool receive_bytes(std::span<std::byte> into, Reply& reply) {
    while (!into.empty()) {
      iovec vector{into.data(), into.size()};
      std::byte control[CMSG_SPACE(sizeof(int) * 8)];
      msghdr message{};
      message.msg_iov = &vector;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      const ssize_t got = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
      if (got <= 0) return false;
      for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(c), sizeof(fd));
        reply.fds.emplace_back(fd);
      }
      into = into.subspan(static_cast<size_t>(got));
    }
    return true;
  }

  amdgpu_criu::Fd socket_;
  std::optional<vfio::Connection> server_;
  std::thread thread_;
  amdgpu_criu::Status status_;
  uint16_t id_ = 0;
};

}  // namespace gpu::test
