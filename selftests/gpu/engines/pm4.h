// SPDX-License-Identifier: GPL-2.0
// Executes PM4 packets: of kernel and user compute rings, and of buffers that AQL packets call.
#pragma once

#include <span>

#include "engines/context.h"
#include "engines/queue.h"
#include "engines/stream.h"

namespace gpu {

// Packets by which a privileged queue manages the others.
class SchedulerPackets {
 public:
  virtual ~SchedulerPackets() = default;
  // EINVAL stops the queue that sent the packet. issuer: who owns what the queue maps.
  virtual base::Result<Step> manage(uint8_t opcode, std::span<const uint32_t> body,
                                    Queue::Owner issuer) = 0;
};

class Pm4 {
 public:
  struct Setup {
    HqdSlot slot;
    unsigned vmid = 0;
    uint32_t pasid = 0;
    uint32_t doorbell = 0;
    SchedulerPackets* scheduler = nullptr;  // for the KIQ and the HIQ
    Queue::Owner manages = Queue::Owner::kKiq;
  };

  Pm4(Context& context, Setup setup) : context_(context), setup_(setup) {}

  // Executes the packet that is next and moves the stream on. EFAULT: the guest was told.
  base::Result<Step> execute(Stream& stream, Budget& budget);
  // End of pipe: client, source and ring of this queue.
  void interrupt(uint32_t context_id, uint8_t source) const;
  // What the firmware says of a packet that it cannot run: KFD tells the runtime or the debugger.
  void exception(QueueException code) const;

 private:
  using Words = std::span<const uint32_t>;
  // words: the body of the packet.
  using Handler = base::Result<Step> (Pm4::*)(Words words, Stream& stream, Budget& budget);
  struct Packet {
    uint8_t opcode;
    size_t least;  // doublewords of body
    Handler handler;
    bool drop_on_fault;
  };

  static const Packet* find(uint8_t opcode);
  base::Result<Step> run_packet(uint32_t header, Words body, Stream& stream, Budget& budget);

  base::Result<Step> ignore(Words words, Stream& stream, Budget& budget);
  base::Result<Step> dispatch(Words words, Stream& stream, Budget& budget);
  base::Result<Step> atomic_mem(Words words, Stream& stream, Budget& budget);
  base::Result<Step> cond_exec(Words words, Stream& stream, Budget& budget);
  base::Result<Step> cond_write(Words words, Stream& stream, Budget& budget);
  base::Result<Step> write_data(Words words, Stream& stream, Budget& budget);
  base::Result<Step> wait_reg_mem(Words words, Stream& stream, Budget& budget);
  base::Result<Step> wait_reg_mem64(Words words, Stream& stream, Budget& budget);
  base::Result<Step> indirect_buffer(Words words, Stream& stream, Budget& budget);
  base::Result<Step> copy_data(Words words, Stream& stream, Budget& budget);
  base::Result<Step> release_mem(Words words, Stream& stream, Budget& budget);
  base::Result<Step> dma_data(Words words, Stream& stream, Budget& budget);
  base::Result<Step> set_config_reg(Words words, Stream& stream, Budget& budget);
  base::Result<Step> set_context_reg(Words words, Stream& stream, Budget& budget);
  base::Result<Step> set_sh_reg(Words words, Stream& stream, Budget& budget);
  base::Result<Step> set_uconfig_reg(Words words, Stream& stream, Budget& budget);
  base::Result<Step> run_list(Words words, Stream& stream, Budget& budget);

  base::Result<Step> set_registers(uint32_t first, Words words, Stream& stream);
  void write_register(Stream& stream, uint32_t dword, uint32_t value);
  base::Result<uint64_t> copy_source(Words words, Stream& stream, bool wide);

  Context& context_;
  const Setup setup_;
};

}  // namespace gpu
