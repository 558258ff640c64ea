// SPDX-License-Identifier: GPL-2.0
// The dispatch of a compute queue: started from COMPUTE_* registers, suspended to the queue's MQDs,
// control stacks and save areas, and resumed from there. Of an AQL queue, each XCC of the partition
// has a share of the work-groups, and all of these for its waves.
#pragma once

#include <memory>
#include <vector>

#include "engines/compute_registers.h"
#include "engines/context.h"
#include "shader/dispatch.h"

namespace gpu {

struct HqdState;

// COMPUTE_DISPATCH_INITIATOR, as gc_9_4_2_sh_mask.h and gc_11_0_0_sh_mask.h name its bits.
namespace initiator {
constexpr uint32_t kShaderEnable = 1 << 0;
constexpr uint32_t kPartialGroups = 1 << 1;
constexpr uint32_t kForceStartAt000 = 1 << 2;
constexpr uint32_t kUseThreadDimensions = 1 << 5;
constexpr uint32_t kWave32 = 1 << 15;  // gfx11
}  // namespace initiator

class Launcher {
 public:
  // The state of a VMID's waves that MAP_PROCESS or MES sets.
  struct Process {
    shader::Apertures apertures;
    shader::TrapHandler trap;
    unsigned gws = 0;  // resources, of the one queue that has them
  };
  using State = shader::Dispatch::State;

  Launcher(Context& context, const Process& process, const ComputeRegisters& registers,
           uint32_t doorbell_id);

  ComputeRegisters& registers() { return registers_; }

  // Starts the dispatch of the registers. EINVAL: hardware would not start it.
  amdgpu_criu::Status start(Space space, uint32_t packet_index = 0);
  // Runs the waves for one turn. Waves remain only if it returns kRunning.
  State run(Budget& budget);
  bool has_waves() const;
  // The reason why a wave cannot continue.
  const std::string& complaint() const { return complaint_; }
  std::vector<shader::WaveInterrupt> take_interrupts() { return std::exchange(interrupts_, {}); }

  // Where SPI gives the waves of the next dispatch their scratch. Each XCC has as much of it as
  // COMPUTE_TMPRING_SIZE says, one behind the other.
  void set_scratch(uint64_t base);

  // Saves the waves, or waits for their end if there is no trap handler to save them.
  void preempt();
  // Writes the words of the MQDs, and the control stacks.
  amdgpu_criu::Status save(HqdState& state, Space space, uint64_t mqd);
  // Restores the waves of a queue that is mapped again, if any.
  amdgpu_criu::Status resume(const HqdState& state, Space space, uint64_t mqd,
                             uint32_t packet_index);

 private:
  struct Share {
    unsigned xcc = 0;  // of the partition, and of the MQDs
    uint32_t turn = 0;
    ComputeRegisters registers;
    shader::DispatchSpec::SaveArea save_area;
    std::unique_ptr<shader::Dispatch> dispatch;
    shader::Suspended left = {};  // when its dispatch has ended or was suspended
    bool suspended = false;
  };

  Memory& memory_of(const Share& share) const;
  shader::DispatchSpec spec(const Share& share);
  void set_units(shader::DispatchSpec& spec, const Share& share) const;
  void set_shares(const HqdState& state);
  amdgpu_criu::Status start_share(Share& share, Space space, bool scratch_per_xcc);
  amdgpu_criu::Status resume_share(Share& share, const HqdState& state, Space space, uint64_t mqd,
                                   bool relaunches);
  amdgpu_criu::Status save_share(const Share& share, HqdState& state, Space space, uint64_t mqd);
  State run(Share& share);
  State end_all(State state);

  Context& context_;
  const Process process_;
  const uint32_t doorbell_id_;
  ComputeRegisters registers_;
  shader::Gws gws_;
  std::vector<Share> shares_ = std::vector<Share>(1);
  bool scratch_per_xcc_ = false;  // of the next dispatch
  uint32_t packet_index_ = 0;
  std::vector<shader::WaveInterrupt> interrupts_;
  std::string complaint_;
};

}  // namespace gpu
