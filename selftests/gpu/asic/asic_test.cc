// SPDX-License-Identifier: GPL-2.0
#include "asic/asic.h"

#include <linux/pci_regs.h>

#include <algorithm>
#include <set>

#include "device.h"
#include "engines/engines.h"
#include "firmware/discovery.h"
#include "test_support/guest_ram.h"

namespace gpu {
namespace {

using test::expect;

class AsicTest : public testing::TestWithParam<const Asic*> {
 protected:
  const Asic& asic() const { return *GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(All, AsicTest, testing::ValuesIn(all_asics()), [](const auto& info) {
  std::string name(info.param->name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(AsicTest, IsFoundByItsName) {
  EXPECT_EQ(find_asic(asic().name), &asic());
  EXPECT_EQ(find_asic(std::string(asic().name) + "x"), nullptr);
}

// Overlapping claims and registers outside of the BAR fail the creation.
TEST_P(AsicTest, MakesADeviceWhoseBlocksDoNotOverlap) {
  const auto device =
      expect(Device::create({.asic = asic(), .vram_size = 256 << 20}, create_engines));
  uint32_t id = 0;
  ASSERT_TRUE(
      device->read(PciDevice::kConfigRegion, 0, std::as_writable_bytes(std::span(&id, 1))).ok());
  EXPECT_EQ(id, uint32_t{asic().device_id} << 16 | 0x1002);
  uint32_t revision = 0;
  ASSERT_TRUE(device
                  ->read(PciDevice::kConfigRegion, PCI_CLASS_REVISION,
                         std::as_writable_bytes(std::span(&revision, 1)))
                  .ok());
  EXPECT_EQ(revision, asic().class_code << 8 | asic().revision);
}

TEST_P(AsicTest, EveryXccHasItsOwnHub) {
  const auto device =
      expect(Device::create({.asic = asic(), .vram_size = 256 << 20}, create_engines));
  const auto put = [&](uint32_t dword, uint32_t value) {
    EXPECT_TRUE(device->write(5, uint64_t{4} * dword, std::as_bytes(std::span(&value, 1))).ok());
  };
  const auto get = [&](uint32_t dword) {
    uint32_t value = 0;
    EXPECT_TRUE(
        device->read(5, uint64_t{4} * dword, std::as_writable_bytes(std::span(&value, 1))).ok());
    return value;
  };
  const uint32_t base = asic().gfx_hub + asic().gfx_hub_layout.page_table_base;
  for (uint32_t xcc = 0; xcc < asic().xccs; ++xcc) put(base + xcc * kInstanceStride, 0x1000 + xcc);
  for (uint32_t xcc = 0; xcc < asic().xccs; ++xcc)
    EXPECT_EQ(get(base + xcc * kInstanceStride), 0x1000 + xcc);
}

TEST_P(AsicTest, EnginesAreSharedOutEvenly) {
  EXPECT_EQ(asic().mm_hubs.size(), asic().aids);
  EXPECT_EQ(asic().sdma_per_xcc() * asic().xccs, asic().sdma.size());
  EXPECT_EQ(asic().aid_of_xcc(asic().xccs - 1), asic().aids - 1);
  EXPECT_EQ(asic().aid_of_sdma(static_cast<unsigned>(asic().sdma.size()) - 1), asic().aids - 1);
}

uint16_t u16(std::span<const std::byte> bytes, size_t at) {
  return static_cast<uint16_t>(std::to_integer<unsigned>(bytes[at]) |
                               std::to_integer<unsigned>(bytes[at + 1]) << 8);
}

uint16_t sum(std::span<const std::byte> bytes) {
  unsigned sum = 0;
  for (const std::byte byte : bytes) sum += std::to_integer<unsigned>(byte);
  return static_cast<uint16_t>(sum);
}

// As amdgpu_discovery_init() and amdgpu_discovery_reg_base_init() read it.
TEST_P(AsicTest, TheDiscoveryBinaryListsItsIps) {
  if (asic().ips.empty()) return;
  const auto bytes = make_discovery(asic());
  const std::span all(bytes);
  ASSERT_EQ(u16(all, 10), bytes.size());
  EXPECT_EQ(u16(all, 8), sum(all.subspan(10)));
  for (const size_t table : {0, 1, 2}) {
    const size_t info = 12 + 8 * table;
    const auto body = all.subspan(u16(all, info), u16(all, info + 4));
    EXPECT_EQ(u16(all, info + 2), sum(body)) << table;
  }
  const size_t die = u16(all, u16(all, 12) + 16u);
  ASSERT_EQ(u16(all, die + 2), asic().ips.size());
  std::multiset<std::pair<unsigned, unsigned>> found;
  size_t at = die + 4;
  for (size_t i = 0; i < asic().ips.size(); ++i) {
    found.emplace(u16(all, at), std::to_integer<unsigned>(all[at + 2]));
    at += 8 + size_t{4} * std::to_integer<unsigned>(all[at + 3]);
  }
  for (const DiscoveredIp& ip : asic().ips)
    EXPECT_EQ(found.count({ip.hw_id, ip.instance}), 1u) << ip.hw_id << "." << ip.instance;
}

// As gfx_v9_0_get_cu_info() and gfx_v9_4_3_get_cu_info() read them.
TEST_P(AsicTest, TheDriverFindsTheUnitsOfEachShaderEngine) {
  const auto& registers = asic().unit_registers;
  if (!registers) return;
  const auto device =
      expect(Device::create({.asic = asic(), .vram_size = 256 << 20}, create_engines));
  unsigned units = 0;
  for (uint32_t engine = 0; engine < asic().shader_engines; ++engine) {
    const uint32_t select = engine << 16 | 1u << 30;
    uint32_t fused = 0;
    ASSERT_TRUE(
        device->write(5, uint64_t{4} * registers->select, std::as_bytes(std::span(&select, 1)))
            .ok());
    ASSERT_TRUE(
        device
            ->read(5, uint64_t{4} * registers->fused, std::as_writable_bytes(std::span(&fused, 1)))
            .ok());
    units += asic().units_per_array - static_cast<unsigned>(std::popcount(fused >> 16));
  }
  EXPECT_EQ(units, asic().units_per_xcc());
}

TEST(Asic, TwoBoardsHaveAsManyUnitsInOtherShaderEngines) {
  EXPECT_EQ(mi210_4_3().units_per_xcc(), 7u);
  EXPECT_EQ(mi210_3_4().units_per_xcc(), 7u);
  EXPECT_NE(mi210_4_3().fused_units, mi210_3_4().fused_units);
}

TEST(Asic, AChipWithoutXgmiIsNoMemberOfAHive) {
  const auto device =
      Device::create({.asic = navi31(), .vram_size = 256 << 20, .nodes = 2}, create_engines);
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().code(), EINVAL);
}

TEST(Asic, TheDriverFindsTheDiscoveryBinaryNearTheEndOfVram) {
  const uint64_t size = 256 << 20;
  const auto device =
      expect(Device::create({.asic = mi300x_small(), .vram_size = size}, create_engines));
  uint32_t signature = 0;
  ASSERT_TRUE(
      device->read(0, size - (64 << 10), std::as_writable_bytes(std::span(&signature, 1))).ok());
  EXPECT_EQ(signature, 0x28211407u);
}

}  // namespace
}  // namespace gpu
