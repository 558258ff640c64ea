// SPDX-License-Identifier: GPL-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace e2e {

inline constexpr unsigned kHeldMax = 8;  // one for each XCC of an MI300X

struct Options {
  unsigned gpus = 1;
  unsigned processes = 1;
  uint64_t vram_mib = 4;     // visible to the CPU, per GPU
  uint64_t hidden_mib = 2;   // not visible to the CPU, per GPU
  uint64_t gtt_mib = 2;      // per GPU
  uint64_t userptr_mib = 2;  // per GPU
  unsigned small = 4;        // BOs of one page, per GPU
  unsigned many = 0;         // more BOs of one page, render nodes
  bool peer_vram = false;    // GPUs share VRAM
  bool vmid = false;         // reserve a VMID
  bool own_pages = false;    // map pages of /dev/kfd without BOs
  bool split = false;        // split every mapping of the GPU's memory
  unsigned count = 16;       // BOs of one size, per GPU
  uint64_t kib = 1024;       // their size
  uint64_t heap_mib = 0;     // ordinary memory
  uint64_t seed = 1;         // of random choices
  unsigned queues = 4;       // at most
  bool keep_render = false;  // do not close render nodes
  uint64_t operations = 60;  // chosen at random
  bool plain = false;        // the data is in ordinary memory
  unsigned held = 0;         // work-groups of a kernel that runs until a verdict is requested
  bool full = false;         // kernels fill the GPU
  uint64_t steps = 0;        // 0: until SIGTERM
  unsigned interval_ms = 2;  // pause between steps
  unsigned timeout_s = 120;  // for one step or one copy
};

struct Program {
  const char* name;
  const char* description;
  std::string_view settings;  // the options that it has
};

// Prints help or an error, and returns the exit code.
struct ParsedOptions {
  Options options;
  std::optional<int> exit_code;
};
ParsedOptions parse_options(const Program& program, int argc, char** argv);

}  // namespace e2e
