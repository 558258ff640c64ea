// SPDX-License-Identifier: GPL-2.0
#include "device.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/result.h"
#include "core/log.h"
#include "firmware/discovery.h"
#include "firmware/vbios.h"

namespace gpu {
namespace {

constexpr unsigned kVramBar = 0;
constexpr unsigned kDoorbellBar = 2;
constexpr unsigned kMmioBar = 5;
constexpr uint64_t kDoorbellBytes = 2 << 20;
constexpr uint64_t kRomBytes = 64 << 10;
constexpr uint64_t kFbBase = 0x8000000000;  // as a BIOS of this generation sets it

HubRegisters::Spec hub_spec(const Asic& asic, Hub hub, uint32_t base, const Vram& vram) {
  return {.hub = hub,
          .layout = hub == Hub::kGfx ? asic.gfx_hub_layout : asic.mm_hub_layout,
          .base = base,
          .fb_base = kFbBase,
          .segment = Vram::kSegment,
          .node = vram.node(),
          .nodes = vram.nodes()};
}

Nbio::Spec nbio_spec(const Asic& asic, HostDataPath& hdp) {
  Nbio::Spec spec = {
      .smn_index = asic.smn_index, .extended_smn = asic.extended_smn, .hdp_flush = asic.hdp_flush};
  spec.flush_hdp = [&hdp] { hdp.flush(); };
  for (const auto& [address, value] : asic.smn) spec.smn.emplace(address, value);
  return spec;
}

uint64_t bar_size_of(const Device::Spec& spec) {
  return spec.bar_size ? spec.bar_size : spec.vram_size;
}

std::vector<HubRegisters*> pointers(std::deque<HubRegisters>& hubs) {
  std::vector<HubRegisters*> result;
  for (HubRegisters& hub : hubs) result.push_back(&hub);
  return result;
}

}  // namespace

MessageInterrupt::MessageInterrupt(std::optional<uint32_t> delays) {
  if (!delays) return;
  random_.emplace(*delays);
  late_ = std::jthread([this](const std::stop_token& stop) { send_late(stop); });
}

void MessageInterrupt::set(std::optional<amdgpu_criu::Fd> event) {
  const std::lock_guard lock(mutex_);
  event_ = std::move(event);
}

void MessageInterrupt::signal() {
  const std::lock_guard lock(mutex_);
  if (!random_) return send();
  if (due_) return;
  const auto chance = static_cast<unsigned>((*random_)() % (uint64_t{2} * kLongestDelay));
  if (chance >= kLongestDelay) return send();
  due_ = Clock::now() + std::chrono::milliseconds(chance + 1);
  changed_.notify_one();
}

void MessageInterrupt::send_late(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return due_.has_value(); })) {
    const auto due = due_.value_or(Clock::now());
    changed_.wait_until(lock, stop, due, [] { return false; });
    due_.reset();
    send();
  }
}

// With mutex_ held.
void MessageInterrupt::send() {
  const uint64_t one = 1;
  if (!event_) return;
  // A full eventfd is signalled already.
  const ssize_t written = ::write(event_->get(), &one, sizeof(one));
  (void)written;
}

amdgpu_criu::Result<std::unique_ptr<Device>> Device::create(const Spec& spec,
                                                            const EngineFactory& engines) {
  if (!std::has_single_bit(spec.vram_size) || spec.vram_size < kMinVram ||
      spec.vram_size > kMaxVram)
    return amdgpu_criu::Error::of(EINVAL, "VRAM must be a power of two from {} to {} MiB",
                                  kMinVram >> 20, kMaxVram >> 20);
  if (spec.bar_size && (!std::has_single_bit(spec.bar_size) || spec.bar_size < kMinVram ||
                        spec.bar_size > spec.vram_size))
    return amdgpu_criu::Error::of(EINVAL, "BAR 0 must be a power of two from {} to {} MiB",
                                  kMinVram >> 20, spec.vram_size >> 20);
  const Asic& asic = spec.asic;
  if (spec.nodes > 1 && spec.xgmi && !asic.has_xgmi())
    return amdgpu_criu::Error::of(EINVAL, "{} has no XGMI", asic.name);
  ConfigSpace config = TRY(ConfigSpace::create({.device_id = asic.device_id,
                                                .revision = asic.revision,
                                                .class_code = asic.class_code,
                                                .vram_size = bar_size_of(spec),
                                                .doorbell_size = kDoorbellBytes,
                                                .mmio_size = asic.mmio_bytes,
                                                .rom_size = kRomBytes}));
  auto vram = TRY(Vram::create({.size = spec.vram_size,
                                .shared_dir = spec.shared_dir,
                                .node = spec.node,
                                .nodes = spec.nodes,
                                .xgmi = spec.xgmi}));
  auto bus = TRY(RegisterBus::create({.words = static_cast<uint32_t>(asic.mmio_bytes / 4),
                                      .ips = asic.registers,
                                      .trace = spec.trace}));
  std::unique_ptr<Device> device(
      new Device(spec, std::move(config), std::move(vram), std::move(bus)));
  TRY(device->put_together(engines));
  return device;
}

