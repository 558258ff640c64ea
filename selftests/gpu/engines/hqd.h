// SPDX-License-Identifier: GPL-2.0
// Hardware queue descriptors: the banked registers CP_MQD_BASE_ADDR..CP_HQD_PQ_WPTR_HI.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "asic/asic.h"
#include "core/interfaces.h"
#include "engines/compute_registers.h"
#include "engines/mqd.h"
#include "engines/mqd_kept.h"
#include "engines/queue.h"
#include "shader/gws.h"

namespace gpu {

// The words of one descriptor, addressed as in an MQD.
struct HqdState {
  std::array<uint32_t, mqd::kHqdWords> words = {};
  SavedPlace place;
  shader::Gws::Words gws = {};
  bool has_place = false;
  // What the XCCs of a partition do not have in common. Each has an MQD, stride bytes apart.
  struct Xcc {
    ComputeRegisters compute;
    uint64_t save_area = 0;
    uint32_t stack_offset = 0, wave_offset = 0;
    uint32_t persistent = 0;  // CP_HQD_PERSISTENT_STATE
    uint32_t logic_id = 0;    // its turn in the work-groups of an AQL packet; alone it is 0
  };
  std::vector<Xcc> xccs = std::vector<Xcc>(1);
  uint32_t stride = 0;
  uint32_t logic_xcc = 0;   // means something else on a chip with one XCC
  uint32_t target_xcc = 0;  // that runs the packets of a PM4 queue
  ComputeMqdLayout layout = kComputeMqd9;
  bool is_user = false;                  // its MQDs get the bits of KeptBits
  bool is_older = false;                 // its image is from before there were such bits
  std::optional<std::string> lost = {};  // of these, found by load()

  uint32_t& at(unsigned index) { return words[index - mqd::kHqdFirst]; }
  uint32_t at(unsigned index) const { return words[index - mqd::kHqdFirst]; }
  uint64_t pair(unsigned index) const { return join(at(index), at(index + 1)); }
  void set_pair(unsigned index, uint64_t value) {
    at(index) = low32(value);
    at(index + 1) = high32(value);
  }

  // The place of a queue that continues there; the units are those of the ring.
  SavedPlace place_at(uint64_t ring_next) const;
  // The ring that CP_HQD_PQ_CONTROL describes; EINVAL if no ring is that long.
  amdgpu_criu::Result<Stream::Ring> ring() const;

  static amdgpu_criu::Result<HqdState> load(Memory& memory, uint64_t mqd,
                                            const ComputeMqdLayout& layout);
  // For a ring of the graphics pipe, whose MQD has the write pointer elsewhere.
  static amdgpu_criu::Result<HqdState> load_graphics(Memory& memory, uint64_t mqd,
                                                     const ComputeMqdLayout& layout);
  // Loads the MQDs of all XCCs, which must describe one queue. Returns a difference; empty: none.
  amdgpu_criu::Result<std::string> load_xccs(Memory& memory, uint64_t mqd, unsigned count);
  // Writes the state that preemption saves into all MQDs: pointers, place, fill levels, COMPUTE_*,
  // inactive; and the bits of KeptBits if it is a process's.
  amdgpu_criu::Status save(Memory& memory, uint64_t mqd) const;

 private:
  using Mqd = std::array<uint32_t, mqd::kDwords>;

  KeptBits kept() const;
  void load_place(const Mqd& all);
  void save_place(Mqd& all) const;
  std::string difference(const HqdState& other, unsigned xcc) const;
  amdgpu_criu::Status save_one(Memory& memory, uint64_t mqd, const Xcc& xcc) const;
};

std::string queue_name(std::string_view kind, HqdSlot slot);

// Any thread. GRBM_GFX_CNTL selects the descriptor that is accessed.
class HqdBank : public RegisterBlock {
 public:
  // Events of a descriptor, raised without the bank's lock.
  struct Events {
    std::function<void(HqdSlot)> activate;  // ACTIVE was set
    std::function<void(HqdSlot)> dequeue;   // DEQUEUE_REQUEST, or ACTIVE was cleared
  };

  HqdBank(Registers& registers, const CpRegisters& at, Events events)
      : registers_(registers), at_(at), events_(std::move(events)) {}

  uint32_t first() const { return at_.hqd; }
  uint32_t last() const { return at_.hqd + mqd::kHqdWords - 1; }

  std::string_view name() const override { return "CP_HQD"; }
  uint32_t read(uint32_t dword) override;
  void write(uint32_t dword, uint32_t value) override;

  HqdState state(HqdSlot slot) const;
  void show(HqdSlot slot, const HqdState& state);
  void deactivate(HqdSlot slot);
  HqdSlot selected() const;
  void reset();

 private:
  static constexpr size_t kSlots = size_t{4} * 4 * 8;
  static size_t index(HqdSlot slot) { return slot.me << 5 | slot.pipe << 3 | slot.queue; }

  Registers& registers_;
  const CpRegisters at_;
  const Events events_;
  mutable std::mutex mutex_;
  std::array<std::array<uint32_t, mqd::kHqdWords>, kSlots> slots_ = {};
};

}  // namespace gpu
