// SPDX-License-Identifier: GPL-2.0
#include "host/criu_needs.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "host/tcp.h"
#include "tests/temp_dir.h"

namespace amdgpu_criu::host {
namespace {

using testing::HasSubstr;
using testing_support::TempDir;
using std::literals::operator""s;
using std::literals::operator""sv;

class CriuNeeds : public testing::Test {
 protected:
  Fd make_file(const std::string& name, uint64_t size = 0) {
    Fd file = std::move(*Fd::open(dir_.file(name).c_str(), O_RDWR | O_CREAT, 0600));
    EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(size)), 0);
    return file;
  }
  // Of this process; empty: it does not need the option.
  static std::string need(const std::string& option) {
    for (const CriuNeed& need : criu_needs_of(getpid()))
      if (need.option == option) return need.describe();
    return {};
  }

  TempDir dir_;
};

// RCCL unlinks what its processes share, and keeps it mapped.
TEST_F(CriuNeeds, LargeDeletedFilesThatAreMappedNeedAGhostLimit) {
  std::vector<Mapping> mappings;
  for (const uint64_t size : {kGhostLimit, kGhostLimit + 4096, kGhostLimit + 8192}) {
    const std::string name = formatted("nccl-{}", size);
    const Fd file = make_file(name, size);
    mappings.push_back(std::move(*Mapping::map(4096, PROT_READ, MAP_SHARED, file.get())));
    EXPECT_EQ(need("--ghost-limit").find(name), std::string::npos);
    ASSERT_EQ(unlink(dir_.file(name).c_str()), 0);
  }
  EXPECT_THAT(need("--ghost-limit"), HasSubstr("/nccl-1056768 of 1056768 bytes, and 1 others"));
  EXPECT_THAT(need("--ghost-limit"), HasSubstr("criu dump --ghost-limit 1056768"));
}

TEST_F(CriuNeeds, LargeDeletedFilesThatAreOpenNeedAGhostLimit) {
  const Fd file = make_file("open", kGhostLimit + 1);
  EXPECT_EQ(need("--ghost-limit"), "");
  ASSERT_EQ(unlink(dir_.file("open").c_str()), 0);
  EXPECT_THAT(need("--ghost-limit"), HasSubstr("criu dump --ghost-limit 1048577"));
}

TEST_F(CriuNeeds, DeletedFilesWithAnotherNameNeedALinkRemap) {
  const Fd file = make_file("first");
  ASSERT_EQ(link(dir_.file("first").c_str(), dir_.file("second").c_str()), 0);
  EXPECT_EQ(need("--link-remap"), "");
  ASSERT_EQ(unlink(dir_.file("first").c_str()), 0);
  EXPECT_THAT(need("--link-remap"), HasSubstr("/first, which was deleted"));
}

TEST_F(CriuNeeds, LocksNeedFileLocks) {
  const Fd file = make_file("locked");
  EXPECT_EQ(need("--file-locks"), "");
  ASSERT_EQ(flock(file.get(), LOCK_EX), 0);
  EXPECT_THAT(need("--file-locks"), HasSubstr("use criu dump --file-locks"));
}

// A socket that listens at a port of lo, and a connection to it.
struct Connection {
  Fd listener{socket(AF_INET, SOCK_STREAM, 0)}, client{socket(AF_INET, SOCK_STREAM, 0)};
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
  socklen_t size = sizeof(address);

  sockaddr* any() { return reinterpret_cast<sockaddr*>(&address); }
  uint16_t port() const { return ntohs(address.sin_port); }
  void listen_at_a_port() {
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(bind(listener.get(), any(), size), 0);
    ASSERT_EQ(listen(listener.get(), 1), 0);
    ASSERT_EQ(getsockname(listener.get(), any(), &size), 0);
  }
  void connect_client() { ASSERT_EQ(connect(client.get(), any(), size), 0); }
  // The listener's side closes first, so that the port is that of a closed connection.
  void close_connection() {
    char byte;
    Fd(accept(listener.get(), nullptr, nullptr)).reset();
    ASSERT_EQ(read(client.get(), &byte, 1), 0);
    client.reset();
  }
};

TEST_F(CriuNeeds, TcpConnectionsNeedTcpEstablished) {
  Connection connection;
  connection.listen_at_a_port();
  EXPECT_EQ(need("--tcp-established"), "");
  const pid_t self = getpid();
  const auto sockets = tcp_sockets_of({&self, 1});
  ASSERT_EQ(sockets.size(), 1u);
  EXPECT_TRUE(sockets[0].listening && sockets[0].is_loopback());
  EXPECT_EQ(sockets[0].port, connection.port());
  connection.connect_client();
  EXPECT_THAT(need("--tcp-established"), HasSubstr("has 1 TCP connections"));
}

