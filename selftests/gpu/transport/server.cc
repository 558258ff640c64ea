// SPDX-License-Identifier: GPL-2.0
#include "transport/server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "transport/session.h"

namespace gpu::vfio {
namespace {

amdgpu_criu::Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return amdgpu_criu::Error::of(ENAMETOOLONG, "socket path {}: 1 to {} characters", path,
                                  sizeof(address.sun_path) - 1);
  path.copy(address.sun_path, path.size());
  return address;
}

amdgpu_criu::Result<amdgpu_criu::Fd> make_socket() {
  amdgpu_criu::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return amdgpu_criu::Error::system("cannot make a socket");
  return fd;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// Removes the socket of a server that was killed, and nothing else.
amdgpu_criu::Status remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return {};
    return amdgpu_criu::Error::system("cannot use {}", path);
  }
  if (!S_ISSOCK(info.st_mode))
    return amdgpu_criu::Error::of(EEXIST, "{} exists and is not a socket", path);
  const amdgpu_criu::Fd probe = TRY(make_socket());
  if (::connect(probe.get(), generic(address), sizeof(address)) == 0)
    return amdgpu_criu::Error::of(EADDRINUSE, "another server listens at {}", path);
  if (errno != ECONNREFUSED) return amdgpu_criu::Error::system("cannot use {}", path);
  if (::unlink(path.c_str()) != 0) return amdgpu_criu::Error::system("cannot remove {}", path);
  return {};
}

}  // namespace

amdgpu_criu::Result<std::unique_ptr<Server>> Server::create(std::string path) {
  const sockaddr_un address = TRY(address_of(path));
  TRY(remove_stale(path, address));
  amdgpu_criu::Fd fd = TRY(make_socket());
  if (::bind(fd.get(), generic(address), sizeof(address)) != 0)
    return amdgpu_criu::Error::system("cannot bind {}", path);
  std::unique_ptr<Server> server(new Server(std::move(path), std::move(fd)));
  if (::listen(server->socket_.get(), 1) != 0)
    return amdgpu_criu::Error::system("cannot listen at {}", server->path_);
  return server;
}

Server::~Server() { ::unlink(path_.c_str()); }

amdgpu_criu::Result<bool> Server::accept() {
  amdgpu_criu::Fd client;
  do {
    client.reset(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  } while (!client.valid() && errno == EINTR);
  const int error = errno;
  const std::lock_guard lock(mutex_);
  if (stopped_) return false;
  if (!client.valid())
    return amdgpu_criu::Error::of(error, "cannot accept at {}: {}", path_, strerror(error));
  connection_.emplace(std::move(client));
  return true;
}

amdgpu_criu::Status Server::serve(PciDevice& device) {
  if (!TRY(accept()) || !connection_) return {};
  const auto status = Session(device, *connection_).run();
  device.disconnect();
  const std::lock_guard lock(mutex_);
  connection_.reset();
  if (stopped_) return {};
  return status;
}

void Server::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  ::shutdown(socket_.get(), SHUT_RDWR);  // accept() ends
  if (connection_) connection_->shut_down();
}

}  // namespace gpu::vfio
