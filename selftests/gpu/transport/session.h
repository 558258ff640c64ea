// SPDX-License-Identifier: GPL-2.0
// The session of one client with one device: a command in, a reply out.
#pragma once

#include <vector>

#include "pci/pci_device.h"
#include "transport/connection.h"

namespace gpu::vfio {

class Session {
 public:
  Session(PciDevice& device, Connection& connection) : device_(device), connection_(connection) {}

  // Runs until the client closes; an error says why the session could not continue.
  amdgpu_criu::Status run();

 private:
  struct Reply {
    std::vector<std::byte> payload;
    int fd = -1;
  };
  using Handler = amdgpu_criu::Result<Reply> (Session::*)(Message&);
  struct Row {
    Command command;
    size_t min_payload;
    size_t max_payload;
    size_t max_fds;
    Handler handler;
  };
  static const Row* find(uint16_t command);

  amdgpu_criu::Status answer(Message& message);
  amdgpu_criu::Result<Reply> handle(Message& message);

  amdgpu_criu::Result<Reply> version(Message& message);
  amdgpu_criu::Result<Reply> dma_map(Message& message);
  amdgpu_criu::Result<Reply> dma_unmap(Message& message);
  amdgpu_criu::Result<Reply> get_info(Message& message);
  amdgpu_criu::Result<Reply> get_region_info(Message& message);
  amdgpu_criu::Result<Reply> get_irq_info(Message& message);
  amdgpu_criu::Result<Reply> set_irqs(Message& message);
  amdgpu_criu::Result<Reply> region_read(Message& message);
  amdgpu_criu::Result<Reply> region_write(Message& message);
  amdgpu_criu::Result<Reply> region_write_multi(Message& message);
  amdgpu_criu::Result<Reply> reset(Message& message);

  amdgpu_criu::Status check_access(const RegionAccess& access, bool for_write) const;

  PciDevice& device_;
  Connection& connection_;
  bool negotiated_ = false;
};

}  // namespace gpu::vfio
