// SPDX-License-Identifier: GPL-2.0
// Network namespaces of replicas. They exist as long as a process in them: nothing is left when a
// replica ends.
#pragma once

#include <optional>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace amdgpu_criu::snapshot {

// A pair of virtual network devices, with the two usable addresses of a /30 network.
struct Veth {
  unsigned number;
  std::string device;   // the end outside; the other one is eth0
  std::string outside;  // "10.213.0.1"
  std::string inside;   // "10.213.0.2"
  Fd reserved;          // until it is closed, find_free_veth() returns others
};

// The network of that number. Fails if the subnet is not an IPv4 address, or has no such network.
Result<Veth> veth_of(const std::string& subnet, unsigned number);
// The first one that no device of this machine has, and that no other restore is about to make.
Result<Veth> find_free_veth(const std::string& subnet, unsigned first);

// Moves the calling process, which has one thread, to a new network namespace, with a loopback
// device, and the veth.
Status enter_new_network(const std::optional<Veth>& veth);

}  // namespace amdgpu_criu::snapshot
