// SPDX-License-Identifier: GPL-2.0
#include "device.h"

#include <linux/pci_regs.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "asic/asic.h"
#include "core/log.h"
#include "test_support/guest_ram.h"

namespace gpu {
namespace {

using test::code_of;
using test::expect;
using test::GuestRam;

constexpr unsigned kConfig = PciDevice::kConfigRegion;

// Records the calls of its device.
struct EngineLog {
  std::vector<std::pair<uint32_t, uint64_t>> rings;
  int resets = 0;
  int stops = 0;
  InterruptSink* interrupts = nullptr;
  Memory* memory = nullptr;
};

class FakeEngine : public Engine {
 public:
  explicit FakeEngine(EngineLog& log) : log_(log) {}
  void ring(uint32_t offset, uint64_t value, unsigned) override {
    log_.rings.emplace_back(offset, value);
  }
  void reset() override { ++log_.resets; }
  void stop() override { ++log_.stops; }
  std::string report() const override { return ""; }

 private:
  EngineLog& log_;
};

EngineFactory factory(EngineLog& log) {
  return [&log](const Asic&, Memory& memory, Registers&, InterruptSink& interrupts)
             -> amdgpu_criu::Result<std::vector<std::unique_ptr<Engine>>> {
    log.interrupts = &interrupts;
    log.memory = &memory;
    std::vector<std::unique_ptr<Engine>> engines;
    engines.push_back(std::make_unique<FakeEngine>(log));
    return engines;
  };
}

class DeviceTest : public testing::Test {
 protected:
  template <typename T>
  void put(unsigned region, uint64_t offset, T value) {
    EXPECT_TRUE(device_->write(region, offset, std::as_bytes(std::span(&value, 1))).ok());
  }
  template <typename T>
  T get(unsigned region, uint64_t offset) {
    T value;
    EXPECT_TRUE(device_->read(region, offset, std::as_writable_bytes(std::span(&value, 1))).ok());
    return value;
  }
  void put_register(uint32_t dword, uint32_t value) { put<uint32_t>(5, 4 * dword, value); }
  uint32_t get_register(uint32_t dword) { return get<uint32_t>(5, 4 * dword); }

