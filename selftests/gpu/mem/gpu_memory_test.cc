// SPDX-License-Identifier: GPL-2.0
#include "mem/gpu_memory.h"

#include <numeric>
#include <vector>

#include "asic/asic.h"
#include "test_support/guest_ram.h"

namespace gpu {
namespace {

using test::code_of;
using test::expect;
using test::GuestRam;

constexpr uint64_t kVramSize = 16 << 20;
constexpr uint64_t kRamBase = 0x100000000;
constexpr uint64_t kFbBase = 0x8000000000;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kRw = pte::kValid | pte::kRead | pte::kWrite;
constexpr unsigned kVmid = 5;
constexpr Space kUser{Hub::kGfx, kVmid};

// Register offsets of the GC hub.
constexpr uint32_t kGfxStatus = 0x284b;
constexpr uint32_t kGfxFaultControl = 0x2847;
constexpr uint32_t kMmStatus = 0x1ab8b;

class FakeInterrupts : public InterruptSink, public PasidTable {
 public:
  void raise(const Interrupt& interrupt) override { raised.push_back(interrupt); }
  uint32_t pasid(Space space) const override { return pasids[space.vmid]; }
  void set_pasid(Space space, uint32_t pasid) override { pasids[space.vmid] = pasid; }

  std::vector<Interrupt> raised;
  std::array<uint32_t, 16> pasids = {};
};

HubRegisters::Spec hub_spec(Hub hub) {
  return {.hub = hub,
          .layout = mi210().gfx_hub_layout,
          .base = hub == Hub::kGfx ? 0x2840u : 0x1ab80u,
          .fb_base = kFbBase,
          .segment = Vram::kSegment,
          .node = 0,
          .nodes = 1};
}

// VMID 5 has 512 pages: its PDB2, PDB1, PDB0 and PTB lie at 0, 0x1000, 0x2000, 0x3000 of VRAM.
class GpuMemoryTest : public testing::Test {
 protected:
  GpuMemoryTest()
      : ram_(4 << 20),
        vram_(expect(Vram::create({.size = kVramSize, .shared_dir = "", .node = 0, .nodes = 1}))),
        physical_(dma_, *vram_),
        gfx_(hub_spec(Hub::kGfx)),
        mm_(hub_spec(Hub::kMm)),
        memory_(expect(GpuMemory::create(physical_, {{&gfx_}, {&mm_}}, interrupts_, interrupts_,
                                         [](uint64_t, auto) { return false; }))) {
    EXPECT_TRUE(dma_.map({.iova = kRamBase, .size = 4 << 20}, ram_.fd(), 0).ok());
    link(0x0000, 0, 0x1000 | pte::kValid);
    link(0x1000, 0, 0x2000 | pte::kValid);
    link(0x2000, 0, 0x3000 | pte::kValid | pte::kTranslateFurther);
    for (HubRegisters* hub : {&gfx_, &mm_}) {
      const uint32_t base = hub == &gfx_ ? 0x2840 : 0x1ab80;
      hub->write(base + 0x40 + kVmid, 0x5554cd);
      hub->write(base + 0xeb + 2 * kVmid, 0xffffffff);
      hub->write(base + 0xeb + 2 * kVmid + 1, 0xf);
    }
    bind(kVmid, 0x8001, pte::kValid);
  }

  void bind(unsigned vmid, uint32_t pasid, uint64_t base) {
    for (const Hub hub : {Hub::kGfx, Hub::kMm})
      memory_->bind_vmid({hub, vmid}, pasid, base, retries_);
  }
  void link(uint64_t table, uint64_t index, uint64_t entry) {
    memcpy(vram_->own().data() + table + 8 * index, &entry, 8);
  }
  void map(uint64_t page, uint64_t entry) { link(0x3000, page, entry); }

