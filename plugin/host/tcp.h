// SPDX-License-Identifier: GPL-2.0
// TCP sockets of processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace amdgpu_criu::host {

struct TcpSocket {
  std::string address;  // "127.0.0.1" or "[::]": where it is bound
  uint16_t port;
  bool listening;  // else it has, or had, a peer
  bool closed;     // in TIME-WAIT
  ino_t inode;

  bool is_loopback() const { return address.starts_with("127.") || address == "[::1]"; }
};

// One line of /proc/PID/net/tcp or tcp6, without the heading.
std::vector<TcpSocket> parse_tcp(const std::string& lines);
// The inodes of all sockets that the process has open.
std::set<ino_t> sockets_of(pid_t pid);
// The TCP sockets that the processes have open, each once. They are in one network namespace.
std::vector<TcpSocket> tcp_sockets_of(std::span<const pid_t> pids);

// Ports at which the processes listen, and which are not free for a restore in the same network
// namespace: closed connections still have them (TIME-WAIT), and the listening socket does not let
// others have its address (SO_REUSEADDR).
std::set<uint16_t> ports_of_closed_connections(std::span<const pid_t> pids);

}  // namespace amdgpu_criu::host
