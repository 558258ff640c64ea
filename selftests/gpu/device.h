// SPDX-License-Identifier: GPL-2.0
// One GPU put together: blocks, memory and engines behind a PCI device.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "asic/asic.h"
#include "core/interfaces.h"
#include "mem/gpu_memory.h"
#include "mem/host_data_path.h"
#include "pci/config_space.h"
#include "pci/pci_device.h"
#include "regs/fixed.h"
#include "regs/interrupt_ring.h"
#include "regs/nbio.h"
#include "regs/partitions.h"
#include "regs/register_bus.h"
#include "regs/rlc.h"
#include "regs/smu_mailbox.h"
#include "regs/unit_fuses.h"

namespace gpu {

// The message-signalled interrupt: an eventfd while the driver has it enabled.
class MessageInterrupt {
 public:
  static constexpr unsigned kLongestDelay = 50;  // ms

  // delays: a seed. With it half of the signals come later, at random.
  explicit MessageInterrupt(std::optional<uint32_t> delays = {});
  void set(std::optional<amdgpu_criu::Fd> event);
  void signal();

 private:
  using Clock = std::chrono::steady_clock;

  void send();
  void send_late(const std::stop_token& stop);

  std::mutex mutex_;
  std::optional<amdgpu_criu::Fd> event_;
  std::optional<std::mt19937> random_;
  std::optional<Clock::time_point> due_;  // of a signal that waits
  std::condition_variable_any changed_;
  std::jthread late_;  // last: it uses the rest
};

class Device final : public PciDevice {
 public:
  static constexpr uint64_t kMinVram = 256ull << 20;
  static constexpr uint64_t kMaxVram = Vram::kMaxSize;

  struct Spec {
    const Asic& asic = mi210();
    uint64_t vram_size = 1ull << 30;
    uint64_t bar_size = 0;  // of BAR 0, through which the CPU sees VRAM; 0: all of it
    std::string shared_dir = {};
    unsigned node = 0;
    unsigned nodes = 1;
    bool xgmi = true;
    std::string trace = {};
    std::optional<uint32_t> delays = {};  // of interrupts; a seed
    bool hold_cpu_writes = false;         // to VRAM, until the HDP is flushed
  };

  static amdgpu_criu::Result<std::unique_ptr<Device>> create(const Spec& spec,
                                                             const EngineFactory& engines);
  ~Device() override;

  Region region(unsigned index) const override;
  amdgpu_criu::Status read(unsigned index, uint64_t offset, std::span<std::byte> out) override;
  amdgpu_criu::Status write(unsigned index, uint64_t offset,
                            std::span<const std::byte> data) override;
  amdgpu_criu::Status map_dma(const DmaTable::Range& range, std::optional<amdgpu_criu::Fd> memory,
                              uint64_t offset) override {
    return dma_.map(range, std::move(memory), offset);
  }
  amdgpu_criu::Status unmap_dma(uint64_t iova, uint64_t size) override {
    return dma_.unmap(iova, size);
  }
  void set_interrupt(std::optional<amdgpu_criu::Fd> event) override;
  void reset() override;
  void disconnect() override;

  // Registers that no block models, and counts of faults and resets.
  std::string report() const;

 private:
  Device(const Spec& spec, ConfigSpace config, std::unique_ptr<Vram> vram,
         std::unique_ptr<RegisterBus> bus);
  void make_dies();
  void put_discovery();
  amdgpu_criu::Status claim_registers();
  amdgpu_criu::Status put_together(const EngineFactory& engines);

  void read_mmio(uint64_t offset, std::span<std::byte> out);
  void write_mmio(uint64_t offset, std::span<const std::byte> data);
  void ring_doorbell(uint64_t offset, std::span<const std::byte> data);
  void write_config(uint64_t offset, std::span<const std::byte> data);
  void reset_chip();
  void lose_vram();
  void publish_bars();

  const Asic& asic_;
  const uint64_t bar_size_;
  ConfigSpace config_;
  std::atomic<uint64_t> doorbells_at_ = 0;  // on the bus
  std::vector<std::byte> rom_;
  std::unique_ptr<Vram> vram_;
  HostDataPath hdp_;
  DmaTable dma_;
  PhysicalMemory physical_;
  MessageInterrupt message_;
  GpuClock clock_;
  std::unique_ptr<RegisterBus> bus_;
  InterruptRing interrupts_;
  std::deque<HubRegisters> gfx_hubs_;  // of each XCC
  std::deque<HubRegisters> mm_hubs_;   // of each AID
  std::deque<Rlc> rlcs_;               // of each XCC
  std::deque<FixedRegisters> fixed_;
  std::deque<UnitFuses> unit_fuses_;  // of each XCC
  Nbio nbio_;
  std::optional<Partitions> partitions_;
  std::optional<SmuMailboxBlock> smu_;
  std::optional<GoldenClock> golden_clock_;
  std::unique_ptr<GpuMemory> memory_;
  std::vector<std::unique_ptr<Engine>> engines_;
  unsigned chip_resets_ = 0;
};

}  // namespace gpu
