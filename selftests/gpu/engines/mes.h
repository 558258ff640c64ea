// SPDX-License-Identifier: GPL-2.0
// MES, the scheduler of GFX11: the driver adds and removes queues one at a time, by frames in a
// ring. Every added queue is mapped at once; MES picks its VMID and its descriptor. In the thread
// of the command processor.
#pragma once

#include <array>
#include <map>
#include <set>
#include <span>

#include "engines/queue_mapper.h"

namespace gpu {

class Mes {
 public:
  static constexpr size_t kFrameDwords = 64;
  using Frame = std::span<const uint32_t>;

  Mes(Context& context, QueueMapper& mapper) : context_(context), mapper_(mapper) {}

  void reset();
  // The ring of frames, which the KIQ maps.
  amdgpu_criu::Status map(Queue::Spec spec);

  // A frame of kFrameDwords. progress: of the frame, zero at first. EINVAL stops the ring, and the
  // driver sees a scheduler that does not answer.
  amdgpu_criu::Result<Step> execute(Frame frame, uint64_t& progress);

 private:
  // The arguments of ADD_QUEUE, until the queue is removed.
  struct Added {
    std::array<uint32_t, kFrameDwords> frame;
    bool suspended = false;
  };
  using Handler = amdgpu_criu::Result<Step> (Mes::*)(Frame frame, uint64_t& progress);
  struct Command {
    uint32_t opcode;
    size_t status;  // the position of its fence's address and value
    Handler handler;
  };
  static const Command* find(uint32_t opcode);

  amdgpu_criu::Result<Step> accept(Frame frame, uint64_t& progress);
  amdgpu_criu::Result<Step> set_resources(Frame frame, uint64_t& progress);
  amdgpu_criu::Result<Step> add_queue(Frame frame, uint64_t& progress);
  amdgpu_criu::Result<Step> remove_queue(Frame frame, uint64_t& progress);
  amdgpu_criu::Result<Step> suspend(Frame frame, uint64_t& progress);
  amdgpu_criu::Result<Step> resume(Frame frame, uint64_t& progress);
  amdgpu_criu::Result<Step> reset_queue(Frame frame, uint64_t& progress);
  amdgpu_criu::Result<Step> misc(Frame frame, uint64_t& progress);

  amdgpu_criu::Status map_added(Frame frame);
  Queue::Spec take_slot(HqdSlot slot, uint32_t doorbell, uint64_t mqd);
  amdgpu_criu::Status map_legacy(Frame frame);
  amdgpu_criu::Result<Step> remove_legacy(Frame frame);
  amdgpu_criu::Status reset_graphics(Frame frame);
  amdgpu_criu::Result<Step> wait_reg_mem(Frame frame, uint64_t& progress);
  void forget(const Added& removed);
  // False: its waves have to be saved first.
  bool unmap(uint32_t doorbell);
  // It cannot be unmapped: MES does not complete the frame, and the driver resets the GPU.
  bool hangs(uint32_t doorbell);

  Context& context_;
  QueueMapper& mapper_;
  std::map<uint32_t, Added> added_;  // by doorbell
  // Doorbells of queues that a reset has ended. The driver may still remove them.
  std::set<uint32_t> lost_;
  bool failed_ = false;  // the frame that is executed is not completed
};

// The ring of frames.
class MesQueue : public PacketQueue {
 public:
  MesQueue(Context& context, const Spec& spec, Stream::Ring ring, Mes& mes)
      : PacketQueue(context, spec, kKernelSpace, ring), mes_(mes) {}

  amdgpu_criu::Status start(const HqdState& state);
  void doorbell(uint64_t value, unsigned size) override;
  // The driver does not read its pointers, and writes its MQD anew before it maps it again.
  void save() override {}
  void catch_up() override {}

 protected:
  amdgpu_criu::Result<Step> execute(Budget& budget) override;
  void report_rptr() override {}

 private:
  Mes& mes_;
};

}  // namespace gpu