  const GuestRam ram_;
  DmaTable dma_;
  std::unique_ptr<Vram> vram_;
  PhysicalMemory physical_;
  FakeInterrupts interrupts_;
  HubRegisters gfx_;
  HubRegisters mm_;
  std::unique_ptr<GpuMemory> memory_;
  bool retries_ = false;
};

TEST_F(GpuMemoryTest, ReadsAndWritesAcrossPagesOfBothKinds) {
  map(0, 0x5000 | kRw);
  map(1, (kRamBase + 2 * kPage) | kRw | pte::kSystem);
  map(2, 0x9000 | kRw);
  std::vector<uint8_t> out(kPage + 100);
  std::iota(out.begin(), out.end(), 1);
  ASSERT_TRUE(memory_->write(kUser, kPage - 50, std::as_bytes(std::span(out))).ok());
  EXPECT_EQ(std::to_integer<int>(vram_->own()[0x5000 + kPage - 50]), 1);
  EXPECT_EQ(ram_.get<uint8_t>(2 * kPage), 51);
  std::vector<uint8_t> in(out.size());
  ASSERT_TRUE(memory_->read(kUser, kPage - 50, std::as_writable_bytes(std::span(in))).ok());
  EXPECT_EQ(in, out);
}

TEST_F(GpuMemoryTest, AccessOfAProcessWithXnackIsRepeatedUntilItsPageIsMapped) {
  retries_ = true;
  bind(kVmid, 0x8001, pte::kValid);
  const Space user{Hub::kMm, kVmid};
  EXPECT_EQ(code_of(memory_->store<uint32_t>(user, 0x1008, 7)), EAGAIN);
  ASSERT_EQ(interrupts_.raised.size(), 1u);
  EXPECT_TRUE(interrupts_.raised[0].retried);
  EXPECT_EQ(interrupts_.raised[0].data[0], 1u);
  EXPECT_EQ(interrupts_.raised[0].data[1], 0xa0u);
  EXPECT_EQ(mm_.read(kMmStatus), 0u) << "only faults that end an access are latched";
  map(1, 0x5000 | pte::kValid | pte::kRead);
  EXPECT_EQ(code_of(memory_->store<uint32_t>(user, 0x1008, 7)), EAGAIN);
  map(1, 0x5000 | kRw);
  EXPECT_TRUE(memory_->store<uint32_t>(user, 0x1008, 7).ok());
  EXPECT_EQ(memory_->faults(), 0u);
}

TEST_F(GpuMemoryTest, DriverEndsTheRetriesOfAnAccess) {
  retries_ = true;
  bind(kVmid, 0x8001, pte::kValid);
  map(1, pte::kValid | pte::kSystem | pte::kPrt);
  EXPECT_EQ(code_of(memory_->store<uint32_t>(kUser, 0x1000, 7)), EFAULT);
  ASSERT_EQ(interrupts_.raised.size(), 1u);
  EXPECT_FALSE(interrupts_.raised[0].retried);
  EXPECT_EQ(interrupts_.raised[0].data[1], 0x20u);
}

TEST_F(GpuMemoryTest, WithoutRetriesInTheVmidsRegisterXnackHasNoEffect) {
  retries_ = true;
  bind(kVmid, 0x8001, pte::kValid);
  gfx_.write(0x2880 + kVmid, 0x55544d);
  EXPECT_EQ(code_of(memory_->store<uint32_t>(kUser, 0x1000, 7)), EFAULT);
}

TEST_F(GpuMemoryTest, SignExtendedAddressesAreTheSame) {
  const uint64_t high = 0x0000ffff00000000;
  link(0x0000, high >> 39 & 511, 0x1000 | pte::kValid);
  link(0x1000, high >> 30 & 511, 0x2000 | pte::kValid);
  map(0, 0x5000 | kRw);
  ASSERT_TRUE(memory_->store<uint32_t>(kUser, high | 0xffff000000000000, 77).ok());
  EXPECT_EQ(expect(memory_->load<uint32_t>(kUser, high)), 77u);
}

TEST_F(GpuMemoryTest, WindowIsAsLongAsMemoryIsContiguous) {
  for (uint64_t i = 0; i < 512; ++i) map(i, (0x400000 + i * kPage) | kRw);
  EXPECT_EQ(expect(memory_->window(kUser, 0, 8 << 20, true)).size(), 2u << 20);
  map(100, (kRamBase) | kRw | pte::kSystem);
  memory_->invalidate_pasid(kUser, 0x8001);
  EXPECT_EQ(expect(memory_->window(kUser, 0, 8 << 20, true)).size(), 100 * kPage);
  EXPECT_EQ(code_of(memory_->window(kUser, 0, 0, true)), EINVAL);
}

TEST_F(GpuMemoryTest, FrameBufferApertureIsVmidZeros) {
  ASSERT_TRUE(memory_->store<uint64_t>({Hub::kMm, 0}, kFbBase + 0x8000, 123).ok());
  uint64_t value;
  memcpy(&value, vram_->own().data() + 0x8000, 8);
  EXPECT_EQ(value, 123u);
  // It is in the aperture of the hive, but there is no such memory.
  EXPECT_EQ(code_of(memory_->load<uint32_t>({Hub::kMm, 0}, kFbBase + kVramSize)), EFAULT);
  EXPECT_EQ(code_of(memory_->load<uint32_t>(kUser, kFbBase)), EFAULT);
}

TEST_F(GpuMemoryTest, GartIsVmidZeros) {
  gfx_.write(0x2880, 1);
  gfx_.write(0x28eb, 0x10000 | 1);
  gfx_.write(0x292b, 15);
  link(0x10000, 3, (kRamBase + kPage) | kRw | pte::kSystem);
  ASSERT_TRUE(memory_->store<uint32_t>({Hub::kGfx, 0}, 3 * kPage + 4, 99).ok());
  EXPECT_EQ(ram_.get<uint32_t>(kPage + 4), 99u);
  EXPECT_EQ(code_of(memory_->load<uint32_t>({Hub::kMm, 0}, 3 * kPage)), EFAULT);
}

TEST_F(GpuMemoryTest, FaultIsReportedAsTheHardwareDoes) {
  const auto status = memory_->store<uint32_t>(kUser, 0x123456789000, 1);
  EXPECT_EQ(code_of(status), EFAULT);
  ASSERT_EQ(interrupts_.raised.size(), 1u);
  const Interrupt& fault = interrupts_.raised[0];
  EXPECT_EQ(fault.client, 0x1b);
  EXPECT_EQ(fault.source, 0);
  EXPECT_EQ(fault.vmid, kVmid);
  EXPECT_FALSE(fault.from_mmhub);
  EXPECT_EQ(fault.pasid, 0x8001u);
  EXPECT_EQ(fault.data[0], 0x23456789u);
  EXPECT_EQ(fault.data[1] & 0xf, 0x1u);
  const uint32_t bits = gfx_.read(kGfxStatus);
  EXPECT_EQ(bits >> 20 & 15, kVmid);
  EXPECT_EQ(bits >> 18 & 1, 1u) << "a write";
  EXPECT_EQ(bits & 1, 0u) << "no more faults";
  EXPECT_EQ(gfx_.read(kGfxStatus + 1), 0x23456789u);
  EXPECT_EQ(gfx_.read(kGfxStatus + 2), 0x1u);
  EXPECT_EQ(mm_.read(kMmStatus), 0u);
}

TEST_F(GpuMemoryTest, FaultsOfTheGcHubHaveTheClientOfTheChip) {
  const auto memory = expect(GpuMemory::create(physical_, {{&gfx_}, {&mm_}, 0x0a}, interrupts_,
                                               interrupts_, [](uint64_t, auto) { return false; }));
  EXPECT_EQ(code_of(memory->load<uint32_t>({Hub::kGfx, kVmid}, 0x7000)), EFAULT);
  EXPECT_EQ(code_of(memory->load<uint32_t>({Hub::kMm, kVmid}, 0x7000)), EFAULT);
  ASSERT_EQ(interrupts_.raised.size(), 2u);
  EXPECT_EQ(interrupts_.raised[0].client, 0x0a);
  EXPECT_EQ(interrupts_.raised[1].client, 0x12);
}

TEST_F(GpuMemoryTest, FaultOfTheMmHubIsItsOwn) {
  EXPECT_EQ(code_of(memory_->load<uint32_t>({Hub::kMm, kVmid}, 0x7000)), EFAULT);
  ASSERT_EQ(interrupts_.raised.size(), 1u);
  EXPECT_EQ(interrupts_.raised[0].client, 0x12);
  EXPECT_TRUE(interrupts_.raised[0].from_mmhub);
  EXPECT_NE(mm_.read(kMmStatus), 0u);
  EXPECT_EQ(gfx_.read(kGfxStatus), 0u);
}

TEST_F(GpuMemoryTest, FirstFaultIsKeptUntilCleared) {
  (void)memory_->load<uint32_t>(kUser, 0x7000);
  (void)memory_->load<uint32_t>(kUser, 0x8000);
  EXPECT_EQ(gfx_.read(kGfxStatus + 1), 7u);
  EXPECT_EQ(gfx_.read(kGfxStatus) & 1, 1u) << "more faults";
  gfx_.write(kGfxStatus, 0);
  EXPECT_NE(gfx_.read(kGfxStatus), 0u) << "read-only";
  gfx_.write(kGfxFaultControl, gfx_.read(kGfxFaultControl) | 1);
  EXPECT_EQ(gfx_.read(kGfxStatus), 0u);
  (void)memory_->load<uint32_t>(kUser, 0x8000);
  EXPECT_EQ(gfx_.read(kGfxStatus + 1), 8u);
}

TEST_F(GpuMemoryTest, InstructionsNeedAPageThatPermitsThem) {
  map(0, 0x5000 | kRw);
  map(1, 0x6000 | kRw | pte::kExecute);
  EXPECT_TRUE(memory_->window(kUser, 0, kPage, false).ok());
  EXPECT_EQ(expect(memory_->code(kUser, kPage, kPage)).data(), vram_->own().data() + 0x6000);
  EXPECT_EQ(code_of(memory_->code(kUser, 0, kPage)), EFAULT);
  ASSERT_EQ(interrupts_.raised.size(), 1u);
  EXPECT_EQ(interrupts_.raised[0].ring, 0x40) << "prot_exec of KFD";
  EXPECT_EQ(gfx_.read(kGfxStatus) >> 4 & 15, 8u);
}

TEST_F(GpuMemoryTest, BytesBeforeAFaultAreMoved) {
  map(0, 0x5000 | kRw);
  std::vector<std::byte> data(2 * kPage, std::byte{9});
  EXPECT_EQ(code_of(memory_->write(kUser, 0, data)), EFAULT);
  EXPECT_EQ(vram_->own()[0x5fff], std::byte{9});
  EXPECT_EQ(interrupts_.raised[0].data[0], 1u);
}

TEST_F(GpuMemoryTest, UnbackedPagesReadZeroAndDropWrites) {
  map(0, pte::kPrt);
  map(1, pte::kPrt);
  ASSERT_TRUE(memory_->store<uint64_t>(kUser, kPage - 4, ~0ull).ok());
  EXPECT_EQ(expect(memory_->load<uint64_t>(kUser, kPage - 4)), 0u);
  EXPECT_TRUE(interrupts_.raised.empty());
}

TEST_F(GpuMemoryTest, ValidEntryToNowhereFaults) {
  map(0, (kRamBase + (64 << 20)) | kRw | pte::kSystem);
  map(1, (kVramSize + kPage) | kRw);
  EXPECT_EQ(code_of(memory_->load<uint32_t>(kUser, 0)), EFAULT);
  EXPECT_EQ(code_of(memory_->load<uint32_t>(kUser, kPage)), EFAULT);
  EXPECT_EQ(memory_->faults(), 2u);
}

TEST_F(GpuMemoryTest, BindingRedirectsAHub) {
  map(0, 0x5000 | kRw);
  link(0x20000, 0, 0x21000 | pte::kValid);
  link(0x21000, 0, 0x22000 | pte::kValid);
  link(0x22000, 0, 0x600000 | kRw);  // a 2 MiB page
  bind(kVmid, 0x8002, 0x20000 | pte::kValid);
  for (const Hub hub : {Hub::kGfx, Hub::kMm}) {
    const PhysicalRun run = memory_->translate({hub, kVmid}, 0x10, 4, true);
    EXPECT_EQ(run.physical.address, 0x600010u);
  }
  EXPECT_EQ(interrupts_.pasids[kVmid], 0x8002u);
  bind(0, 1, 2);
  bind(16, 1, 2);
  memory_->bind_vmid({Hub::kGfx, kVmid, 1}, 1, 2, false);
  EXPECT_EQ(interrupts_.pasids[0], 0u);
  EXPECT_EQ(interrupts_.pasids[kVmid], 0x8002u) << "there is no second hub";
}

// Registers of the invalidation engine that drivers use.
constexpr uint32_t kGfxInvalidate = 0x2840 + 0x63 + 17, kMmInvalidate = 0x1ab80 + 0x63 + 17;

// Without the invalidation, a driver writes to the old page.
TEST_F(GpuMemoryTest, OnlyAnInvalidationMakesAHubSeeChangedTables) {
  const auto written = [&] {
    EXPECT_TRUE(memory_->store<uint32_t>(kUser, 0, 1).ok());
    const bool changed = vram_->own()[0x6000] == std::byte{1};
    vram_->own()[0x5000] = vram_->own()[0x6000] = std::byte{0};
    return changed;
  };
  const auto change = [&] {
    gfx_.write(kGfxInvalidate, 1 << kVmid);
    map(0, 0x5000 | kRw);
    EXPECT_FALSE(written());
    map(0, 0x6000 | kRw);
  };
  change();
  EXPECT_FALSE(written());
  mm_.write(kMmInvalidate, 1 << kVmid);
  EXPECT_FALSE(written()) << "of the other hub";
  gfx_.write(kGfxInvalidate, 0xffff & ~(1 << kVmid));
  EXPECT_FALSE(written()) << "of other VMIDs";
  memory_->invalidate_pasid(kUser, 0x8002);
  EXPECT_FALSE(written()) << "of another process";
  gfx_.write(kGfxInvalidate, 1 << kVmid);
  EXPECT_TRUE(written());
  change();
  memory_->invalidate_pasid(kUser, 0x8001);
  EXPECT_TRUE(written());
  change();
  bind(kVmid, 0x8002, pte::kValid);
  EXPECT_TRUE(written());
  change();
  gfx_.reset();
  EXPECT_FALSE(gfx_.context(kVmid).enabled);
}

// A userptr that is evicted and attached again, for example.
TEST_F(GpuMemoryTest, AProcessThatIsMappedAgainUsesChangedTables) {
  map(1, 0x5000 | kRw);
  ASSERT_TRUE(memory_->store<uint32_t>(kUser, 0x1008, 1).ok());
  map(1, 0x6000 | kRw);
  bind(kVmid, 0x8001, pte::kValid);
  ASSERT_TRUE(memory_->store<uint32_t>(kUser, 0x1008, 2).ok());
  EXPECT_EQ(std::to_integer<int>(vram_->own()[0x5008]), 1);
  EXPECT_EQ(std::to_integer<int>(vram_->own()[0x6008]), 2);
}

TEST_F(GpuMemoryTest, UnmappedPagesNeedNoInvalidation) {
  EXPECT_EQ(code_of(memory_->load<uint32_t>(kUser, 0)), EFAULT);
  map(0, 0x5000 | pte::kValid | pte::kRead);
  EXPECT_TRUE(memory_->load<uint32_t>(kUser, 0).ok());
  EXPECT_EQ(code_of(memory_->store<uint32_t>(kUser, 0, 1)), EFAULT);
  map(0, 0x5000 | kRw);
  EXPECT_TRUE(memory_->store<uint32_t>(kUser, 0, 1).ok()) << "a new permission";
}

TEST(Tlb, ALookUpThatAnInvalidationOvertakesIsNotKept) {
  Tlb tlb;
  const uint64_t epoch = tlb.epoch();
  tlb.invalidate();
  tlb.insert(0x1000, false, {.size = 0x1000}, epoch);
  EXPECT_FALSE(tlb.find(0x1000, false));
  tlb.insert(0x1000, false, {.size = 0x2000}, tlb.epoch());
  EXPECT_EQ(tlb.find(0x1000, false)->size, 0x2000u);
  EXPECT_FALSE(tlb.find(0x1000, true));
  EXPECT_FALSE(tlb.find(0x2000, false));
}

TEST_F(GpuMemoryTest, CellsThatCrossAPageAreAnError) {
  map(0, 0x5000 | kRw);
  map(1, 0x9000 | kRw);
  EXPECT_TRUE(memory_->cell(kUser, 8, 8).ok());
  EXPECT_EQ(code_of(memory_->cell(kUser, kPage - 4, 8)), EFAULT);
  EXPECT_EQ(code_of(memory_->cell({Hub::kGfx, 16}, 0, 8)), EFAULT);
}

}  // namespace
}  // namespace gpu