  EngineLog log_;
  std::unique_ptr<Device> device_ = expect(Device::create({.vram_size = 256 << 20}, factory(log_)));
};

TEST_F(DeviceTest, RegionsAreThoseOfTheGpu) {
  EXPECT_EQ(device_->region(0).size, 256u << 20);
  EXPECT_NE(device_->region(0).memory, nullptr);
  EXPECT_EQ(device_->region(2).size, 2u << 20);
  EXPECT_EQ(device_->region(5).size, 512u << 10);
  EXPECT_EQ(device_->region(PciDevice::kRomRegion).size, 64u << 10);
  EXPECT_FALSE(device_->region(PciDevice::kRomRegion).writable);
  for (const unsigned none : {1u, 3u, 4u, 8u, 9u, ~0u}) EXPECT_EQ(device_->region(none).size, 0u);
}

TEST_F(DeviceTest, DoorbellsGoToTheEngines) {
  put<uint64_t>(2, 0x800, 0x123456789);
  put<uint32_t>(2, 0x18, 7);
  ASSERT_EQ(log_.rings.size(), 2u);
  EXPECT_EQ(log_.rings[0], std::pair(0x800u, 0x123456789ul));
  EXPECT_EQ(log_.rings[1], std::pair(0x18u, 7ul));
  EXPECT_EQ(get<uint64_t>(2, 0x800), 0u);
}

// The GART has one page: of the doorbells, where the BIOS has put their BAR.
TEST_F(DeviceTest, TheGpuReachesItsOwnDoorbells) {
  constexpr uint64_t kBar = 0x140000000, kTable = 0x10000;
  constexpr uint32_t kHub = 0x2840;  // VM_L2_CNTL of GC
  const auto hub = [&](uint32_t word, uint32_t value) {
    put<uint32_t>(5, (kHub + word) * 4, value);
  };
  const uint64_t entry = (kBar + 0x3000) | pte::kValid | pte::kSystem | pte::kRead | pte::kWrite;
  put<uint64_t>(0, kTable, entry);
  hub(mi210().gfx_hub_layout.context_control, 1);
  hub(mi210().gfx_hub_layout.page_table_base, kTable | pte::kValid);
  hub(mi210().gfx_hub_layout.page_table_end, 0);
  const Space kernel = {Hub::kGfx, 0};
  EXPECT_EQ(code_of(log_.memory->store<uint64_t>(kernel, 0x18, 1)), EFAULT) << "no BAR yet";
  put<uint64_t>(kConfig, PCI_BASE_ADDRESS_2, kBar);
  EXPECT_TRUE(log_.memory->store<uint64_t>(kernel, 0x18, 7).ok());
  ASSERT_EQ(log_.rings.size(), 1u);
  EXPECT_EQ(log_.rings[0], std::pair(0x3018u, uint64_t{7}));
  EXPECT_EQ(code_of(log_.memory->load<uint64_t>(kernel, 0x18)), EFAULT) << "not to be read";
}

// By the driver, by a ring, and by a process that has the page mapped.
TEST_F(DeviceTest, EnginesReadWhatTheCpuWroteBeforeAFlush) {
  constexpr uint32_t kRequest = 0xe26, kRemapped = 0x1fc00;
  constexpr uint64_t kAt = 0x10000, kFb = 0x8000000000;
  device_ =
      expect(Device::create({.vram_size = 256 << 20, .hold_cpu_writes = true}, factory(log_)));
  EXPECT_EQ(device_->region(0).memory, nullptr) << "the CPU would bypass the HDP";
  const auto in_vram = [&] {
    return expect(log_.memory->load<uint64_t>({Hub::kGfx, 0}, kFb + kAt));
  };
  uint64_t written = 0;
  for (const uint32_t flush : {kRequest, kRemapped}) {
    put<uint64_t>(0, kAt, written + 1);
    EXPECT_EQ(in_vram(), written) << "not flushed yet";
    EXPECT_EQ(get<uint64_t>(0, kAt), ++written) << "the CPU reads its own writes";
    put_register(flush, 0);
    EXPECT_EQ(in_vram(), written);
  }
}

TEST_F(DeviceTest, TheDoorbellOfTheInterruptRingDoesNotGoToTheEngines) {
  put_register(0x1127, 1u << 28 | 0xbc0 / 4);
  put<uint32_t>(2, 0xbc0, 64);
  EXPECT_TRUE(log_.rings.empty());
  EXPECT_EQ(get_register(0x1123), 64u);
}

TEST_F(DeviceTest, OddAccessesAreReportedAndChangeNothing) {
  const auto before = model_faults();
  testing::internal::CaptureStderr();
  put<uint16_t>(2, 0x800, 1);
  put<uint32_t>(2, 0x802, 1);
  put<uint8_t>(5, 0x4000, 1);
  put<uint32_t>(5, 0x4002, 1);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(model_faults(), before + 4);
  EXPECT_TRUE(log_.rings.empty());
  put_register(0x3000, 0x11223344);
  EXPECT_EQ(get<uint8_t>(5, 0xc001), 0x33);
  EXPECT_EQ(get<uint64_t>(5, 0xc000), 0x11223344u);
  EXPECT_EQ(get<uint32_t>(5, 0xbffe), 0x33440000u);
}

// soc15 mode 1 reset without PSP: mark the engine as hung, switch bus mastering off.
TEST_F(DeviceTest, DriverResetsTheChip) {
  put<uint16_t>(kConfig, PCI_COMMAND, PCI_COMMAND_MASTER | PCI_COMMAND_MEMORY);
  put_register(0x3000, 1);
  put_register(0x2880, 1);
  put<uint32_t>(0, 0x1000, 77);
  put_register(0x4f, 0x20000000);
  put<uint16_t>(kConfig, PCI_COMMAND, PCI_COMMAND_MEMORY);
  EXPECT_EQ(log_.resets, 1);
  EXPECT_EQ(get_register(0x3000), 0u);
  EXPECT_EQ(get_register(0x2880), 0u);
  EXPECT_EQ(get_register(0x53), 0x200u) << "the BIOS has run";
  EXPECT_EQ(get_register(0xde3), 256u);
  EXPECT_EQ(get<uint16_t>(kConfig, PCI_COMMAND), PCI_COMMAND_MEMORY) << "only the chip was reset";
  EXPECT_NE(get<uint32_t>(0, 0x1000), 77u) << "the contents of VRAM are lost";
  EXPECT_NE(get<uint32_t>(0, 0x1000), 0u);
}

TEST_F(DeviceTest, LeavingBusMasteringAloneResetsNothing) {
  put<uint16_t>(kConfig, PCI_COMMAND, PCI_COMMAND_MASTER);
  put<uint16_t>(kConfig, PCI_COMMAND, 0);
  EXPECT_EQ(log_.resets, 0);
}

TEST_F(DeviceTest, InterruptIsSignalledByEventfd) {
  const GuestRam ram(1 << 16);
  ASSERT_TRUE(device_->map_dma({.iova = 0, .size = 1 << 16}, ram.fd(), 0).ok());
  amdgpu_criu::Fd event(eventfd(0, EFD_NONBLOCK));
  put_register(0x1121, 0x10);
  put_register(0x1126, 0x8000);
  put_register(0x1120, 1 | 6 << 1 | 1 << 8 | 1 << 17 | 1 << 28);
  log_.interrupts->raise({.client = 0x14, .source = 181});
  EXPECT_EQ(ram.get<uint32_t>(0x8000), 32u);
  // The driver enables the interrupt only now: pending entries must signal.
  device_->set_interrupt(expect(event.duplicate()));
  uint64_t count = 0;
  EXPECT_EQ(::read(event.get(), &count, 8), 8);
  EXPECT_EQ(count, 1u);
  device_->set_interrupt(std::nullopt);
  log_.interrupts->raise({.client = 0x14, .source = 181});
  EXPECT_EQ(::read(event.get(), &count, 8), -1);
}

TEST(Device, SignalsOfInterruptsMayBeLateButComeAll) {
  MessageInterrupt message(7);
  amdgpu_criu::Fd event(eventfd(0, EFD_NONBLOCK));
  message.set(expect(event.duplicate()));
  unsigned late = 0;
  for (unsigned i = 0; i < 12; ++i) {
    message.signal();
    pollfd poll_for = {.fd = event.get(), .events = POLLIN, .revents = 0};
    if (::poll(&poll_for, 1, 0) == 0) {
      ++late;
      ASSERT_EQ(::poll(&poll_for, 1, 5000), 1);
    }
    uint64_t count = 0;
    ASSERT_EQ(::read(event.get(), &count, 8), 8);
    EXPECT_EQ(count, 1u);
  }
  EXPECT_GT(late, 1u);
  EXPECT_LT(late, 12u);
}

TEST_F(DeviceTest, DisconnectEndsAllAccessToTheGuest) {
  const GuestRam ram(1 << 16);
  ASSERT_TRUE(device_->map_dma({.iova = 0, .size = 1 << 16}, ram.fd(), 0).ok());
  put_register(0x1121, 0x10);
  put_register(0x1120, 1 | 6 << 1 | 1 << 17 | 1 << 28);
  device_->disconnect();
  log_.interrupts->raise({.client = 0x14, .source = 181});
  EXPECT_EQ(ram.get<uint32_t>(0x1000), 0u);
  EXPECT_GE(log_.resets, 1);
}

TEST_F(DeviceTest, RomHoldsTheVbios) {
  EXPECT_EQ(get<uint16_t>(PciDevice::kRomRegion, 0), 0xaa55);
  const uint32_t value = 1;
  EXPECT_EQ(code_of(device_->write(PciDevice::kRomRegion, 0, std::as_bytes(std::span(&value, 1)))),
            EINVAL);
}

TEST_F(DeviceTest, EnginesStopBeforeTheirMemoryIsFreed) {
  device_.reset();
  EXPECT_EQ(log_.stops, 1);
}

TEST(Device, TheBarMayBeSmallerThanTheMemory) {
  EngineLog log;
  const auto device =
      expect(Device::create({.vram_size = 512 << 20, .bar_size = 256 << 20}, factory(log)));
  EXPECT_EQ(device->region(0).size, 256u << 20);
  uint32_t mib = 0;
  ASSERT_TRUE(device->read(5, 0xde3 * 4, std::as_writable_bytes(std::span(&mib, 1))).ok());
  EXPECT_EQ(mib, 512u) << "of memory";
  EXPECT_EQ(code_of(Device::create({.vram_size = 256 << 20, .bar_size = 512 << 20}, factory(log))),
            EINVAL);
  EXPECT_EQ(code_of(Device::create({.vram_size = 512 << 20, .bar_size = 300 << 20}, factory(log))),
            EINVAL);
}

TEST(Device, RefusesImpossibleSpecs) {
  EngineLog log;
  for (const uint64_t size : {0ull, 3ull << 28, 128ull << 20, 128ull << 30})
    EXPECT_EQ(code_of(Device::create({.vram_size = size}, factory(log))), EINVAL) << size;
  EXPECT_EQ(code_of(Device::create({.trace = "/none/x"}, factory(log))), ENOENT);
  EXPECT_EQ(code_of(Device::create({.nodes = 2}, factory(log))), EINVAL);
}

TEST(Device, AnErrorOfAnEngineFailsCreation) {
  const auto result = Device::create(
      {},
      [](const Asic&, Memory&, Registers&,
         InterruptSink&) -> amdgpu_criu::Result<std::vector<std::unique_ptr<Engine>>> {
        return amdgpu_criu::Error::of(EEXIST, "overlap");
      });
  EXPECT_EQ(code_of(result), EEXIST);
}

}  // namespace
}  // namespace gpu
