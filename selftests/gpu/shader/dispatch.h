// SPDX-License-Identifier: GPL-2.0
// One dispatch: launches its work-groups in order, and runs the waves in flight in turns. It does
// SPI's part of a preemption; the waves save and restore themselves by the driver's trap handler.
#pragma once

#include <memory>
#include <utility>

#include "shader/cores.h"
#include "shader/relaunch.h"
#include "shader/units.h"

namespace gpu::shader {

// The largest LDS of a work-group, and the unit of LDS in COMPUTE_PGM_RSRC2, in bytes.
inline constexpr uint32_t kMaxLds = Units::kLds;
inline constexpr uint32_t kLdsGranule = 512;

// The COMPUTE_* registers at the start of a dispatch, from any source.
struct DispatchSpec {
  // The save area of waves: records from base on, and a control stack. Without bytes there is none.
  struct SaveArea {
    uint64_t base = 0, bytes = 0;
    size_t stack_words = 0;
  };

  uint64_t code = 0;
  uint32_t rsrc1 = 0, rsrc2 = 0, rsrc3 = 0;
  std::array<uint32_t, 16> user_data = {};
  std::array<uint32_t, 3> grid = {1, 1, 1};        // work-items
  std::array<uint32_t, 3> group_size = {1, 1, 1};  // work-items
  std::array<uint32_t, 3> first_group = {0, 0, 0};
  uint32_t lds_bytes = 0;
  uint64_t scratch_base = 0;  // for SPI, where it is architected
  uint64_t scratch_wave_bytes = 0;
  uint32_t scratch_waves = 0;
  unsigned engines = 1;  // shader engines, each of which has its share of the scratch
  Apertures apertures;
  TrapHandler trap;
  SaveArea save_area;
  Gws* gws = nullptr;                                  // of the queue; null: it has none
  std::vector<UnitId> units = std::vector<UnitId>(8);  // the enabled compute units
  unsigned max_waves = 8 * Units::kWaves;  // of all units, also those that are not enabled
  uint32_t packet_index = 0;
  uint32_t doorbell_id = 0;
  unsigned xcc = 0;         // of the chip
  unsigned lanes = kLanes;  // of a wave: on gfx11 also 32
  // Each of several XCCs launches one work-group in turn.
  unsigned share = 0, shares = 1;

  unsigned waves_per_group() const {
    return (group_size[0] * group_size[1] * group_size[2] + lanes - 1) / lanes;
  }
  WaveShape shape(Isa isa) const;
};

// The result of a preemption: saved waves, and the group that would have been launched next.
struct Suspended {
  std::vector<uint32_t> stack;  // upward from its fill level; empty: no waves
  uint64_t bytes = 0;           // of records
  std::array<uint32_t, 3> restart = {};
  bool incomplete = false;  // some of the waves had not been relaunched
};

// s_sendmsg MSG_INTERRUPT.
struct WaveInterrupt {
  uint32_t data = 0;  // M0
  bool privileged = false;
};

class Dispatch {
 public:
  enum class State { kRunning, kHalted, kDone, kSuspended, kIllegal, kFault };

  // cores and memory outlive it. EINVAL: hardware would not start it.
  static amdgpu_criu::Result<std::unique_ptr<Dispatch>> create(Cores& cores, Memory& memory,
                                                               Space space,
                                                               const DispatchSpec& spec);
  // Resumes a dispatch. Also EINVAL if the waves are not as SPI left them.
  static amdgpu_criu::Result<std::unique_ptr<Dispatch>> resume(Cores& cores, Memory& memory,
                                                               Space space,
                                                               const DispatchSpec& spec,
                                                               const Suspended& suspended);
  ~Dispatch();

  // Executes about that many instructions. kHalted: no wave can go on before they are saved. Others
  // but kRunning: it ended, or a wave stopped it.
  State run(unsigned instructions);

