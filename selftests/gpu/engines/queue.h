// SPDX-License-Identifier: GPL-2.0
// A mapped queue, which its thread runs in turn.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engines/context.h"
#include "engines/stream.h"

namespace gpu {

// A hardware queue descriptor's place: micro engine (0 graphics, 1 and 2 compute, 3 scheduler), its
// pipe, its queue.
struct HqdSlot {
  static constexpr unsigned kPipesPerMe = 4;
  static constexpr unsigned kQueuesPerPipe = 8;

  unsigned me = 1;
  unsigned pipe = 0;
  unsigned queue = 0;

  uint8_t ring_id() const { return static_cast<uint8_t>(pipe | me << 2 | queue << 4); }
  bool operator==(const HqdSlot&) const = default;
};

class Queue {
 public:
  enum class State : uint8_t {
    kIdle,      // until a doorbell
    kRunnable,  // has work
    kWaiting,   // for memory or a register to change
    kStopped,   // until it is unmapped
  };

  // How a queue was mapped, which determines what may unmap it.
  enum class Owner : uint8_t { kRegisters, kKiq, kRunList, kMes };

  struct Spec {
    std::string name = {};
    Owner owner = Owner::kKiq;
    uint32_t doorbell = 0;  // bytes into BAR 2
    unsigned vmid = 0;
    uint32_t pasid = 0;
    uint64_t mqd = 0;        // VMID 0 address; 0: none
    uint64_t wptr_poll = 0;  // address in the queue's VMID; 0: none
    bool is_static = false;
    unsigned gws = 0;                   // resources that it holds
    std::optional<HqdSlot> slot = {};   // of the command processor
    std::optional<unsigned> sdma = {};  // the engine
  };

  Queue(Context& context, Spec spec, Space space, Stream::Ring ring)
      : context_(context), spec_(std::move(spec)), stream_(context.memory, space, ring) {}
  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  const Spec& spec() const { return spec_; }
  State state() const { return state_; }
  bool has_turn() const { return state_ == State::kRunnable || state_ == State::kWaiting; }
  // Out of service: removed after the round. Its state is saved already or is discarded.
  bool retired() const { return retired_; }
  void retire() { retired_ = true; }

  // Works until the budget is spent or there is nothing to do. Returns true if it has done any
  // work.
  virtual bool run(Budget& budget) = 0;
  virtual void doorbell(uint64_t value, unsigned size) = 0;
  // Writes the state that a later mapping needs into the MQD.
  virtual void save() = 0;
  // True if waves run, which must be saved before the queue.
  virtual bool has_waves() const { return false; }
  // True inside of a packet whose end is missing: such a queue cannot be preempted, only reset.
  virtual bool hangs() const { return false; }
  // Starts no more packets, and saves the waves in flight.
  virtual void preempt() {}
  // Finds work that was queued while the queue was not mapped.
  virtual void catch_up() = 0;

 protected:
  // Stops the queue. The driver sees a queue that makes no progress, unless Memory has reported a
  // fault.
  void stop(const amdgpu_criu::Error& error);
  virtual uint64_t packet_address() const { return stream_.next_address(); }
  // After an error of a packet: it is repeated later, or the queue stops.
  void repeat_or_stop(const amdgpu_criu::Error& error);
  // True if the end of the packet is missing: so far in a ring, forever in an indirect buffer.
  static bool is_truncated(const amdgpu_criu::Result<Step>& step) {
    return step.ok() ? *step == Step::kStarved : step.error().code() == Stream::kTruncated;
  }
  // A write pointer, as 64 or as the low 32 bits.
  uint64_t widen(uint64_t value, unsigned size, uint64_t current) const;
  Space space() const { return stream_.ring_space(); }

  Context& context_;
  const Spec spec_;
  Stream stream_;
  State state_ = State::kIdle;

 private:
  bool retired_ = false;
};

// A queue that runs packets of its stream one after another: SDMA and PM4.
class PacketQueue : public Queue {
 public:
  using Queue::Queue;
  bool run(Budget& budget) override;

 protected:
  // Executes the next packet and advances the stream. EFAULT: the fault was reported to the guest.
  // EAGAIN: the guest will map the page.
  virtual amdgpu_criu::Result<Step> execute(Budget& budget) = 0;
  virtual void report_rptr() = 0;

  // The write pointer that was last found in memory, in units of doorbells. Lower doorbell values
  // are older.
  uint64_t polled_wptr_ = 0;
};

}  // namespace gpu
