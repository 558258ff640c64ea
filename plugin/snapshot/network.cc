// SPDX-License-Identifier: GPL-2.0
#include "snapshot/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "snapshot/program.h"

namespace amdgpu_criu::snapshot {
namespace {

constexpr unsigned kNetworks = 1 << 14;  // of /30 in a /16
constexpr unsigned kPerNetwork = 4;
constexpr int kNotFound = 127;  // of a shell

std::string text_of_address(uint32_t address) {
  char text[INET_ADDRSTRLEN];
  const in_addr one{htonl(address)};
  return inet_ntop(AF_INET, &one, text, sizeof(text));
}

// Lines of ip(8).
Status ip(const std::string& lines, const std::function<Status()>& prepare = {}) {
  Child child = TRY(Child::start(
      Program::shell("printf '%s' \"$LINES_OF_IP\" | ip -batch -", {{"LINES_OF_IP", lines}}),
      prepare));
  const int status = TRY(child.wait());
  if (status == 0) return {};
  return Error::of(ECHILD, "ip(8) of iproute2, which makes the network, ended with status {}{}",
                   status, status == kNotFound ? ": it is not installed" : "; see its messages");
}

// A name in the network namespace of this process; no other socket gets it until this is closed.
// Not valid if one has it.
Result<Fd> reserve_name(const std::string& name) {
  Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Error::system("cannot reserve the name of a device");
  sockaddr_un address{AF_UNIX, {}};
  name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) return socket;
  if (errno != EADDRINUSE) return Error::system("cannot reserve the name of a device");
  return Fd();
}

}  // namespace

Result<Veth> veth_of(const std::string& subnet, unsigned number) {
  in_addr base{};
  if (inet_pton(AF_INET, subnet.c_str(), &base) != 1)
    return Error::of(EINVAL, "{} is not an IPv4 address", subnet);
  if (number >= kNetworks) return Error::of(EINVAL, "{} has no free network", subnet);
  const uint32_t first = ntohl(base.s_addr) + number * kPerNetwork;
  return Veth{number,
              formatted("criu{}", number),
              text_of_address(first + 1),
              text_of_address(first + 2),
              {}};
}

Result<Veth> find_free_veth(const std::string& subnet, unsigned first) {
  for (unsigned number = first;; number++) {
    Veth veth = TRY(veth_of(subnet, number));
    // Reserved first: a restore that had it before has made the device.
    veth.reserved = TRY(reserve_name("amdgpu-criu-" + veth.device));
    if (veth.reserved.valid() && if_nametoindex(veth.device.c_str()) == 0) return veth;
  }
}

Status enter_new_network(const std::optional<Veth>& veth) {
  const Fd outside = TRY(Fd::open("/proc/self/ns/net", O_RDONLY));
  const auto go_outside = [&]() -> Status {
    if (setns(outside.get(), CLONE_NEWNET) != 0) return Error::system("cannot leave a network");
    return {};
  };
  if (unshare(CLONE_NEWNET) != 0) return Error::system("cannot make a network namespace");
  if (!veth) return ip("link set lo up\n");
  TRY(ip(formatted("link add {0} type veth peer name eth0 netns {1}\n"
                   "address add {2}/30 dev {0}\n"
                   "link set {0} up\n",
                   veth->device, getpid(), veth->outside),
         go_outside));
  return ip(
      formatted("link set lo up\n"
                "address add {}/30 dev eth0\n"
                "link set eth0 up\n"
                "route add default via {}\n",
                veth->inside, veth->outside));
}

}  // namespace amdgpu_criu::snapshot
