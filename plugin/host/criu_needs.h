// SPDX-License-Identifier: GPL-2.0
// What processes have that CRIU dumps only with an option on its command line.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace amdgpu_criu::host {

// CRIU's default of --ghost-limit.
inline constexpr uint64_t kGhostLimit = 1 << 20;

struct CriuNeed {
  std::string option;  // "--ghost-limit"
  std::string value;   // "2097152", or empty
  std::string reason;  // "process 12 (job) has the deleted file ..."

  // "REASON; use criu dump OPTION"
  std::string describe() const;
};

// What one process has: each option once. Descriptors and mappings that cannot be read count as
// none.
std::vector<CriuNeed> criu_needs_of(pid_t pid);
// What the tree has, its root first: each option once, with the largest value.
std::vector<CriuNeed> criu_needs_of_tree(std::span<const pid_t> pids);
// "" unless a restore in the network namespace of the processes must wait for ports.
std::string note_on_ports(std::span<const pid_t> pids);
// True if CRIU's command line, as in /proc/PID/cmdline, does not show its options: another program,
// such as a container runtime, sends them.
bool has_no_options(std::string_view command_line);
// True if it has what is needed; of a value, at least as much.
bool is_met(const CriuNeed& need, std::string_view command_line);

}  // namespace amdgpu_criu::host
