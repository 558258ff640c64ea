// SPDX-License-Identifier: GPL-2.0
// Options of one CRIU run: lines "name = value" of a file, overridden by AMDGPU_CRIU_NAME in the
// environment, overridden by what CRIU 4.3 passes as "--amdgpu.name=value".
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/engine.h"
#include "pipeline/codec.h"
#include "pipeline/io_queue.h"
#include "topology/planner.h"

namespace amdgpu_criu::options {

struct Options {
  std::vector<topology::Wish> map;
  topology::Ignored ignore;
  gpu::StagingSize staging;
  // BOs that others have as well may come back as BOs of their own.
  bool cut_sharing = false;
  // Contents are filled while the tasks go on with their restore, where CRIU allows it.
  bool parallel = true;
  uint32_t chunk_bytes = 256u << 10;
  pipeline::Compression compression;
  bool incremental = false;  // a later dump will refer to this one
  pipeline::IoKind io = pipeline::IoKind::kUring;
  unsigned timeout = 0;  // of the GPU part of a dump, in seconds; 0: none
  bool direct = true;
  // As text, by name.
  std::map<std::string, std::string> given;
  // For tests that must see the damage: restore leaves BOs unfilled.
  bool test_skip_contents = false;
  // For tests: what goes wrong; empty: nothing.
  std::string test_fail;
  // For tests, not 0: every file waits for a moment, which differs with this number.
  unsigned test_restore_delay = 0;
};

// For container engines, which pass no options to CRIU. It need not exist.
inline constexpr char kFile[] = "/etc/amdgpu-criu.conf";

// arguments: as CRIU passes them, with those of other plugins.
Result<Options> parse(std::span<const std::string> arguments, const std::string& file = kFile);

// "name=value" of each option that was set, by the last place that set it; empty: all are defaults.
std::string describe(const Options& options);

}  // namespace amdgpu_criu::options
