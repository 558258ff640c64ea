// SPDX-License-Identifier: GPL-2.0
// The socket that a virtual machine connects to. Serves one client, until it closes.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "pci/pci_device.h"
#include "transport/connection.h"

namespace gpu::vfio {

class Server {
 public:
  // Binds and listens. Replaces a stale socket file; a socket in use is an error.
  static amdgpu_criu::Result<std::unique_ptr<Server>> create(std::string path);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Waits for a client and serves it until it closes or stop() is called.
  amdgpu_criu::Status serve(PciDevice& device);
  // From any thread.
  void stop();

 private:
  Server(std::string path, amdgpu_criu::Fd socket)
      : path_(std::move(path)), socket_(std::move(socket)) {}
  amdgpu_criu::Result<bool> accept();

  std::string path_;
  amdgpu_criu::Fd socket_;
  std::mutex mutex_;  // connection_, stopped_
  std::optional<Connection> connection_;
  bool stopped_ = false;
};

}  // namespace gpu::vfio
