// SPDX-License-Identifier: GPL-2.0
// Options of one CRIU run: lines "name = value" of a file, overridden by those of a file for one
// restore, overridden by AMDGPU_CRIU_NAME in the environment, overridden by "--amdgpu.name=value",
// which CRIU 4.3 passes.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/key.h"
#include "base/result.h"
#include "gpu/engine.h"
#include "pipeline/codec.h"
#include "pipeline/io_queue.h"
#include "topology/planner.h"

namespace amdgpu_criu::options {

struct Options {
  std::vector<topology::Wish> map;
  topology::Ignored ignore;
  gpu::StagingSize staging{.most_slots = gpu::kMaxSlots};
  // BOs shared with other processes may be restored as separate ones.
  bool cut_sharing = false;
  // The images are restored several times: on the GPUs with the largest part of their memory free,
  // and through the page cache.
  bool replicas = false;
  // Contents are filled while the tasks are restored, if CRIU allows it.
  bool parallel = true;
  uint32_t chunk_bytes = 256u << 10;
  pipeline::Compression compression;
  bool incremental = false;  // a later dump will refer to this one
  bool gpu_hashes = true;    // by a compute kernel, if there is one for the GPU
  pipeline::IoKind io = pipeline::IoKind::kUring;
  unsigned timeout = 0;  // of a restore or the GPU part of a dump, in seconds; 0: none
  int status_fd = -1;    // for lines of JSON; -1: none
  bool direct = true;
  std::string key_file;  // of encrypted images; empty: none
  Key key;               // its content
  // As text, by name.
  std::map<std::string, std::string> given;
  // For tests: the fault to inject; empty: none.
  std::string test_fail;
  // For tests: if not 0, the seed of random delays before the restore of each file.
  unsigned test_restore_delay = 0;
};

// For container engines, which pass no options to CRIU. It need not exist.
inline constexpr char kFile[] = "/etc/amdgpu-criu.conf";

// arguments: as CRIU passes them, including those of other plugins. restore_file: empty, or a file
// that exists.
Result<Options> parse(std::span<const std::string> arguments, const std::string& file = kFile,
                      const std::string& restore_file = {});

// An option, for people; those for tests are not among all_options().
struct Option {
  const char* name;
  const char* values;
  const char* preset;  // the value if it is not set; empty: none
  const char* help;
};
std::vector<Option> all_options();

// "name=value" of each option that has a value, set or not.
std::string describe(const Options& options);

}  // namespace amdgpu_criu::options
