// SPDX-License-Identifier: GPL-2.0
#include "pci/config_space.h"

#include <linux/pci_regs.h>

#include <set>

#include "test_support/guest_ram.h"

namespace gpu {
namespace {

using test::code_of;
using test::expect;

constexpr ConfigSpace::Spec kSpec = {.device_id = 0x740f,
                                     .revision = 2,
                                     .class_code = 0x038000,
                                     .vram_size = 16ull << 30,
                                     .doorbell_size = 2 << 20,
                                     .mmio_size = 512 << 10,
                                     .rom_size = 64 << 10};

class ConfigSpaceTest : public testing::Test {
 protected:
  template <typename T>
  T get(size_t offset) {
    T value;
    space_.read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  template <typename T>
  void put(size_t offset, T value) {
    space_.write(offset, std::as_bytes(std::span(&value, 1)));
  }
  ConfigSpace space_ = expect(ConfigSpace::create(kSpec));
};

TEST_F(ConfigSpaceTest, HasTheIdsOfTheGpu) {
  EXPECT_EQ(get<uint32_t>(PCI_VENDOR_ID), 0x740f1002u);
  EXPECT_EQ(get<uint32_t>(PCI_CLASS_REVISION), 0x03800002u);
  EXPECT_EQ(get<uint8_t>(PCI_HEADER_TYPE), PCI_HEADER_TYPE_NORMAL);
  put<uint32_t>(PCI_VENDOR_ID, 0);
  EXPECT_EQ(get<uint32_t>(PCI_VENDOR_ID), 0x740f1002u);
}

TEST_F(ConfigSpaceTest, CapabilitiesFormAListThatEnds) {
  std::set<uint8_t> seen;
  std::set<uint8_t> offsets;
  for (uint8_t at = get<uint8_t>(PCI_CAPABILITY_LIST); at; at = get<uint8_t>(at + 1)) {
    ASSERT_TRUE(offsets.insert(at).second) << "a loop";
    seen.insert(get<uint8_t>(at));
  }
  EXPECT_EQ(seen, (std::set<uint8_t>{PCI_CAP_ID_PM, PCI_CAP_ID_EXP, PCI_CAP_ID_MSI}));
}

TEST_F(ConfigSpaceTest, AtomicsAreRequestedAndCompleted) {
  uint8_t at = get<uint8_t>(PCI_CAPABILITY_LIST);
  while (get<uint8_t>(at) != PCI_CAP_ID_EXP) at = get<uint8_t>(at + 1);
  EXPECT_EQ(get<uint32_t>(at + PCI_EXP_DEVCAP2),
            uint32_t{PCI_EXP_DEVCAP2_ATOMIC_COMP32 | PCI_EXP_DEVCAP2_ATOMIC_COMP64});
  EXPECT_EQ(get<uint16_t>(at + PCI_EXP_DEVCTL2), PCI_EXP_DEVCTL2_ATOMIC_REQ);
}

TEST_F(ConfigSpaceTest, BarsReportTheirSizes) {
  put<uint64_t>(PCI_BASE_ADDRESS_0, ~0ull);
  EXPECT_EQ(~(get<uint64_t>(PCI_BASE_ADDRESS_0) & ~0xfull) + 1, 16ull << 30);
  EXPECT_EQ(get<uint64_t>(PCI_BASE_ADDRESS_0) & 0xf, 0xcu) << "64 bits, prefetchable";
  put<uint64_t>(PCI_BASE_ADDRESS_2, ~0ull);
  EXPECT_EQ(~(get<uint64_t>(PCI_BASE_ADDRESS_2) & ~0xfull) + 1, 2ull << 20);
  put<uint32_t>(PCI_BASE_ADDRESS_5, ~0u);
  EXPECT_EQ(get<uint32_t>(PCI_BASE_ADDRESS_5), ~((512u << 10) - 1));
  put<uint32_t>(PCI_BASE_ADDRESS_4, ~0u);
  EXPECT_EQ(get<uint32_t>(PCI_BASE_ADDRESS_4), 0u) << "not there";
}

TEST_F(ConfigSpaceTest, TheRomBarReportsItsSize) {
  put<uint32_t>(PCI_ROM_ADDRESS, PCI_ROM_ADDRESS_MASK);
  EXPECT_EQ(get<uint32_t>(PCI_ROM_ADDRESS), ~((64u << 10) - 1));
  put<uint32_t>(PCI_ROM_ADDRESS, 0xfe000001);
  EXPECT_EQ(get<uint32_t>(PCI_ROM_ADDRESS), 0xfe000001u);
}

TEST_F(ConfigSpaceTest, BusMasteringFollowsTheCommandRegister) {
  EXPECT_FALSE(space_.bus_master());
  put<uint16_t>(PCI_COMMAND, PCI_COMMAND_MASTER | PCI_COMMAND_MEMORY);
  EXPECT_TRUE(space_.bus_master());
  space_.reset();
  EXPECT_FALSE(space_.bus_master());
}

TEST_F(ConfigSpaceTest, ReadsOfAnyLengthWork) {
  std::vector<std::byte> all(ConfigSpace::kSize);
  space_.read(0, all);
  EXPECT_EQ(all[0], std::byte{0x02});
  std::byte one;
  space_.read(3, std::span(&one, 1));
  EXPECT_EQ(one, std::byte{0x74});
}

TEST_F(ConfigSpaceTest, RefusesImpossibleBars) {
  auto spec = kSpec;
  spec.vram_size = 3 << 20;
  EXPECT_EQ(code_of(ConfigSpace::create(spec)), EINVAL);
  spec = kSpec;
  spec.rom_size = 0;
  EXPECT_EQ(code_of(ConfigSpace::create(spec)), EINVAL);
}

}  // namespace
}  // namespace gpu
