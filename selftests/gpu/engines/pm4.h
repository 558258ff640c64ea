// SPDX-License-Identifier: GPL-2.0
// Executes PM4 packets of kernel and user compute rings, and of buffers that AQL packets call.
#pragma once

#include <chrono>
#include <span>

#include "engines/context.h"
#include "engines/launcher.h"
#include "engines/queue.h"
#include "engines/stream.h"

namespace gpu {

// Packets by which a privileged queue manages the others.
class SchedulerPackets {
 public:
  virtual ~SchedulerPackets() = default;
  // EINVAL stops the queue that sent the packet. issuer: the owner of the queues that it maps.
  virtual amdgpu_criu::Result<Step> manage(uint8_t opcode, std::span<const uint32_t> body,
                                           Queue::Owner issuer) = 0;
};

class Pm4 {
 public:
  struct Setup {
    HqdSlot slot;
    unsigned vmid = 0;
    uint32_t pasid = 0;
    uint32_t doorbell = 0;
    uint64_t fence = 0;                     // address in VMID 0; 0: the queue has none
    SchedulerPackets* scheduler = nullptr;  // for the KIQ and the HIQ
    Queue::Owner manages = Queue::Owner::kKiq;
    Launcher::Process process = {};
  };

  Pm4(Context& context, Setup setup, const ComputeRegisters& compute)
      : context_(context),
        setup_(setup),
        launcher_(context, setup.process, compute, doorbell_id()) {}

  // Executes the next packet and advances the stream. EFAULT: the fault was reported to the guest.
  amdgpu_criu::Result<Step> execute(Stream& stream, Budget& budget);
  // Launches its dispatches, and those of the AQL packets around its buffers.
  Launcher& launcher() { return launcher_; }
  const Launcher& launcher() const { return launcher_; }
  // True while the work of a NOP that occupies the queue is in flight. It cannot be saved.
  bool occupied() const { return std::chrono::steady_clock::now() < occupied_until_; }
  // Runs the waves of its dispatch for one turn, and sends their interrupts.
  Launcher::State run_waves(Budget& budget);
  // End of pipe: client, source and ring of this queue.
  void interrupt(uint32_t context_id, uint8_t source) const;
  // Raises the firmware's interrupt for a packet that it cannot run; KFD passes it to the runtime
  // or the debugger.
  void exception(QueueException code) const;

 private:
  using Words = std::span<const uint32_t>;
  // words: the body of the packet.
  using Handler = amdgpu_criu::Result<Step> (Pm4::*)(Words words, Stream& stream, Budget& budget);
  struct Packet {
    uint8_t opcode;
    size_t least;  // doublewords of body
    Handler handler;
    bool drop_on_fault;
  };

  // Doorbells are 8 bytes each, and KFD numbers them from the start of the process's 8 KiB.
  uint32_t doorbell_id() const { return setup_.doorbell >> 3 & 0x3ff; }
  static const Packet* find(uint8_t opcode);
  amdgpu_criu::Result<Step> run_packet(uint32_t header, Words body, Stream& stream, Budget& budget);

  amdgpu_criu::Result<Step> ignore(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> nop(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> invalidate_tlbs(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> dispatch_direct(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> dispatch_indirect(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> atomic_mem(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> cond_exec(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> cond_write(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> write_data(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> wait_reg_mem(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> wait_reg_mem64(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> indirect_buffer(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> copy_data(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> release_mem(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> signal_fence(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> dma_data(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> set_config_reg(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> set_context_reg(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> set_context_reg_pairs(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> set_sh_reg(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> set_sh_reg_pairs(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> set_uconfig_reg(Words words, Stream& stream, Budget& budget);
  amdgpu_criu::Result<Step> run_list(Words words, Stream& stream, Budget& budget);

  amdgpu_criu::Result<Step> run_dispatch(std::array<uint32_t, 3> end, uint32_t how, Stream& stream,
                                         Budget& budget);
  void set_register(Stream& stream, uint32_t dword, uint32_t value);
  amdgpu_criu::Result<Step> set_registers(uint32_t first, Words words, Stream& stream);
  amdgpu_criu::Result<Step> set_packed_registers(uint32_t first, Words words, Stream& stream);
  void write_register(Stream& stream, uint32_t dword, uint32_t value);
  amdgpu_criu::Result<uint64_t> copy_source(Words words, Stream& stream, bool wide);

  Context& context_;
  const Setup setup_;
  Launcher launcher_;
  std::chrono::steady_clock::time_point occupied_until_;
};

}  // namespace gpu
