// SPDX-License-Identifier: GPL-2.0
#include "regs/interrupt_ring.h"

#include "asic/asic.h"
#include "core/log.h"
#include "regs/register_bus.h"
#include "test_support/guest_ram.h"

namespace gpu {
namespace {

using test::expect;
using test::GuestRam;

constexpr uint64_t kRamBase = 0x100000000;
constexpr uint64_t kRing = 0x1000;  // in guest memory
constexpr uint64_t kWriteBack = 0x8000;
constexpr uint32_t kRingBytes = 256;  // 8 entries
constexpr uint32_t kDoorbell = 0xbc0;

constexpr uint32_t kControl = 0x1120, kBase = 0x1121, kRptr = 0x1123, kWptr = 0x1124;
constexpr uint32_t kEnabled = 1 | 6 << 1 | 1 << 8 | 1 << 16 | 1 << 17 | 1 << 28;
constexpr uint32_t kOverflowClear = 1u << 31;

class InterruptRingTest : public testing::Test {
 protected:
  InterruptRingTest()
      : ram_(1 << 16),
        vram_(expect(Vram::create({.size = 1 << 20, .shared_dir = "", .node = 0, .nodes = 1}))),
        physical_(dma_, *vram_),
        bus_(expect(RegisterBus::create({}))),
        ring_({}, physical_, clock_, [this] { ++signals_; }) {
    EXPECT_TRUE(dma_.map({.iova = kRamBase, .size = 1 << 16}, ram_.fd(), 0).ok());
    EXPECT_TRUE(ring_.claim(*bus_).ok());
    bus_->write(kBase, static_cast<uint32_t>((kRamBase + kRing) >> 8));
    bus_->write(0x1125, static_cast<uint32_t>(kRamBase >> 32));
    bus_->write(0x1126, kWriteBack);
    bus_->write(0x1127, 1u << 28 | kDoorbell / 4);
    bus_->write(kControl, kEnabled);
  }

  void raise(uint32_t id = 0) {
    Interrupt interrupt{.client = 0x14, .source = 181, .ring = 3, .vmid = 8};
    interrupt.pasid = 0x8005;
    interrupt.data = {id, 1, 2, 3};
    ring_.raise(interrupt);
  }
  uint32_t entry(unsigned index, unsigned word) {
    return ram_.get<uint32_t>(kRing + 32 * index + 4 * word);
  }
  uint32_t written_back() { return ram_.get<uint32_t>(kWriteBack); }

