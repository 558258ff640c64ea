// SPDX-License-Identifier: GPL-2.0
// Settings of one CRIU run: the environment's AMDGPU_CRIU_NAME, overridden by what CRIU 4.3 hands
// over as "--amdgpu.name=value".
#pragma once

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
  bool direct = true;
  // For tests that must see the damage: restore leaves BOs unfilled.
  bool test_skip_contents = false;
  // For tests: what goes wrong; empty: nothing.
  std::string test_fail;
  // For tests, not 0: every file waits for a moment, which differs with this number.
  unsigned test_restore_delay = 0;
};

// arguments: as CRIU gives them, those of other plugins included.
Result<Options> parse(std::span<const std::string> arguments);

}  // namespace amdgpu_criu::options
