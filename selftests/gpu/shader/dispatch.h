// SPDX-License-Identifier: GPL-2.0
// One dispatch: its work-groups are launched in order, and the waves in flight take turns.
#pragma once

#include <memory>

#include "shader/cores.h"

namespace gpu::shader {

// What COMPUTE_* registers hold when a dispatch starts, whoever filled them.
struct DispatchSpec {
  uint64_t code = 0;
  uint32_t rsrc1 = 0, rsrc2 = 0, rsrc3 = 0;
  std::array<uint32_t, 16> user_data = {};
  std::array<uint32_t, 3> grid = {1, 1, 1};        // work-items
  std::array<uint32_t, 3> group_size = {1, 1, 1};  // work-items
  std::array<uint32_t, 3> first_group = {0, 0, 0};
  uint32_t lds_bytes = 0;
  uint64_t scratch_wave_bytes = 0;
  uint32_t scratch_waves = 0;
  Apertures apertures;
};

class Dispatch {
 public:
  enum class State { kRunning, kDone, kIllegal, kFault };

  // EINVAL: hardware would not start it.
  static amdgpu_criu::Result<std::unique_ptr<Dispatch>> create(Cores& cores, Memory& memory,
                                                               Space space,
                                                               const DispatchSpec& spec);
  ~Dispatch();

  // Executes about that many instructions. Not kRunning: it ended, or a wave cannot go on.
  State run(unsigned instructions);

  size_t waves_in_flight() const { return waves_.size(); }
  // Why a wave cannot go on, and where.
  const std::string& complaint() const { return complaint_; }

 private:
  struct Resident;

  Dispatch(Cores& cores, Memory& memory, Space space, const DispatchSpec& spec);

  bool groups_left() const { return next_group_ < group_count_; }
  unsigned waves_per_group() const;
  std::array<uint32_t, 3> group_id(uint64_t index) const;
  bool launch_group();
  void start_wave(Wave& wave, WorkGroup& group, unsigned index, unsigned slot);
  void set_scalars(Wave& wave, const WorkGroup& group, unsigned index) const;
  void set_vectors(Wave& wave, const WorkGroup& group, unsigned index) const;
  void release_barrier(WorkGroup& group);
  State stopped(const Wave& wave);

  Cores& cores_;
  MemoryView view_;
  const DispatchSpec spec_;
  std::array<uint64_t, 3> groups_ = {};
  uint64_t group_count_ = 0;
  uint64_t next_group_ = 0;
  std::vector<std::unique_ptr<Resident>> waves_;
  std::vector<std::unique_ptr<Wave>> spare_;
  std::vector<bool> slots_;  // of scratch
  size_t turn_ = 0;
  std::string complaint_;
};

}  // namespace gpu::shader
