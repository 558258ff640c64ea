// SPDX-License-Identifier: GPL-2.0
#include "mem/dma_table.h"

#include <atomic>
#include <thread>

#include "test_support/guest_ram.h"

namespace gpu {
namespace {

using test::code_of;
using test::GuestRam;

constexpr uint64_t kPage = 4096;

TEST(DmaTable, FindsMemoryAtTheOffsetItWasPassedWith) {
  const GuestRam ram(4 * kPage);
  DmaTable table;
  ASSERT_TRUE(table.map({.iova = 0x100000, .size = 2 * kPage}, ram.fd(), kPage).ok());
  ram.put<uint32_t>(kPage + 8, 0x1234);
  const auto found = table.find(0x100008, 4, false);
  ASSERT_EQ(found.size(), 4u);
  uint32_t value;
  memcpy(&value, found.data(), 4);
  EXPECT_EQ(value, 0x1234u);
}

TEST(DmaTable, FindsThePrefixThatIsMapped) {
  const GuestRam ram(kPage);
  DmaTable table;
  ASSERT_TRUE(table.map({.iova = kPage, .size = kPage}, ram.fd(), 0).ok());
  EXPECT_EQ(table.find(2 * kPage - 16, 100, false).size(), 16u);
  EXPECT_TRUE(table.find(2 * kPage, 1, false).empty());
  EXPECT_TRUE(table.find(kPage - 1, 1, false).empty());
  EXPECT_TRUE(table.find(~0ull, 8, false).empty());
}

TEST(DmaTable, RefusesWritesToReadOnlyMemory) {
  const GuestRam ram(kPage);
  DmaTable table;
  ASSERT_TRUE(
      table.map({.iova = 0, .size = kPage, .readable = true, .writable = false}, ram.fd(), 0).ok());
  EXPECT_EQ(table.find(0, 8, false).size(), 8u);
  EXPECT_TRUE(table.find(0, 8, true).empty());
}

TEST(DmaTable, AcceptsRangesWithoutMemory) {
  DmaTable table;
  ASSERT_TRUE(table.map({.iova = 0xc000000000, .size = 1 << 30}, std::nullopt, 0).ok());
  EXPECT_TRUE(table.find(0xc000000000, 8, false).empty());
  EXPECT_TRUE(table.unmap(0xc000000000, 1 << 30).ok());
}

TEST(DmaTable, RefusesImpossibleRanges) {
  const GuestRam ram(2 * kPage);
  DmaTable table;
  EXPECT_EQ(code_of(table.map({.iova = 0, .size = 0}, ram.fd(), 0)), EINVAL);
  EXPECT_EQ(code_of(table.map({.iova = 1, .size = kPage}, ram.fd(), 0)), EINVAL);
  EXPECT_EQ(code_of(table.map({.iova = 0, .size = kPage + 1}, ram.fd(), 0)), EINVAL);
  EXPECT_EQ(code_of(table.map({.iova = 0, .size = kPage}, ram.fd(), 12)), EINVAL);
  EXPECT_EQ(code_of(table.map({.iova = ~0ull << 12, .size = 2 * kPage}, ram.fd(), 0)), EINVAL);
  EXPECT_EQ(table.regions(), 0u);
}

TEST(DmaTable, RefusesFilesShorterThanTheRange) {
  const GuestRam ram(2 * kPage);
  DmaTable table;
  EXPECT_EQ(code_of(table.map({.iova = 0, .size = 4 * kPage}, ram.fd(), 0)), EINVAL);
  EXPECT_EQ(code_of(table.map({.iova = 0, .size = 2 * kPage}, ram.fd(), kPage)), EINVAL);
  EXPECT_EQ(code_of(table.map({.iova = 0, .size = kPage}, ram.fd(), ~0ull << 12)), EINVAL);
}

TEST(DmaTable, RefusesMemoryThatIsNotAFile) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const amdgpu_criu::Fd read_end(ends[0]);
  DmaTable table;
  EXPECT_EQ(code_of(table.map({.iova = 0, .size = kPage}, amdgpu_criu::Fd(ends[1]), 0)), EINVAL);
}

TEST(DmaTable, RefusesOverlaps) {
  const GuestRam ram(8 * kPage);
  DmaTable table;
  ASSERT_TRUE(table.map({.iova = 4 * kPage, .size = 2 * kPage}, ram.fd(), 0).ok());
  EXPECT_EQ(code_of(table.map({.iova = 5 * kPage, .size = kPage}, ram.fd(), 0)), EEXIST);
  EXPECT_EQ(code_of(table.map({.iova = 3 * kPage, .size = 2 * kPage}, ram.fd(), 0)), EEXIST);
  EXPECT_EQ(code_of(table.map({.iova = 2 * kPage, .size = 6 * kPage}, ram.fd(), 0)), EEXIST);
  EXPECT_TRUE(table.map({.iova = 3 * kPage, .size = kPage}, ram.fd(), 0).ok());
  EXPECT_TRUE(table.map({.iova = 6 * kPage, .size = kPage}, ram.fd(), 0).ok());
}

TEST(DmaTable, UnmapsSeveralRangesButCutsNone) {
  const GuestRam ram(8 * kPage);
  DmaTable table;
  for (uint64_t i = 0; i < 4; ++i)
    ASSERT_TRUE(table.map({.iova = 2 * i * kPage, .size = 2 * kPage}, ram.fd(), 0).ok());
  EXPECT_EQ(code_of(table.unmap(kPage, 3 * kPage)), EINVAL);
  EXPECT_EQ(code_of(table.unmap(0, 3 * kPage)), EINVAL);
  EXPECT_EQ(code_of(table.unmap(0, 0)), EINVAL);
  EXPECT_EQ(code_of(table.unmap(~0ull, 2)), EINVAL);
  EXPECT_EQ(table.regions(), 4u);
  EXPECT_TRUE(table.unmap(2 * kPage, 4 * kPage).ok());
  EXPECT_EQ(table.regions(), 2u);
  EXPECT_EQ(code_of(table.unmap(2 * kPage, 4 * kPage)), ENOENT);
}

TEST(DmaTable, AHoldKeepsMemoryThatIsUnmappedAfterIt) {
  const GuestRam ram(2 * kPage);
  DmaTable table;
  ASSERT_TRUE(table.map({.iova = 0, .size = kPage}, ram.fd(), 0).ok());
  auto hold = table.hold();
  // Memory found after a first unmap stays, too.
  ASSERT_TRUE(table.map({.iova = kPage, .size = kPage}, ram.fd(), kPage).ok());
  ASSERT_TRUE(table.unmap(0, kPage).ok());
  const auto second = table.find(kPage, kPage, true);
  ASSERT_TRUE(table.unmap(kPage, kPage).ok());
  second[0] = std::byte{7};  // would fault if it were unmapped
  EXPECT_EQ(ram.get<uint8_t>(kPage), 7);
  EXPECT_TRUE(table.find(kPage, kPage, true).empty());
  hold.reset();
}

TEST(DmaTable, CopiesSurviveConcurrentUnmaps) {
  const GuestRam ram(64 * kPage);
  DmaTable table;
  std::atomic<bool> stop = false;
  std::thread copier([&] {
    while (!stop) {
      const auto hold = table.hold();
      for (auto& byte : table.find(0, 64 * kPage, true)) byte = std::byte{1};
    }
  });
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(table.map({.iova = 0, .size = 64 * kPage}, ram.fd(), 0).ok());
    ASSERT_TRUE(table.unmap(0, 64 * kPage).ok());
  }
  stop = true;
  copier.join();
}

}  // namespace
}  // namespace gpu