Device::Device(const Spec& spec, ConfigSpace config, std::unique_ptr<Vram> vram,
               std::unique_ptr<RegisterBus> bus)
    : asic_(spec.asic),
      bar_size_(bar_size_of(spec)),
      config_(std::move(config)),
      rom_(make_vbios({.vendor = kPciVendor, .asic = spec.asic})),
      vram_(std::move(vram)),
      hdp_(vram_->own(), spec.hold_cpu_writes),
      physical_(dma_, *vram_),
      message_(spec.delays),
      bus_(std::move(bus)),
      interrupts_({.nodes = asic_.interrupt_nodes,
                   .hubs = asic_.xccs,
                   .bus_space = asic_.interrupts.bus_space},
                  physical_, clock_, [this] { message_.signal(); }),
      nbio_(*bus_, vram_->own(), nbio_spec(asic_, hdp_)) {
  rom_.resize(kRomBytes, std::byte{0xff});
  make_dies();
}

void Device::make_dies() {
  if (asic_.has_partitions()) partitions_.emplace(asic_.xccs, asic_.memory_partitions);
  if (asic_.smu) smu_.emplace(*asic_.smu);
  if (asic_.golden_clock) golden_clock_.emplace(clock_, *asic_.golden_clock);
  for (const uint32_t base : asic_.mm_hubs)
    mm_hubs_.emplace_back(hub_spec(asic_, Hub::kMm, base, *vram_));
  for (uint32_t xcc = 0; xcc < asic_.xccs; ++xcc) {
    const uint32_t offset = xcc * kInstanceStride;
    gfx_hubs_.emplace_back(hub_spec(asic_, Hub::kGfx, asic_.gfx_hub + offset, *vram_));
    rlcs_.emplace_back(clock_, asic_.rlc_safe_mode, offset);
    if (asic_.unit_registers) unit_fuses_.emplace_back(asic_, offset);
  }
  for (const ConstantBlock& block : asic_.constants)
    for (uint32_t xcc = 0; xcc < (block.per_xcc ? asic_.xccs : 1); ++xcc)
      fixed_.emplace_back(block, xcc * kInstanceStride);
  put_discovery();
}

// The chip's own microcontroller puts it there, also after a reset.
void Device::put_discovery() {
  if (asic_.ips.empty()) return;
  const uint64_t at = vram_->size() - kDiscoveryFromEnd;
  std::ranges::copy(make_discovery(asic_), vram_->own().subspan(at).begin());
}

amdgpu_criu::Status Device::claim_registers() {
  TRY(interrupts_.claim(*bus_));
  TRY(nbio_.claim());
  if (partitions_) TRY(partitions_->claim(*bus_));
  if (smu_) TRY(smu_->claim(*bus_));
  if (golden_clock_) TRY(golden_clock_->claim(*bus_));
  for (HubRegisters& hub : gfx_hubs_) TRY(hub.claim(*bus_));
  for (HubRegisters& hub : mm_hubs_) TRY(hub.claim(*bus_));
  for (Rlc& rlc : rlcs_) TRY(rlc.claim(*bus_));
  for (FixedRegisters& block : fixed_) TRY(block.claim(*bus_));
  for (UnitFuses& units : unit_fuses_) TRY(units.claim(*bus_));
  return {};
}

amdgpu_criu::Status Device::put_together(const EngineFactory& engines) {
  TRY(claim_registers());
  const auto bus_write = [this](uint64_t address, auto data) {
    const uint64_t offset = address - doorbells_at_;
    if (!doorbells_at_ || offset >= kDoorbellBytes) return false;
    ring_doorbell(offset, data);
    return true;
  };
  memory_ = TRY(GpuMemory::create(
      physical_, {pointers(gfx_hubs_), pointers(mm_hubs_), asic_.interrupts.gfx_fault_client},
      interrupts_, interrupts_, bus_write));
  interrupts_.translate_by(*memory_);
  engines_ = TRY(engines(asic_, *memory_, *bus_, interrupts_));
  return {};
}

// The threads of the engines use members that are destroyed after this.
Device::~Device() {
  for (auto& engine : engines_) engine->stop();
}

PciDevice::Region Device::region(unsigned index) const {
  switch (index) {
    case kVramBar:
      return {bar_size_, true, hdp_.holds() ? nullptr : &vram_->fd()};
    case kDoorbellBar:
      return {kDoorbellBytes, true};
    case kMmioBar:
      return {asic_.mmio_bytes, true};
    case kRomRegion:
      return {kRomBytes, false};
    case kConfigRegion:
      return {ConfigSpace::kSize, true};
    default:
      return {};
  }
}

