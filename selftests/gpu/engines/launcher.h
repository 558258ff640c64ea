// SPDX-License-Identifier: GPL-2.0
// The dispatch of a compute queue: started from COMPUTE_* registers, suspended to the queue's MQD,
// control stack and save area, and resumed from there.
#pragma once

#include <memory>
#include <optional>

#include "engines/compute_registers.h"
#include "engines/context.h"
#include "shader/dispatch.h"

namespace gpu {

struct HqdState;

// COMPUTE_DISPATCH_INITIATOR, as gc_9_4_2_sh_mask.h names its bits.
namespace initiator {
constexpr uint32_t kShaderEnable = 1 << 0;
constexpr uint32_t kPartialGroups = 1 << 1;
constexpr uint32_t kForceStartAt000 = 1 << 2;
constexpr uint32_t kUseThreadDimensions = 1 << 5;
// In an MQD: the dispatch is not finished; COMPUTE_RESTART is its next group.
constexpr uint32_t kRestore = 1 << 14;
}  // namespace initiator

class Launcher {
 public:
  // The state of a VMID's waves that MAP_PROCESS sets.
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
  bool has_waves() const { return dispatch_ != nullptr; }
  // The reason why a wave cannot continue.
  const std::string& complaint() const { return complaint_; }
  std::vector<shader::WaveInterrupt> take_interrupts() { return std::exchange(interrupts_, {}); }

  // Saves the waves, or waits for their end if there is no trap handler to save them.
  void preempt();
  // Writes the words of an MQD, and the control stack behind it.
  amdgpu_criu::Status save(HqdState& state, uint64_t mqd);
  // Restores the waves of a queue that is mapped again, if any.
  amdgpu_criu::Status resume(const HqdState& state, Space space, uint64_t mqd,
                             uint32_t packet_index);

 private:
  shader::DispatchSpec spec();
  void set_units(shader::DispatchSpec& spec) const;

  Context& context_;
  const Process process_;
  const uint32_t doorbell_id_;
  ComputeRegisters registers_;
  shader::Gws gws_;
  shader::DispatchSpec::SaveArea save_area_;
  std::unique_ptr<shader::Dispatch> dispatch_;
  std::optional<shader::Suspended> suspended_;
  uint32_t packet_index_ = 0;
  std::vector<shader::WaveInterrupt> interrupts_;
  std::string complaint_;
};

}  // namespace gpu
