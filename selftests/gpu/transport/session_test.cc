// SPDX-License-Identifier: GPL-2.0
// The messages that QEMU 11.1 sends, in its order.
#include "transport/session.h"

#include <gmock/gmock.h>
#include <linux/pci_regs.h>
#include <sys/eventfd.h>
#include <sys/un.h>

#include "transport/server.h"
#include "transport/test_client.h"
#include "transport/test_device.h"

namespace gpu {
namespace {

using test::bytes_of;
using test::Client;
using test::GuestRam;
using test::make_device;
using vfio::Command;

constexpr uint64_t kRamSize = 1 << 20;

class SessionTest : public testing::Test {
 protected:
  Client::Reply map(uint64_t iova, uint64_t size, uint64_t offset = 0, int fd = -1,
                    uint32_t flags = 3) {
    const vfio::DmaMap request{
        .argsz = 32, .flags = flags, .offset = offset, .iova = iova, .size = size};
    if (fd < 0) return client_.call(Command::kDmaMap, bytes_of(request));
    return client_.call(Command::kDmaMap, bytes_of(request), {{fd}});
  }
  vfio::RegionInfo region(uint32_t index) {
    return client_.call(Command::kGetRegionInfo, bytes_of(vfio::RegionInfo{32, 0, index, 0, 0, 0}))
        .as<vfio::RegionInfo>();
  }
  template <typename T>
  T read(uint32_t index, uint64_t offset) {
    const auto reply =
        client_.call(Command::kRegionRead, bytes_of(vfio::RegionAccess{offset, index, sizeof(T)}));
    EXPECT_FALSE(reply.is_error);
    T value{};
    EXPECT_EQ(reply.payload.size(), sizeof(vfio::RegionAccess) + sizeof(T));
    memcpy(&value, reply.payload.data() + sizeof(vfio::RegionAccess), sizeof(T));
    return value;
  }
  template <typename T>
  Client::Reply write(uint32_t index, uint64_t offset, T value) {
    auto payload = bytes_of(vfio::RegionAccess{offset, index, sizeof(T)});
    const auto data = bytes_of(value);
    payload.insert(payload.end(), data.begin(), data.end());
    return client_.call(Command::kRegionWrite, payload);
  }

