// SPDX-License-Identifier: GPL-2.0
// An SDMA ring: the kernel's gfx ring of an engine, or a user queue (RLC) with an MQD.
#pragma once

#include <functional>

#include "engines/mqd_kept.h"
#include "engines/queue.h"

namespace gpu {

class SdmaQueue : public PacketQueue {
 public:
  struct Setup {
    unsigned engine = 0;
    Stream::Ring ring;
    uint64_t rptr = 0;  // bytes, as wptr
    uint64_t wptr = 0;
    uint64_t rptr_report = 0;  // in the queue's VMID; 0: none
    // The kernel's ring has registers that show its pointers.
    std::function<void(uint64_t rptr, uint64_t wptr)> show;
    bool user = false;
  };

  static amdgpu_criu::Result<std::unique_ptr<SdmaQueue>> create(Context& context, const Spec& spec,
                                                                Setup setup);
  // From an MQD at spec.mqd.
  static amdgpu_criu::Result<std::unique_ptr<SdmaQueue>> map(Context& context, Spec spec,
                                                             unsigned engine);

  void doorbell(uint64_t value, unsigned size) override;
  void save() override;
  void catch_up() override;
  bool hangs() const override { return truncated_; }

 protected:
  amdgpu_criu::Result<Step> execute(Budget& budget) override;
  void report_rptr() override;

 private:
  using Words = std::span<const uint32_t>;
  using Handler = amdgpu_criu::Result<Step> (SdmaQueue::*)(Words, Budget&);
  struct Packet {
    uint8_t opcode;
    uint8_t subop;
    // How many doublewords determine the length; and the length, from these.
    size_t head;
    uint64_t (*length)(Words head);
    Handler handler;
    // A faulting transfer is dropped; a faulting condition stops the queue.
    bool drop_on_fault;
  };

  using Mqd = std::array<uint32_t, sdma_mqd::kDwords>;

  SdmaQueue(Context& context, const Spec& spec, Setup setup);
  KeptBits kept() const;
  void load_place(const Mqd& mqd);
  void save_place(Mqd& mqd) const;
  amdgpu_criu::Status write_mqd();
  static const Packet* find(uint32_t header);
  amdgpu_criu::Result<Step> execute_packet(Budget& budget);
  amdgpu_criu::Result<Step> run_handler(const Packet& packet, Words words, Budget& budget);
  void set_wptr(uint64_t bytes);
  void interrupt(uint8_t source, uint32_t data) const;
  // Raises the interrupt of an uncorrectable error if the memory has one.
  amdgpu_criu::Status consume_poison(uint64_t address);

  amdgpu_criu::Result<Step> nop(Words words, Budget& budget);
  amdgpu_criu::Result<Step> copy_linear(Words words, Budget& budget);
  amdgpu_criu::Result<Step> copy_sub_window(Words words, Budget& budget);
  amdgpu_criu::Result<Step> write(Words words, Budget& budget);
  amdgpu_criu::Result<Step> indirect(Words words, Budget& budget);
  amdgpu_criu::Result<Step> fence(Words words, Budget& budget);
  amdgpu_criu::Result<Step> trap(Words words, Budget& budget);
  amdgpu_criu::Result<Step> poll(Words words, Budget& budget);
  amdgpu_criu::Result<Step> poll_reg_write_mem(Words words, Budget& budget);
  amdgpu_criu::Result<Step> vm_invalidation(Words words, Budget& budget);
  amdgpu_criu::Result<Step> cond_exe(Words words, Budget& budget);
  amdgpu_criu::Result<Step> atomic_op(Words words, Budget& budget);
  amdgpu_criu::Result<Step> const_fill(Words words, Budget& budget);
  amdgpu_criu::Result<Step> gen_pte(Words words, Budget& budget);
  amdgpu_criu::Result<Step> timestamp(Words words, Budget& budget);
  amdgpu_criu::Result<Step> srbm_write(Words words, Budget& budget);
  amdgpu_criu::Result<Step> pre_exe(Words words, Budget& budget);

  Setup setup_;
  bool is_older_ = false;   // its image is from before there were bits of KeptBits
  bool truncated_ = false;  // it is inside of a packet whose end is missing
};

}  // namespace gpu