  bool can_suspend() const { return spec_.trap.tba && spec_.save_area.bytes; }
  // Raises the save trap in all waves, and launches no more. run() ends with kSuspended, or with
  // kDone if nothing is left.
  void suspend();
  const Suspended& suspended() const { return suspended_; }
  // The place of a dispatch that is complete.
  std::array<uint32_t, 3> end_of_grid() const { return group_id(group_count_); }

  size_t waves_in_flight() const { return waves_.size(); }
  // The reason why a wave cannot continue, and the place.
  const std::string& complaint() const { return complaint_; }
  std::vector<WaveInterrupt> take_interrupts() { return std::exchange(interrupts_, {}); }

 private:
  struct Resident;
  // A work-group whose waves are still in the control stack.
  struct Saved {
    std::vector<RelaunchWave> waves;  // from the first to the last
    uint64_t end = 0;                 // of their records
  };

  Dispatch(Cores& cores, Memory& memory, Space space, const DispatchSpec& spec);

  bool groups_left() const { return next_group_ < group_count_; }
  uint64_t group_bytes() const;
  std::array<uint32_t, 3> group_id(uint64_t index) const;
  amdgpu_criu::Status continue_at(const std::array<uint32_t, 3>& group);
  amdgpu_criu::Status relaunch(const Suspended& suspended);
  bool relaunch_group();
  bool launch_group();
  Resident& add_wave(std::shared_ptr<WorkGroup> group, unsigned slot);
  bool has_scratch() const { return spec_.rsrc2 & 1; }
  unsigned slots_of_engine() const;
  unsigned take_slot(unsigned engine) const;
  uint32_t engines_with_slots(unsigned count) const;
  void start_wave(Wave& wave, WorkGroup& group, unsigned index) const;
  void set_scalars(Wave& wave, const WorkGroup& group, unsigned index) const;
  void set_place(Wave& wave, const WorkGroup& group, unsigned index) const;
  void set_vectors(Wave& wave, const WorkGroup& group, unsigned index) const;
  void release_barrier(WorkGroup& group);
  void leave_barrier(Resident& resident);
  static bool waits_for(const Resident& resident, GwsRequest::Kind kind, unsigned resource);
  void serve_semaphore(unsigned resource);
  bool take_gws(Resident& resident);
  void leave_gws(Resident& resident);
  bool can_run(Resident& resident);
  static unsigned begin_turn(Resident& resident);
  bool awaits_page(const Wave& wave) const { return wave.stop == Stop::kFault && view_.is_retry(); }
  State await_page(Resident& resident);
  State after(Resident& resident);
  void remove(Resident& resident);
  State without_waves();
  bool take_message(Resident& resident);
  bool save_wave(Wave& wave);
  RelaunchWave relaunch_word(const Resident& resident) const;
  void hand_out_records();
  State stopped(Wave& wave);
  void describe(const Wave& wave);

  Cores& cores_;
  MemoryView view_;
  const unsigned vmid_;
  const DispatchSpec spec_;
  const WaveShape shape_;
  std::array<uint64_t, 3> groups_ = {};
  uint64_t group_count_ = 0;
  uint64_t next_group_ = 0;
  std::vector<std::unique_ptr<Resident>> waves_;  // those of a group are contiguous
  std::vector<bool> slots_;                       // of scratch, of one engine after the other
  Units units_;
  uint64_t record_bytes_ = 0;  // of the waves in flight, and of those that are still saved
  std::vector<Saved> saved_;   // the next one to relaunch is the last
  unsigned relaunches_ = 0;    // in the last turn
  size_t turn_ = 0;
  unsigned rest_of_turn_ = 0;  // that the last budget has cut off
  bool suspending_ = false;
  size_t asking_ = 0;  // waves that wait for their record
  Suspended suspended_;
  std::vector<WaveInterrupt> interrupts_;
  std::string complaint_;
};

}  // namespace gpu::shader
