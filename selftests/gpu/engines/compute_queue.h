// SPDX-License-Identifier: GPL-2.0
// Queues of the command processor: rings of PM4 packets and rings of AQL packets.
#pragma once

#include <memory>

#include "engines/hqd.h"
#include "engines/pm4.h"
#include "engines/queue.h"

namespace gpu {

// Created from a descriptor's words; PM4 or AQL, as CP_HQD_AQL_CONTROL says.
amdgpu_criu::Result<std::unique_ptr<Queue>> make_compute_queue(Context& context,
                                                               const Queue::Spec& spec,
                                                               Pm4::Setup setup,
                                                               const HqdState& state);

class Pm4Queue : public PacketQueue {
 public:
  Pm4Queue(Context& context, const Spec& spec, Pm4::Setup setup, Stream::Ring ring,
           const HqdState& state);

  amdgpu_criu::Status start();
  void doorbell(uint64_t value, unsigned size) override;
  void save() override;
  void catch_up() override;
  bool has_waves() const override { return pm4_.launcher().has_waves() || pm4_.occupied(); }
  bool hangs() const override { return truncated_; }
  void preempt() override;

 protected:
  amdgpu_criu::Result<Step> execute(Budget& budget) override;
  void report_rptr() override;

 private:
  void set_wptr(uint64_t dwords);

  Pm4 pm4_;
  HqdState hqd_;
  bool preempting_ = false;
  bool truncated_ = false;  // it is inside of a packet whose end is missing
};

class AqlQueue : public Queue {
 public:
  AqlQueue(Context& context, const Spec& spec, Pm4::Setup setup, Stream::Ring ring,
           const HqdState& state);

  amdgpu_criu::Status start();
  bool run(Budget& budget) override;
  void doorbell(uint64_t value, unsigned size) override;
  void save() override;
  void catch_up() override;
  bool has_waves() const override { return pm4_.launcher().has_waves(); }
  bool hangs() const override { return truncated_; }
  void preempt() override;

 protected:
  uint64_t packet_address() const override;

 private:
  using Packet = std::array<uint32_t, aql::kPacketDwords>;

  uint64_t& read_index() { return stream_.place().ring_next; }
  uint64_t slots() const { return ring_.dwords / aql::kPacketDwords; }
  uint64_t slot_address() const;
  amdgpu_criu::Result<Step> step(Budget& budget);
  amdgpu_criu::Result<Step> run_buffer(Budget& budget);
  amdgpu_criu::Result<Step> next_packet(Budget& budget);
  amdgpu_criu::Result<Step> run_packet(const Packet& packet, Budget& budget);
  amdgpu_criu::Result<Step> dispatch(const Packet& packet, Budget& budget);
  amdgpu_criu::Result<Step> start_dispatch(const Packet& packet);
  amdgpu_criu::Result<Step> run_dispatch(const Packet& packet, Budget& budget);
  amdgpu_criu::Result<bool> scratch_is_for_once();
  amdgpu_criu::Result<bool> find_scratch(const Packet& packet);
  amdgpu_criu::Status set_shape(const Packet& packet);
  amdgpu_criu::Status set_user_data(const Packet& packet, uint32_t properties);
  ComputeRegisters& registers() { return pm4_.launcher().registers(); }
  amdgpu_criu::Result<Step> barrier(const Packet& packet, bool all);
  amdgpu_criu::Result<Step> vendor(const Packet& packet);
  amdgpu_criu::Result<Step> barrier_value(const Packet& packet);
  amdgpu_criu::Result<Step> complete(const Packet& packet);
  amdgpu_criu::Status signal(uint64_t handle, uint64_t start);
  amdgpu_criu::Error refuse(QueueException code, uint64_t error, std::string what);
  void signal_error(uint64_t error);
  uint64_t runtime_fields();

  Pm4 pm4_;
  HqdState hqd_;
  const Stream::Ring ring_;  // stream_ has only the indirect buffers
  bool preempting_ = false;
  bool truncated_ = false;  // it is inside of a PM4 packet whose end is missing
};

}  // namespace gpu