amdgpu_criu::Status Device::read(unsigned index, uint64_t offset, std::span<std::byte> out) {
  switch (index) {
    case kVramBar:
      hdp_.read(offset, out);
      return {};
    case kDoorbellBar:
      memset(out.data(), 0, out.size());
      return {};  // write-only
    case kMmioBar:
      read_mmio(offset, out);
      return {};
    case kRomRegion:
      memcpy(out.data(), rom_.data() + offset, out.size());
      return {};
    case kConfigRegion:
      config_.read(offset, out);
      return {};
    default:
      return amdgpu_criu::Error::of(EINVAL, "region {} cannot be read", index);
  }
}

amdgpu_criu::Status Device::write(unsigned index, uint64_t offset,
                                  std::span<const std::byte> data) {
  switch (index) {
    case kVramBar:
      hdp_.write(offset, data);
      return {};
    case kDoorbellBar:
      ring_doorbell(offset, data);
      return {};
    case kMmioBar:
      write_mmio(offset, data);
      return {};
    case kConfigRegion:
      write_config(offset, data);
      return {};
    default:
      return amdgpu_criu::Error::of(EINVAL, "region {} cannot be written", index);
  }
}

// Registers are 32 bits wide, and the driver uses only such accesses. Other reads return the bytes
// that they cover; other writes are ignored.
void Device::read_mmio(uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const uint32_t value = bus_->driver_read(static_cast<uint32_t>(offset / 4));
    const size_t skip = offset % 4;
    const size_t count = std::min(out.size(), 4 - skip);
    memcpy(out.data(), reinterpret_cast<const std::byte*>(&value) + skip, count);
    out = out.subspan(count);
    offset += count;
  }
}

void Device::write_mmio(uint64_t offset, std::span<const std::byte> data) {
  if (offset % 4 || data.size() % 4)
    return model_fault("a write of {} bytes to MMIO {:#x}: not whole registers", data.size(),
                       offset);
  for (; !data.empty(); data = data.subspan(4), offset += 4) {
    uint32_t value;
    memcpy(&value, data.data(), sizeof(value));
    bus_->driver_write(static_cast<uint32_t>(offset / 4), value);
  }
}

void Device::ring_doorbell(uint64_t offset, std::span<const std::byte> data) {
  const size_t size = data.size();
  if ((size != 4 && size != 8) || offset % size)
    return model_fault("a write of {} bytes to doorbell {:#x}", size, offset);
  uint64_t value = 0;
  memcpy(&value, data.data(), size);
  const auto at = static_cast<uint32_t>(offset);
  if (interrupts_.ring_doorbell(at, value)) return;
  for (auto& engine : engines_) engine->ring(at, value, static_cast<unsigned>(size));
}

void Device::set_interrupt(std::optional<amdgpu_criu::Fd> event) {
  message_.set(std::move(event));
  interrupts_.resignal();
}

// No PSP or SMU can reset the chip. For a reset (mode 1) the driver marks the engine as hung,
// switches bus mastering off, and then expects that the chip was reset.
void Device::write_config(uint64_t offset, std::span<const std::byte> data) {
  const bool before = config_.bus_master();
  config_.write(offset, data);
  publish_bars();
  if (!before || config_.bus_master() || !nbio_.engine_hung()) return;
  log_info("chip reset (mode 1)");
  ++chip_resets_;
  reset_chip();
  // Members of a hive may be reading it.
  if (vram_->nodes() == 1) lose_vram();
}

void Device::lose_vram() {
  vram_->overwrite();
  put_discovery();
}

void Device::reset_chip() {
  for (auto& engine : engines_) engine->reset();
  interrupts_.reset();
  for (HubRegisters& hub : gfx_hubs_) hub.reset();
  for (HubRegisters& hub : mm_hubs_) hub.reset();
  for (Rlc& rlc : rlcs_) rlc.reset();
  for (UnitFuses& units : unit_fuses_) units.reset();
  nbio_.reset();
  if (partitions_) partitions_->reset();
  if (smu_) smu_->reset();
  bus_->reset();
}

void Device::reset() {
  reset_chip();
  config_.reset();
  publish_bars();
}

void Device::publish_bars() {
  doorbells_at_ = config_.doorbell_bar();
  vram_->set_bar(config_.vram_bar());
}

void Device::disconnect() {
  reset();
  message_.set(std::nullopt);
  dma_.clear();
}

std::string Device::report() const {
  std::string text = amdgpu_criu::formatted("{} VM faults, {} chip resets, {} model faults\n",
                                            memory_->faults(), chip_resets_, model_faults());
  for (const auto& engine : engines_) text += engine->report();
  return text + bus_->report();
}

}  // namespace gpu
