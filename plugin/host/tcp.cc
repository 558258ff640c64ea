// SPDX-License-Identifier: GPL-2.0
#include "host/tcp.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/fd.h"
#include "base/result.h"

namespace amdgpu_criu::host {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kListen = 10;   // TCP_LISTEN
constexpr unsigned kClosed = 7;    // TCP_CLOSE: neither bound to a peer nor waiting for one
constexpr unsigned kTimeWait = 6;  // TCP_TIME_WAIT
constexpr const char* kTables[] = {"tcp", "tcp6"};

// The kernel prints the words of an address as numbers of this machine's byte order.
std::string address_from(const std::string& hex) {
  uint32_t words[4] = {};
  for (size_t i = 0; i < hex.size() / 8 && i < std::size(words); i++)
    words[i] = static_cast<uint32_t>(std::stoul(hex.substr(8 * i, 8), nullptr, 16));
  char text[INET6_ADDRSTRLEN];
  const bool is_v6 = hex.size() > 8;
  if (!inet_ntop(is_v6 ? AF_INET6 : AF_INET, words, text, sizeof(text))) return "?";
  return is_v6 ? formatted("[{}]", text) : text;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::map<int, ino_t> socket_descriptors_of(pid_t pid) {
  constexpr std::string_view kSocket = "socket:[";
  std::map<int, ino_t> result;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(formatted("/proc/{}/fd", pid), error)) {
    const std::string link = fs::read_symlink(entry.path(), error);
    if (link.starts_with(kSocket))
      result.emplace(std::stoi(entry.path().filename()), std::stoul(link.substr(kSocket.size())));
  }
  return result;
}

// False also if it cannot be found out.
bool keeps_address_for_itself(const Pidfd& process, int number) {
  const Fd socket = process.take_descriptor(number);
  int shares = 1;
  socklen_t size = sizeof(shares);
  return getsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &shares, &size) == 0 && !shares;
}

}  // namespace

std::vector<TcpSocket> parse_tcp(const std::string& lines) {
  std::vector<TcpSocket> result;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retransmits;
    unsigned long user = 0, timeouts = 0;
    ino_t inode = 0;
    words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
        timeouts >> inode;
    const size_t colon = local.find(':');
    if (!words || colon == local.npos || number == "sl") continue;
    const auto code = std::stoul(state, nullptr, 16);
    if (code == kClosed) continue;
    result.push_back({address_from(local.substr(0, colon)),
                      static_cast<uint16_t>(std::stoul(local.substr(colon + 1), nullptr, 16)),
                      code == kListen, code == kTimeWait, inode});
  }
  return result;
}

std::set<ino_t> sockets_of(pid_t pid) {
  std::set<ino_t> result;
  for (const auto& [number, inode] : socket_descriptors_of(pid)) result.insert(inode);
  return result;
}

std::vector<TcpSocket> tcp_sockets_of(std::span<const pid_t> pids) {
  std::set<ino_t> open;
  for (const pid_t pid : pids) open.merge(sockets_of(pid));
  if (open.empty()) return {};
  std::vector<TcpSocket> result;
  for (const char* table : kTables)
    for (TcpSocket& socket : parse_tcp(content_of(formatted("/proc/{}/net/{}", pids[0], table))))
      if (open.contains(socket.inode)) result.push_back(std::move(socket));
  return result;
}

std::set<uint16_t> ports_of_closed_connections(std::span<const pid_t> pids) {
  std::set<uint16_t> closed, result;
  std::map<ino_t, uint16_t> listening;
  for (const char* table : kTables)
    for (const TcpSocket& socket :
         parse_tcp(content_of(formatted("/proc/{}/net/{}", pids[0], table)))) {
      if (socket.closed) closed.insert(socket.port);
      if (socket.listening) listening.emplace(socket.inode, socket.port);
    }
  std::erase_if(listening, [&](const auto& one) { return !closed.contains(one.second); });
  if (listening.empty()) return {};
  for (const pid_t pid : pids) {
    const Pidfd process = Pidfd::find(pid);
    for (const auto& [number, inode] : socket_descriptors_of(pid))
      if (const auto found = listening.find(inode);
          found != listening.end() && keeps_address_for_itself(process, number))
        result.insert(found->second);
  }
  return result;
}

}  // namespace amdgpu_criu::host
