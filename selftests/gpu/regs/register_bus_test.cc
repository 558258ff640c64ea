// SPDX-License-Identifier: GPL-2.0
#include "regs/register_bus.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "asic/asic.h"
#include "core/log.h"
#include "regs/fixed.h"
#include "test_support/guest_ram.h"

namespace gpu {
namespace {

using test::code_of;
using test::expect;
using testing::HasSubstr;

class Recorder : public RegisterBlock {
 public:
  explicit Recorder(std::string name) : name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  uint32_t read(uint32_t dword) override { return dword * 2; }
  void write(uint32_t dword, uint32_t value) override { written[dword] = value; }
  std::map<uint32_t, uint32_t> written;

 private:
  std::string name_;
};

TEST(RegisterBus, UnclaimedRegistersAreStorage) {
  auto bus = expect(RegisterBus::create({}));
  EXPECT_EQ(bus->read(0x1234), 0u);
  bus->write(0x1234, 5);
  EXPECT_EQ(bus->read(0x1234), 5u);
  bus->reset();
  EXPECT_EQ(bus->read(0x1234), 0u);
}

TEST(RegisterBus, ClaimedRegistersGoToTheirBlock) {
  auto bus = expect(RegisterBus::create({}));
  Recorder block("block");
  ASSERT_TRUE(bus->claim(block, 0x100, 0x1ff).ok());
  EXPECT_EQ(bus->read(0x100), 0x200u);
  bus->driver_write(0x1ff, 9);
  EXPECT_EQ(block.written[0x1ff], 9u);
  EXPECT_EQ(bus->read(0x200), 0u);
}

TEST(RegisterBus, OverlapIsRefusedAndNamesBoth) {
  auto bus = expect(RegisterBus::create({}));
  Recorder first("SDMA0"), second("IH");
  ASSERT_TRUE(bus->claim(first, 0x100, 0x1ff).ok());
  const auto status = bus->claim(second, 0x80, 0x100);
  ASSERT_EQ(code_of(status), EEXIST);
  EXPECT_THAT(status.error().message(), HasSubstr("SDMA0"));
  EXPECT_THAT(status.error().message(), HasSubstr("IH"));
  EXPECT_EQ(bus->read(0x80), 0u) << "the refused claim has no effect";
  EXPECT_EQ(code_of(bus->claim(second, 5, 4)), EINVAL);
  EXPECT_EQ(code_of(bus->claim(second, 0x1ffff, 0x20000)), EINVAL);
}

TEST(RegisterBus, OutsideReadsAllOnes) {
  auto bus = expect(RegisterBus::create({}));
  EXPECT_EQ(bus->read(0x20000), ~0u);
  EXPECT_EQ(bus->read(~0u), ~0u);
  bus->write(0x20000, 1);
}

TEST(RegisterBus, TheReportRanksUnmodelledRegisters) {
  auto bus = expect(RegisterBus::create({.ips = mi210().registers}));
  FixedRegisters block({"MP0", {{0x16061, 1}}});
  ASSERT_TRUE(block.claim(*bus).ok());
  bus->read(0x16061);
  for (int i = 0; i < 3; ++i) bus->read(0x2000);
  for (int i = 0; i < 7; ++i) bus->read(0x3000);
  bus->write(0x4000, 1);
  for (int i = 0; i < 9; ++i) bus->read(0x4000);
  const std::string report = bus->report();
  EXPECT_THAT(report, HasSubstr("3 registers"));
  EXPECT_LT(report.find("0x03000"), report.find("GC GRBM_CNTL (0x02000)"));
  EXPECT_LT(report.find("0x02000"), report.find("0x04000"));
  EXPECT_EQ(report.find("16061"), std::string::npos);
}

TEST(RegisterBus, ReportsOnceThatTheDriverSpins) {
  auto bus = expect(RegisterBus::create({.ips = mi210().registers}));
  const auto before = model_faults();
  testing::internal::CaptureStderr();
  for (uint32_t i = 0; i < 3 * RegisterBus::kSpinLimit; ++i) bus->driver_read(0x28c6);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("GC VM_INVALIDATE_ENG17_ACK"));
  EXPECT_EQ(model_faults(), before + 1);
}

TEST(RegisterBus, OtherAccessesBetweenReadsAreNotSpinning) {
  auto bus = expect(RegisterBus::create({}));
  const auto before = model_faults();
  for (uint32_t i = 0; i < 2 * RegisterBus::kSpinLimit; ++i) {
    bus->driver_read(0x28c6);
    if (i % 100 == 0) bus->driver_write(0x28b4, i);
  }
  EXPECT_EQ(model_faults(), before);
}

TEST(RegisterBus, TraceHasALineForEveryAccess) {
  const std::string path = testing::TempDir() + "softgpu-trace";
  {
    auto bus = expect(RegisterBus::create({.ips = mi210().registers, .trace = path}));
    bus->driver_write(0x1120, 0xabc);
    bus->driver_read(0x1120);
  }
  std::ifstream file(path);
  std::string first, second;
  std::getline(file, first);
  std::getline(file, second);
  EXPECT_EQ(first, "W 01120 00000abc OSSSYS IH_RB_CNTL (0x01120)");
  EXPECT_EQ(second, "R 01120 00000abc OSSSYS IH_RB_CNTL (0x01120)");
  std::filesystem::remove(path);
  EXPECT_EQ(code_of(RegisterBus::create({.trace = "/none/trace"})), ENOENT);
}

}  // namespace
}  // namespace gpu
