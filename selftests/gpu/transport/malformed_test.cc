// SPDX-License-Identifier: GPL-2.0
// Messages that no well-behaved client sends: each fails with its error, and the next is served.
#include <sys/eventfd.h>

#include <filesystem>
#include <functional>
#include <random>

#include "transport/test_client.h"
#include "transport/test_device.h"

namespace gpu {
namespace {

using test::bytes_of;
using test::Client;
using test::GuestRam;
using test::make_device;
using vfio::Command;

constexpr uint64_t kPage = 4096;

size_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

std::vector<std::byte> join(std::vector<std::byte> front, std::span<const std::byte> back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

// A payload of each command that would be accepted.
std::vector<std::byte> good(Command command) {
  const uint32_t value = 1;
  switch (command) {
    case Command::kDmaMap:
      return bytes_of(vfio::DmaMap{32, 3, 0, 64 * kPage, kPage});
    case Command::kDmaUnmap:
      return bytes_of(vfio::DmaUnmap{24, 0, 64 * kPage, kPage});
    case Command::kGetInfo:
      return bytes_of(vfio::DeviceInfo{16, 0, 0, 0});
    case Command::kGetRegionInfo:
      return bytes_of(vfio::RegionInfo{32, 0, 5, 0, 0, 0});
    case Command::kGetIrqInfo:
      return bytes_of(vfio::IrqInfo{16, 0, 1, 0});
    case Command::kSetIrqs:
      return bytes_of(vfio::SetIrqs{20, 0x21, 1, 0, 0});
    case Command::kRegionRead:
      return bytes_of(vfio::RegionAccess{0, 5, 4});
    case Command::kRegionWrite:
      return join(bytes_of(vfio::RegionAccess{0x30100, 5, 4}), bytes_of(value));
    case Command::kRegionWriteMulti:
      return join(bytes_of(vfio::WriteMulti{1}),
                  bytes_of(vfio::WriteMultiEntry{0x30100, 5, 4, {}}));
    default:
      return {};
  }
}

constexpr Command kCommands[] = {
    Command::kDmaMap,     Command::kDmaUnmap,        Command::kGetInfo,    Command::kGetRegionInfo,
    Command::kGetIrqInfo, Command::kSetIrqs,         Command::kRegionRead, Command::kRegionWrite,
    Command::kReset,      Command::kRegionWriteMulti};

class MalformedTest : public testing::Test {
 protected:
  MalformedTest() { client_->negotiate(); }
  // The server must still answer a valid message.
  void expect_alive() {
    EXPECT_FALSE(client_->call(Command::kGetInfo, good(Command::kGetInfo)).is_error);
  }
  uint32_t error_of(Command command, const std::vector<std::byte>& payload,
                    std::span<const int> fds = {}) {
    const auto reply = client_->call(command, payload, fds);
    EXPECT_TRUE(reply.payload.empty() || !reply.is_error);
    return reply.error;
  }

  std::unique_ptr<Device> device_ = make_device();
  std::unique_ptr<Client> client_ = std::make_unique<Client>(*device_);
};

TEST_F(MalformedTest, ValidPayloadsAreAccepted) {
  for (const Command command : kCommands)
    EXPECT_EQ(error_of(command, good(command)), 0u) << static_cast<int>(command);
}

TEST_F(MalformedTest, EveryOtherLengthIsRefused) {
  for (const Command command : kCommands) {
    const auto payload = good(command);
    for (size_t length = 0; length < payload.size() + 40; ++length) {
      if (length == payload.size()) continue;
      auto other = payload;
      other.resize(length);
      EXPECT_EQ(error_of(command, other), static_cast<uint32_t>(EINVAL))
          << static_cast<int>(command) << " with " << length;
    }
  }
  expect_alive();
}

TEST_F(MalformedTest, SmallArgszIsRefused) {
  for (const Command command : {Command::kDmaMap, Command::kDmaUnmap, Command::kGetInfo,
                                Command::kGetRegionInfo, Command::kGetIrqInfo, Command::kSetIrqs}) {
    for (const uint32_t argsz : {0u, 1u, 15u}) {
      auto payload = good(command);
      memcpy(payload.data(), &argsz, 4);
      EXPECT_EQ(error_of(command, payload), static_cast<uint32_t>(EINVAL));
    }
  }
}

TEST_F(MalformedTest, UnknownCommandsAreNotSupported) {
  for (const int command : {0, 6, 11, 12, 14, 16, 255, 65535})
    EXPECT_EQ(error_of(static_cast<Command>(command), {}), static_cast<uint32_t>(ENOTSUP));
  expect_alive();
}

TEST_F(MalformedTest, RepliesAndUnknownFlagsAreNotCommands) {
  for (const uint32_t flags : {1u, 2u, 0xfu, 0x20u, 0x100u, 0x80000000u}) {
    client_->send(Command::kGetInfo, good(Command::kGetInfo), {}, flags);
    const auto reply = client_->receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->error, static_cast<uint32_t>(EINVAL)) << flags;
  }
  expect_alive();
}

TEST_F(MalformedTest, VersionIsAcceptedOnce) {
  EXPECT_EQ(error_of(Command::kVersion, test::version_payload(0, "")),
            static_cast<uint32_t>(EINVAL));
}

TEST_F(MalformedTest, VersionComesFirstAndIsChecked) {
  client_ = std::make_unique<Client>(*device_);
  for (const Command command : kCommands)
    EXPECT_EQ(error_of(command, good(command)), static_cast<uint32_t>(EINVAL));
  EXPECT_EQ(error_of(Command::kVersion, test::version_payload(1, "")),
            static_cast<uint32_t>(EINVAL));
  EXPECT_EQ(error_of(Command::kVersion, test::version_payload(0, "{}")),
            static_cast<uint32_t>(EINVAL))
      << "no NUL";
  EXPECT_EQ(error_of(Command::kVersion, {std::byte{0}}), static_cast<uint32_t>(EINVAL));
  client_->negotiate();
}

TEST_F(MalformedTest, AccessesOutsideOfARegionAreRefused) {
  const vfio::RegionAccess bad[] = {
      {0, 9, 4},      {0, ~0u, 4},        {0, 1, 4},         {0, 8, 4},
      {0, 5, 0},      {0, 5, 0x80001},    {0x80000, 5, 4},   {0x7fffe, 5, 4},
      {~0ull, 5, 4},  {~0ull - 3, 5, 4},  {0x80000, 5, ~0u}, {4096, 7, 1},
      {4095, 7, 2},   {1ull << 63, 0, 4}, {256 << 20, 0, 1}, {0, 0, (1 << 20) + 1},
      {0x10000, 6, 1}};
  for (const auto& access : bad)
    EXPECT_EQ(error_of(Command::kRegionRead, bytes_of(access)), static_cast<uint32_t>(EINVAL))
        << access.region << " " << access.offset << " " << access.count;
  for (auto access : bad) {
    if (access.count == 0 || access.count > 4) continue;
    std::vector<std::byte> data(access.count);
    EXPECT_EQ(error_of(Command::kRegionWrite, join(bytes_of(access), data)),
              static_cast<uint32_t>(EINVAL));
  }
  expect_alive();
}

TEST_F(MalformedTest, RomIsNotWritable) {
  EXPECT_EQ(error_of(Command::kRegionWrite,
                     join(bytes_of(vfio::RegionAccess{0, 6, 4}), bytes_of(uint32_t{0}))),
            static_cast<uint32_t>(EPERM));
}

TEST_F(MalformedTest, WriteLengthAndDataMustAgree) {
  for (const uint32_t count : {0u, 3u, 5u, 8u, ~0u})
    EXPECT_EQ(error_of(Command::kRegionWrite,
                       join(bytes_of(vfio::RegionAccess{0, 5, count}), bytes_of(uint32_t{0}))),
              static_cast<uint32_t>(EINVAL));
  for (const uint64_t count : {0ull, 2ull, ~0ull, 1ull << 61, (1ull << 61) + 1}) {
    auto payload = good(Command::kRegionWriteMulti);
    memcpy(payload.data(), &count, 8);
    EXPECT_EQ(error_of(Command::kRegionWriteMulti, payload), static_cast<uint32_t>(EINVAL));
  }
  auto payload = join(bytes_of(vfio::WriteMulti{1}), bytes_of(vfio::WriteMultiEntry{0, 5, 9, {}}));
  EXPECT_EQ(error_of(Command::kRegionWriteMulti, payload), static_cast<uint32_t>(EINVAL));
}

TEST_F(MalformedTest, LargestTransferWorks) {
  const vfio::RegionAccess access{0, 0, 1 << 20};
  EXPECT_EQ(
      error_of(Command::kRegionWrite, join(bytes_of(access), std::vector<std::byte>(1 << 20))), 0u);
  EXPECT_EQ(error_of(Command::kRegionRead, bytes_of(access)), 0u);
}

TEST_F(MalformedTest, DmaRangesAreChecked) {
  const GuestRam ram(16 * kPage);
  const int fd[] = {ram.number()};
  const vfio::DmaMap bad[] = {{32, 3, 0, 0, 0},
                              {32, 3, 0, 1, kPage},
                              {32, 3, 0, 0, kPage - 1},
                              {32, 3, 1, 0, kPage},
                              {32, 3, 16 * kPage, 0, kPage},
                              {32, 3, 0, 0, 17 * kPage},
                              {32, 3, 0, ~0ull << 12, 2 * kPage},
                              {32, 3, ~0ull << 12, 0, kPage},
                              {32, 4, 0, 0, kPage},
                              {32, ~0u, 0, 0, kPage},
                              {32, 3, 0, 0, ~0ull << 12}};
  for (const auto& map : bad)
    EXPECT_EQ(error_of(Command::kDmaMap, bytes_of(map), fd), static_cast<uint32_t>(EINVAL))
        << map.iova << " " << map.size;
  EXPECT_EQ(error_of(Command::kDmaMap, bytes_of(vfio::DmaMap{32, 3, 0, 0, 4 * kPage}), fd), 0u);
  EXPECT_EQ(error_of(Command::kDmaMap, bytes_of(vfio::DmaMap{32, 3, 0, kPage, kPage}), fd),
            static_cast<uint32_t>(EEXIST));
  EXPECT_EQ(error_of(Command::kDmaUnmap, bytes_of(vfio::DmaUnmap{24, 0, kPage, kPage})),
            static_cast<uint32_t>(EINVAL));
  EXPECT_EQ(error_of(Command::kDmaUnmap, bytes_of(vfio::DmaUnmap{24, 2, 0, 4 * kPage})),
            static_cast<uint32_t>(EINVAL));
  EXPECT_EQ(error_of(Command::kDmaUnmap, bytes_of(vfio::DmaUnmap{24, 0, 64 * kPage, kPage})),
            static_cast<uint32_t>(ENOENT));
}

TEST_F(MalformedTest, InterruptsAreChecked) {
  const amdgpu_criu::Fd event(eventfd(0, EFD_CLOEXEC));
  const int one[] = {event.get()};
  const vfio::SetIrqs bad[] = {{20, 0x24, 0, 0, 1}, {20, 0x24, 3, 0, 1}, {20, 0x24, 9, 0, 1},
                               {20, 0x24, 1, 1, 1}, {20, 0x24, 1, 0, 2}, {20, 0x24, 1, 0, ~0u},
                               {20, 0x24, 1, 0, 0}, {20, 0x22, 1, 0, 1}, {20, 0x14, 1, 0, 1},
                               {20, 0x0c, 1, 0, 1}, {20, 0, 1, 0, 1},    {20, ~0u, 1, 0, 1},
                               {20, 0x21, 1, 0, 0}};
  for (const auto& set : bad)
    EXPECT_EQ(error_of(Command::kSetIrqs, bytes_of(set), one), static_cast<uint32_t>(EINVAL))
        << std::hex << set.flags;
  EXPECT_EQ(error_of(Command::kSetIrqs, bytes_of(vfio::SetIrqs{20, 0x24, 1, 0, 1}), one), 0u);
}

TEST_F(MalformedTest, UnexpectedDescriptorsAreClosed) {
  const GuestRam ram(kPage);
  const size_t before = open_files();
  for (const size_t count : {1u, 2u, 8u, 9u, 20u, 200u}) {
    const std::vector<int> fds(count, ram.number());
    for (const Command command : kCommands) {
      if (count == 1 && (command == Command::kDmaMap || command == Command::kSetIrqs)) continue;
      EXPECT_EQ(error_of(command, good(command), fds), static_cast<uint32_t>(EINVAL))
          << static_cast<int>(command) << " with " << count;
    }
  }
  expect_alive();
  EXPECT_EQ(open_files(), before);
}

TEST_F(MalformedTest, NothingLeaksOverMapAndUnmap) {
  const GuestRam ram(kPage);
  const int fd[] = {ram.number()};
  const size_t before = open_files();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(error_of(Command::kDmaMap, good(Command::kDmaMap), fd), 0u);
    EXPECT_EQ(error_of(Command::kDmaMap, good(Command::kDmaMap), fd),
              static_cast<uint32_t>(EEXIST));
    EXPECT_EQ(error_of(Command::kDmaUnmap, good(Command::kDmaUnmap)), 0u);
  }
  EXPECT_EQ(open_files(), before);
}

TEST_F(MalformedTest, SizeBelowTheHeaderIsRefused) {
  for (const uint32_t size : {0u, 1u, 15u}) {
    client_->send_raw({.id = client_->id(), .command = 4, .size = size, .flags = 0, .error = 0},
                      {});
    const auto reply = client_->receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->error, static_cast<uint32_t>(EINVAL));
    expect_alive();
  }
}