  const GuestRam ram_;
  DmaTable dma_;
  std::unique_ptr<Vram> vram_;
  PhysicalMemory physical_;
  GpuClock clock_;
  std::unique_ptr<RegisterBus> bus_;
  InterruptRing ring_;
  int signals_ = 0;
};

TEST_F(InterruptRingTest, EntryHasTheLayoutOfTheHardware) {
  raise(0x1234);
  EXPECT_EQ(entry(0, 0), 0x14u | 181 << 8 | 3 << 16 | 8 << 24);
  EXPECT_EQ(entry(0, 3), 0x8005u);
  EXPECT_EQ(entry(0, 4), 0x1234u);
  EXPECT_EQ(entry(0, 7), 3u);
  EXPECT_EQ(written_back(), 32u);
  EXPECT_EQ(bus_->read(kWptr), 32u);
  EXPECT_EQ(signals_, 1);
}

TEST_F(InterruptRingTest, ChipsOfSeveralDiesNameTheDie) {
  InterruptRing ring({.nodes = true, .hubs = 8}, physical_, clock_, [] {});
  const auto bus = expect(RegisterBus::create({}));
  ASSERT_TRUE(ring.claim(*bus).ok());
  bus->write(kBase, static_cast<uint32_t>((kRamBase + kRing) >> 8));
  bus->write(kControl, 1 | 6 << 1 | 1 << 28);
  ring.raise({.client = 0x14, .source = 181, .instance = 3, .pasid = 0x8001});
  ring.raise({.client = 8, .source = 224, .from_mmhub = true, .instance = 2, .pasid = 0x8001});
  EXPECT_EQ(entry(0, 3), 0x68001u) << "XCC 3 is the second one of AID 1";
  EXPECT_EQ(entry(1, 3), 0x88001u);
  ring.set_pasid({Hub::kGfx, 2, 1}, 5);
  EXPECT_EQ(ring.pasid({Hub::kGfx, 2, 1}), 5u);
  EXPECT_EQ(ring.pasid({Hub::kGfx, 2, 0}), 0u);
  EXPECT_EQ(ring.pasid({Hub::kGfx, 2, 8}), 0u);
}

TEST_F(InterruptRingTest, MmhubIsMarked) {
  ring_.raise({.client = 0x12, .source = 0, .from_mmhub = true});
  EXPECT_EQ(entry(0, 0), 0x80000012u);
}

TEST_F(InterruptRingTest, FaultThatIsRepeatedIsInTheRingOnceUntilItIsHandled) {
  constexpr uint32_t kCamDoorbell = 0xbd8;
  bus_->write(0x1128, 1u << 28 | kCamDoorbell / 4);
  Interrupt fault{.client = 0x12, .source = 0, .vmid = 8, .from_mmhub = true, .retried = true};
  fault.data = {0x1000, 0x80};
  Interrupt other = fault;
  other.data[0] = 0x1001;
  for (int i = 0; i < 3; ++i) ring_.raise(fault);
  ring_.raise(other);
  EXPECT_EQ(written_back(), 64u);
  EXPECT_EQ(entry(0, 6), 0u);
  EXPECT_EQ(entry(1, 6), 1u);
  EXPECT_TRUE(ring_.ring_doorbell(kCamDoorbell, 1));
  ring_.raise(fault);
  EXPECT_EQ(written_back(), 64u) << "the driver has handled the other one";
  ring_.raise(other);
  EXPECT_EQ(written_back(), 96u);
  EXPECT_EQ(entry(2, 6), 1u);
  bus_->write(kControl, 0);
  bus_->write(kControl, kEnabled);
  ring_.raise(fault);
  EXPECT_EQ(written_back(), 128u) << "a ring that was off has forgotten all";
}

TEST_F(InterruptRingTest, WrapsAround) {
  for (uint32_t i = 0; i < 20; ++i) {
    raise(i);
    EXPECT_TRUE(ring_.ring_doorbell(kDoorbell, bus_->read(kWptr)));
  }
  EXPECT_EQ(bus_->read(kWptr), 20 * 32 % kRingBytes);
  EXPECT_EQ(entry(3, 4), 19u);
  EXPECT_EQ(entry(4, 4), 12u);
  EXPECT_EQ(written_back() & 1, 0u);
  EXPECT_EQ(ram_.get<uint32_t>(kRing + kRingBytes), 0u) << "nothing after the ring";
}

TEST_F(InterruptRingTest, OverflowIsMarkedUntilCleared) {
  for (uint32_t i = 0; i < 7; ++i) raise(i);
  EXPECT_EQ(written_back() & 1, 0u);
  raise(7);
  EXPECT_EQ(written_back() & 1, 1u);
  EXPECT_EQ(bus_->read(kWptr) & 1, 1u);
  // As vega20_ih_get_wptr() answers it.
  bus_->write(kControl, kEnabled | kOverflowClear);
  bus_->write(kControl, kEnabled);
  EXPECT_EQ(bus_->read(kWptr) & 1, 0u);
  ring_.ring_doorbell(kDoorbell, 0);
  raise(8);
  EXPECT_EQ(written_back(), 32u);
}

TEST_F(InterruptRingTest, SignalsAgainWhenTheDriverIsBehind) {
  raise();
  raise();
  EXPECT_EQ(signals_, 2);
  EXPECT_TRUE(ring_.ring_doorbell(kDoorbell, 32));
  EXPECT_EQ(signals_, 3);
  EXPECT_TRUE(ring_.ring_doorbell(kDoorbell, 64));
  EXPECT_EQ(signals_, 3);
  EXPECT_EQ(bus_->read(kRptr), 64u);
  ring_.resignal();
  EXPECT_EQ(signals_, 3);
  raise();
  ring_.resignal();
  EXPECT_EQ(signals_, 5);
}

TEST_F(InterruptRingTest, OtherDoorbellsAreIgnored) {
  EXPECT_FALSE(ring_.ring_doorbell(kDoorbell + 8, 32));
  bus_->write(0x1127, kDoorbell / 4);
  EXPECT_FALSE(ring_.ring_doorbell(kDoorbell, 32));
}

TEST_F(InterruptRingTest, ADisabledRingDropsEntries) {
  bus_->write(kControl, kEnabled & ~1u);
  raise();
  EXPECT_EQ(bus_->read(kWptr), 0u);
  EXPECT_EQ(signals_, 0);
}

TEST_F(InterruptRingTest, MaskedRingCollectsAndSignalsWhenUnmasked) {
  bus_->write(kControl, kEnabled & ~(1u << 17));
  raise();
  EXPECT_EQ(signals_, 0);
  EXPECT_EQ(bus_->read(kWptr), 32u);
  bus_->write(kControl, kEnabled);
  EXPECT_EQ(signals_, 1);
}

TEST_F(InterruptRingTest, AnInvalidRingIsReportedOnceAndWritesNothing) {
  const auto before = model_faults();
  testing::internal::CaptureStderr();
  bus_->write(kBase, 0xffffffff);
  raise();
  raise();
  bus_->write(kControl, kEnabled | 31 << 1);
  raise();
  bus_->write(kWptr, 0xfffffff7);
  raise();
  EXPECT_FALSE(testing::internal::GetCapturedStderr().empty());
  EXPECT_EQ(model_faults(), before + 1);
  EXPECT_EQ(signals_, 0);
}

TEST_F(InterruptRingTest, ARingInTheDriversAddressSpaceIsTranslated) {
  constexpr uint64_t kGart = 0x40000000, kTable = 0x2000;
  const uint64_t mapping =
      (kRamBase + kRing) | pte::kValid | pte::kSystem | pte::kRead | pte::kWrite;
  memcpy(vram_->own().data() + kTable, &mapping, sizeof(mapping));
  HubRegisters hub({.hub = Hub::kMm,
                    .layout = mi210().gfx_hub_layout,
                    .base = 0,
                    .fb_base = 0x8000000000,
                    .segment = 1 << 20});
  hub.write(mi210().gfx_hub_layout.context_control, 1);
  hub.write(mi210().gfx_hub_layout.page_table_base, kTable | pte::kValid);
  hub.write(mi210().gfx_hub_layout.page_table_start, kGart >> 12);
  hub.write(mi210().gfx_hub_layout.page_table_end, kGart >> 12);
  const auto memory = expect(GpuMemory::create(physical_, {{}, {&hub}}, ring_, ring_,
                                               [](uint64_t, auto) { return false; }));
  ring_.translate_by(*memory);
  bus_->write(kBase, kGart >> 8);
  bus_->write(0x1125, 0);
  bus_->write(0x1126, kGart + 0x800);
  bus_->write(kControl, (kEnabled & ~(7u << 28)) | 4u << 28);
  raise(7);
  EXPECT_EQ(entry(0, 4), 7u);
  EXPECT_EQ(ram_.get<uint32_t>(kRing + 0x800), 32u);
}

TEST_F(InterruptRingTest, PasidsComeFromTheLookUpTables) {
  bus_->write(0x10a0 + 2, 0x8001);
  bus_->write(0x10b0 + 2, 0x8002);
  EXPECT_EQ(ring_.pasid({Hub::kGfx, 2}), 0x8001u);
  EXPECT_EQ(ring_.pasid({Hub::kMm, 2}), 0x8002u);
  ring_.set_pasid({Hub::kMm, 2}, 0x8003);
  EXPECT_EQ(bus_->read(0x10a2), 0x8001u);
  EXPECT_EQ(bus_->read(0x10b2), 0x8003u);
  EXPECT_EQ(ring_.pasid({Hub::kGfx, 16}), 0u);
  ring_.set_pasid({Hub::kGfx, 16}, 1);
}

TEST_F(InterruptRingTest, AResetClearsEverything) {
  raise();
  ring_.set_pasid({Hub::kGfx, 2}, 1);
  ring_.reset();
  EXPECT_EQ(bus_->read(kControl), 0u);
  EXPECT_EQ(bus_->read(kWptr), 0u);
  EXPECT_EQ(ring_.pasid({Hub::kGfx, 2}), 0u);
}

}  // namespace
}  // namespace gpu
