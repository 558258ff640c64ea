// SPDX-License-Identifier: GPL-2.0
#include "render/channel.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "workload/control.h"

namespace e2e {

using amdgpu_criu::Error;
using amdgpu_criu::Fd;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

namespace {

constexpr size_t kMostFds = 16;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

Result<Fd> make_socket() {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Error::system("cannot make a socket");
  return fd;
}

}  // namespace

Result<std::pair<Channel, Channel>> Channel::pair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    return Error::system("cannot make a pair of sockets");
  return std::pair(Channel(Fd(fds[0])), Channel(Fd(fds[1])));
}

Result<Channel> Channel::serve(const std::string& path) {
  const Fd listener = TRY(make_socket());
  const sockaddr_un address = address_of(path);
  unlink(path.c_str());
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.get(), 1) != 0)
    return Error::system("cannot listen on {}", path);
  Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.valid()) return Error::system("cannot accept on {}", path);
  unlink(path.c_str());
  return Channel(std::move(fd));
}

Result<Channel> Channel::join(const std::string& path, unsigned timeout_ms) {
  const sockaddr_un address = address_of(path);
  for (unsigned ms = 0;; ms += 10) {
    Fd fd = TRY(make_socket());
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0)
      return Channel(std::move(fd));
    if (ms >= timeout_ms) return Error::system("cannot connect to {}", path);
    pause_ms(10);
  }
}

Status Channel::send_all(const void* data, size_t size) const {
  for (size_t done = 0; done < size;) {
    const ssize_t count =
        send(fd_.get(), static_cast<const char*>(data) + done, size - done, MSG_NOSIGNAL);
    if (count < 0 && errno != EINTR) return Error::system("cannot send to the other process");
    if (count > 0) done += static_cast<size_t>(count);
  }
  return {};
}

Status Channel::receive_all(void* data, size_t size) const {
  for (size_t done = 0; done < size;) {
    const ssize_t count = recv(fd_.get(), static_cast<char*>(data) + done, size - done, 0);
    if (count == 0) return Error(ESHUTDOWN, "the other process has exited");
    if (count < 0 && errno != EINTR) return Error::system("cannot receive");
    if (count > 0) done += static_cast<size_t>(count);
  }
  return {};
}

Result<Reply> Channel::ask(const Request& request) const {
  TRY(send_all(&request, sizeof(request)));
  return wait_for_answer();
}

Result<Reply> Channel::wait_for_answer() const {
  Reply reply = {};
  TRY(receive_all(&reply, sizeof(reply)));
  return reply;
}

Result<Request> Channel::next() const {
  Request request = {};
  TRY(receive_all(&request, sizeof(request)));
  return request;
}

Status Channel::answer(const Reply& reply) const { return send_all(&reply, sizeof(reply)); }

Status Channel::send_fds(const std::vector<Fd>& fds) const {
  if (fds.size() > kMostFds) return Error(EMSGSIZE, "too many descriptors for one message");
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostFds)] = {};
  char byte = 0;
  iovec data = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
  for (size_t i = 0; i < fds.size(); ++i) {
    const int fd = fds[i].get();
    memcpy(CMSG_DATA(header) + i * sizeof(int), &fd, sizeof(int));
  }
  if (sendmsg(fd_.get(), &message, MSG_NOSIGNAL) != 1)
    return Error::system("cannot send descriptors");
  return {};
}

Result<std::vector<Fd>> Channel::receive_fds(size_t count) const {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostFds)] = {};
  char byte = 0;
  iovec data = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t received = -1;
  do received = recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
  while (received < 0 && errno == EINTR);
  if (received < 0) return Error::system("cannot receive descriptors");
  std::vector<Fd> fds;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  const size_t bytes = header ? header->cmsg_len - CMSG_LEN(0) : 0;
  for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
    int fd = -1;
    memcpy(&fd, CMSG_DATA(header) + at, sizeof(int));
    fds.emplace_back(fd);
  }
  if (fds.size() != count)
    return Error::of(EPROTO, "{} descriptors received, {} expected", fds.size(), count);
  return fds;
}

}  // namespace e2e