TEST(Ports, OfClosedConnectionsAreNotFreeForAListenerThatDoesNotShareItsAddress) {
  const pid_t self = getpid();
  for (const int shared : {1, 0}) {
    Connection connection;
    ASSERT_EQ(
        setsockopt(connection.listener.get(), SOL_SOCKET, SO_REUSEADDR, &shared, sizeof(shared)),
        0);
    connection.listen_at_a_port();
    connection.connect_client();
    EXPECT_EQ(note_on_ports({&self, 1}), "");
    connection.close_connection();
    const auto is_reported = [&] {
      return note_on_ports({&self, 1}).find(formatted("listens at port {} ", connection.port())) !=
             std::string::npos;
    };
    for (int tries = 0; !shared && tries < 100 && !is_reported(); tries++) usleep(10000);
    EXPECT_EQ(is_reported(), !shared);
  }
}

TEST(ParseTcp, UnderstandsBothFamilies) {
  const auto sockets = parse_tcp(
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
      "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
      "71 1\n"
      "   1: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A "
      "00000000:00000000 00:00000000 00000000     0        0 72 1\n"
      "   2: 0100007F:1F90 0100007F:9000 01 00000000:00000000 00:00000000 00000000  0  0 73 1\n"
      "   3: 0100007F:1F91 00000000:0000 07 00000000:00000000 00:00000000 00000000  0  0 74 1\n"
      "   4: 0100007F:1F90 0100007F:9001 06 00000000:00000000 03:00001770 00000000  0  0 0 3\n"
      "   5: broken\n");
  ASSERT_EQ(sockets.size(), 4u);
  EXPECT_EQ(sockets[0].address, "127.0.0.1");
  EXPECT_EQ(sockets[0].port, 8080);
  EXPECT_EQ(sockets[1].address, "[::]");
  EXPECT_TRUE(sockets[1].listening);
  EXPECT_FALSE(sockets[2].listening || sockets[2].closed);
  EXPECT_TRUE(sockets[3].closed);
}

TEST(CriuNeed, IsMetByTheOptionOrItsShortForm) {
  const CriuNeed locks{"--file-locks", "", ""}, tcp{"--tcp-established", "", ""};
  EXPECT_TRUE(is_met(locks, "criu\0dump\0--file-locks\0"sv));
  EXPECT_TRUE(is_met(locks, "criu\0dump\0-l\0"sv));
  EXPECT_FALSE(is_met(locks, "criu\0dump\0-D\0x--file-locks\0"sv));
  EXPECT_TRUE(is_met(tcp, "criu\0dump\0--tcp-close\0"sv));
  EXPECT_FALSE(is_met({"--ghost-limit", "2", ""}, "criu\0dump\0--ghost-limit\0001\0"sv));
}

TEST(CriuNeed, AValueIsMetByOneThatSuffices) {
  const CriuNeed need{"--ghost-limit", "2097152", ""};
  for (const auto& enough : {"--ghost-limit\0002097152\0"sv, "--ghost-limit=2M\0"sv,
                             "--ghost-limit\0001G\0"sv, "--ghost-limit=9999999\0-D\0x\0"sv})
    EXPECT_TRUE(is_met(need, "criu\0dump\0"s.append(enough))) << enough;
  for (const auto& less : {"--ghost-limit\0002097151\0"sv, "--ghost-limit=1M\0"sv,
                           "--ghost-limit\0"sv, "-D\0002097152\0"sv, "--ghost-limit=\0"sv})
    EXPECT_FALSE(is_met(need, "criu\0dump\0"s.append(less))) << less;
}

TEST(CriuNeed, ARuntimeSendsOptionsToCriu) {
  EXPECT_TRUE(has_no_options("criu\0swrk\0003\0"sv));
  EXPECT_TRUE(has_no_options("criu\0service\0"sv));
  EXPECT_FALSE(has_no_options("criu\0dump\0-D\0swrk\0"sv));
}

TEST(CriuNeed, ATreeNeedsEachOptionOnceWithTheLargestValue) {
  const pid_t self = getpid();
  const std::vector<pid_t> tree{self, self};
  const auto needs = criu_needs_of_tree(tree);
  for (const CriuNeed& need : needs)
    EXPECT_EQ(std::ranges::count(needs, need.option, &CriuNeed::option), 1) << need.option;
  EXPECT_EQ(std::ranges::count(needs, "--shell-job", &CriuNeed::option), getsid(0) != self);
}

}  // namespace
}  // namespace amdgpu_criu::host