  const GuestRam ram_{kRamSize};
  std::unique_ptr<Device> device_ = make_device();
  Client client_{*device_};
};

TEST_F(SessionTest, OpeningSequenceOfQemu) {
  const auto version = client_.call(
      Command::kVersion,
      test::version_payload(0, std::string_view("{\"capabilities\":{\"max_msg_fds\":16}}\0", 36)));
  ASSERT_FALSE(version.is_error);
  EXPECT_EQ(version.as<vfio::Version>().major, 0);
  EXPECT_EQ(version.as<vfio::Version>().minor, 0);
  EXPECT_EQ(version.payload.back(), std::byte{0});

  EXPECT_FALSE(map(0, 0xa0000, 0, ram_.number()).is_error);
  EXPECT_FALSE(map(0xc0000, 0x20000, 0xc0000, ram_.number(), 1).is_error) << "a ROM";
  EXPECT_FALSE(map(0xe0000, 0x10000).is_error) << "without memory";

  const auto info = client_.call(Command::kGetInfo, bytes_of(vfio::DeviceInfo{16, 0, 0, 0}))
                        .as<vfio::DeviceInfo>();
  EXPECT_EQ(info.flags, vfio::kDevicePci | vfio::kDeviceReset);
  EXPECT_EQ(info.regions, 9u);
  EXPECT_EQ(info.irqs, 5u);

  EXPECT_EQ(region(0).flags, 7u);
  EXPECT_EQ(region(0).size, 256u << 20);
  EXPECT_EQ(region(1).size, 0u);
  EXPECT_EQ(region(2).flags, 3u);
  EXPECT_EQ(region(5).size, 512u << 10);
  EXPECT_EQ(region(7).size, 4096u);
  EXPECT_EQ(region(6).flags, 1u);

  const auto irq = client_.call(Command::kGetIrqInfo, bytes_of(vfio::IrqInfo{16, 0, 1, 0}));
  EXPECT_EQ(irq.as<vfio::IrqInfo>().count, 1u);
  EXPECT_EQ(client_.call(Command::kGetIrqInfo, bytes_of(vfio::IrqInfo{16, 0, 3, 0})).error,
            static_cast<uint32_t>(EINVAL));

  EXPECT_EQ(read<uint32_t>(7, PCI_VENDOR_ID), 0x740f1002u);
  EXPECT_FALSE(client_.call(Command::kReset).is_error);
  const vfio::DmaUnmap unmap{24, 0, 0xc0000, 0x20000};
  EXPECT_FALSE(client_.call(Command::kDmaUnmap, bytes_of(unmap)).is_error);
  EXPECT_TRUE(client_.close().ok());
}

TEST_F(SessionTest, VideoMemoryCanBeMappedByTheClient) {
  client_.negotiate();
  auto reply = client_.call(Command::kGetRegionInfo, bytes_of(vfio::RegionInfo{32, 0, 0, 0, 0, 0}));
  ASSERT_EQ(reply.fds.size(), 1u);
  const auto mapping = test::expect(
      amdgpu_criu::Mapping::map(1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, reply.fds[0].get()));
  write<uint32_t>(0, 0x1000, 0xfeed);
  uint32_t value;
  memcpy(&value, mapping.data() + 0x1000, 4);
  EXPECT_EQ(value, 0xfeedu);
}

TEST_F(SessionTest, RegistersAnswer) {
  client_.negotiate();
  EXPECT_EQ(read<uint32_t>(5, 0xde3 * 4), 256u);
  EXPECT_FALSE(write<uint32_t>(5, 0xc040 * 4, 0xcafedead).is_error);
  EXPECT_EQ(read<uint32_t>(5, 0xc040 * 4), 0xcafedeadu);
  EXPECT_FALSE(write<uint64_t>(2, 0x18, 1).is_error);
  EXPECT_EQ(read<uint16_t>(6, 0), 0xaa55);
}

TEST_F(SessionTest, InterruptArrivesAtTheEventfd) {
  client_.negotiate();
  map(0, kRamSize, 0, ram_.number());
  const amdgpu_criu::Fd event(eventfd(0, EFD_NONBLOCK));
  const vfio::SetIrqs set{20, vfio::kSetEventfd | vfio::kSetTrigger, 1, 0, 1};
  EXPECT_FALSE(client_.call(Command::kSetIrqs, bytes_of(set), {{event.get()}}).is_error);
  write<uint32_t>(5, 0x1121 * 4, 0x10);
  write<uint32_t>(5, 0x1120 * 4, 1 | 6 << 1 | 1 << 17 | 1 << 28);
  write<uint32_t>(5, 0x1124 * 4, 32);
  // The ring has an entry that was not read: acknowledging less signals again.
  write<uint32_t>(5, 0x1123 * 4, 0);
  uint64_t count = 0;
  EXPECT_EQ(::read(event.get(), &count, 8), 8);
  const vfio::SetIrqs off{20, vfio::kSetNone | vfio::kSetTrigger, 1, 0, 0};
  EXPECT_FALSE(client_.call(Command::kSetIrqs, bytes_of(off)).is_error);
  write<uint32_t>(5, 0x1123 * 4, 0);
  EXPECT_EQ(::read(event.get(), &count, 8), -1);
}

TEST_F(SessionTest, WriteMultiWritesAll) {
  client_.negotiate();
  auto payload = bytes_of(vfio::WriteMulti{2});
  for (uint32_t i = 0; i < 2; ++i) {
    vfio::WriteMultiEntry entry{(0xc040 + i) * 4, 5, 4, {}};
    entry.data[0] = static_cast<std::byte>(i + 1);
    const auto bytes = bytes_of(entry);
    payload.insert(payload.end(), bytes.begin(), bytes.end());
  }
  EXPECT_FALSE(client_.call(Command::kRegionWriteMulti, payload).is_error);
  EXPECT_EQ(read<uint32_t>(5, 0xc040 * 4), 1u);
  EXPECT_EQ(read<uint32_t>(5, 0xc041 * 4), 2u);
}

TEST_F(SessionTest, TheNoReplyFlagIsObeyed) {
  client_.negotiate();
  auto payload = bytes_of(vfio::RegionAccess{0xc040 * 4, 5, 4});
  const auto data = bytes_of(uint32_t{5});
  payload.insert(payload.end(), data.begin(), data.end());
  client_.send(Command::kRegionWrite, payload, {}, vfio::kNoReply);
  client_.send(Command::kRegionWrite, {}, {}, vfio::kNoReply);  // malformed, and still none
  EXPECT_EQ(read<uint32_t>(5, 0xc040 * 4), 5u);
}

TEST_F(SessionTest, AResetClearsRegistersAndKeepsDma) {
  client_.negotiate();
  map(0, kRamSize, 0, ram_.number());
  write<uint32_t>(5, 0xc040 * 4, 5);
  EXPECT_FALSE(client_.call(Command::kReset).is_error);
  EXPECT_EQ(read<uint32_t>(5, 0xc040 * 4), 0u);
  EXPECT_EQ(map(0, kRamSize, 0, ram_.number()).error, static_cast<uint32_t>(EEXIST));
}

class ServerTest : public testing::Test {
 protected:
  const std::string path_ = testing::TempDir() + "softgpu-" + std::to_string(getpid()) + ".sock";
};

TEST_F(ServerTest, StopEndsTheWaitForAClient) {
  auto server = test::expect(vfio::Server::create(path_));
  auto device = make_device();
  std::thread stopper([&] {
    usleep(20000);
    server->stop();
  });
  EXPECT_TRUE(server->serve(*device).ok());
  stopper.join();
}

TEST_F(ServerTest, APathHasOneServer) {
  auto first = test::expect(vfio::Server::create(path_));
  const auto second = vfio::Server::create(path_);
  EXPECT_EQ(test::code_of(second), EADDRINUSE);
}

TEST_F(ServerTest, StaleSocketIsReplacedAndOtherFilesAreNot) {
  const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path_.copy(address.sun_path, path_.size());
  ASSERT_EQ(bind(dead, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(dead);
  {
    EXPECT_TRUE(vfio::Server::create(path_).ok());
  }
  EXPECT_NE(access(path_.c_str(), F_OK), 0) << "removed with the server";
  {
    const auto file = test::expect(amdgpu_criu::Fd::open(path_.c_str(), O_CREAT | O_WRONLY, 0600));
  }
  EXPECT_FALSE(vfio::Server::create(path_).ok());
  EXPECT_EQ(access(path_.c_str(), F_OK), 0);
  unlink(path_.c_str());
}

TEST_F(ServerTest, RefusesPathsThatAreNotSockets) {
  EXPECT_EQ(test::code_of(vfio::Server::create("")), ENAMETOOLONG);
  EXPECT_EQ(test::code_of(vfio::Server::create(std::string(200, 'x'))), ENAMETOOLONG);
  EXPECT_FALSE(vfio::Server::create("/none/x.sock").ok());
}

}  // namespace
}  // namespace gpu
