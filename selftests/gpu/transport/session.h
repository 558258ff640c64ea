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
  base::Status run();

 private:
  struct Reply {
    std::vector<std::byte> payload;
    int fd = -1;
  };
  using Handler = base::Result<Reply> (Session::*)(Message&);
  struct Row {
    Command command;
    size_t min_payload;
    size_t max_payload;
    size_t max_fds;
    Handler handler;
  };
  static const Row* find(uint16_t command);

  base::Status answer(Message& message);
  base::Result<Reply> handle(Message& message);

  base::Result<Reply> version(Message& message);
  base::Result<Reply> dma_map(Message& message);
  base::Result<Reply> dma_unmap(Message& message);
  base::Result<Reply> get_info(Message& message);
  base::Result<Reply> get_region_info(Message& message);
  base::Result<Reply> get_irq_info(Message& message);
  base::Result<Reply> set_irqs(Message& message);
  base::Result<Reply> region_read(Message& message);
  base::Result<Reply> region_write(Message& message);
  base::Result<Reply> region_write_multi(Message& message);
  base::Result<Reply> reset(Message& message);

  base::Status check_access(const RegionAccess& access, bool for_write) const;

  PciDevice& device_;
  Connection& connection_;
  bool negotiated_ = false;
};

}  // namespace gpu::vfio