TEST_F(MalformedTest, AnAnnouncedSizeOfGigabytesEndsTheConnection) {
  for (const uint32_t size : {uint32_t{vfio::kMaxMessage + 1}, 1u << 31, ~0u}) {
    client_ = std::make_unique<Client>(*device_);
    client_->negotiate();
    client_->send_raw({.id = client_->id(), .command = 10, .size = size, .flags = 0, .error = 0},
                      {});
    const auto reply = client_->receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->error, static_cast<uint32_t>(EINVAL));
    EXPECT_FALSE(client_->receive().has_value()) << "closed";
    EXPECT_EQ(test::code_of(client_->close()), EMSGSIZE);
  }
}

TEST_F(MalformedTest, ClosingInTheMiddleOfAMessageIsAnError) {
  client_->send_raw({.id = 1, .command = 10, .size = 100, .flags = 0, .error = 0}, {});
  EXPECT_EQ(test::code_of(client_->close()), EPROTO);
  client_ = std::make_unique<Client>(*device_);
  EXPECT_TRUE(client_->close().ok());
}

TEST_F(MalformedTest, RandomMessagesAreAnswered) {
  std::mt19937 random(7);
  const GuestRam ram(16 * kPage);
  for (int i = 0; i < 5000; ++i) {
    const Command command = kCommands[random() % std::size(kCommands)];
    auto payload = good(command);
    for (int flips = static_cast<int>(random() % 4); flips >= 0 && !payload.empty(); --flips)
      payload[random() % payload.size()] = static_cast<std::byte>(random());
    if (random() % 16 == 0) payload.resize(random() % 100);
    const std::vector<int> fds(random() % 8 == 0 ? 1 : 0, ram.number());
    // A large read is valid and slow: keep the sweep short.
    if (command == Command::kRegionRead && payload.size() == 16) payload[14] = payload[15] = {};
    ASSERT_TRUE((client_->send(command, payload, fds), client_->receive().has_value()));
  }
  expect_alive();
}

}  // namespace
}  // namespace gpu
