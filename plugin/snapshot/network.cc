// SPDX-License-Identifier: GPL-2.0
#include "snapshot/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <unistd.h>

#include "snapshot/program.h"

namespace amdgpu_criu::snapshot {
namespace {

constexpr unsigned kNetworks = 1 << 14;  // of /30 in a /16
constexpr unsigned kPerNetwork = 4;

std::string text_of_address(uint32_t address) {
  char text[INET_ADDRSTRLEN];
  const in_addr one{htonl(address)};
  return inet_ntop(AF_INET, &one, text, sizeof(text));
}

// Lines of ip(8).
Status ip(const std::string& lines, const std::function<Status()>& prepare = {}) {
  return run(Program::shell("printf '%s' \"$LINES_OF_IP\" | ip -batch -", {{"LINES_OF_IP", lines}}),
             prepare);
}

}  // namespace

Result<Veth> veth_of(const std::string& subnet, unsigned number) {
  in_addr base{};
  if (inet_pton(AF_INET, subnet.c_str(), &base) != 1)
    return Error::of(EINVAL, "{} is not an IPv4 address", subnet);
  if (number >= kNetworks) return Error::of(EINVAL, "{} has no free network", subnet);
  const uint32_t first = ntohl(base.s_addr) + number * kPerNetwork;
  return Veth{number, formatted("criu{}", number), text_of_address(first + 1),
              text_of_address(first + 2)};
}

Result<Veth> find_free_veth(const std::string& subnet, unsigned first) {
  for (unsigned number = first;; number++) {
    Veth veth = TRY(veth_of(subnet, number));
    if (if_nametoindex(veth.device.c_str()) == 0) return veth;
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
