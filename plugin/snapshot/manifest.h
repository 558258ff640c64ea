// SPDX-License-Identifier: GPL-2.0
// What a snapshot is: the file manifest.json beside the images. It is written last, so a directory
// without it is no snapshot.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace amdgpu_criu::snapshot {

inline constexpr char kManifest[] = "manifest.json";
inline constexpr char kImages[] = "images";
inline constexpr unsigned kManifestVersion = 1;

struct File {
  std::string name;  // from the directory of the snapshot
  uint64_t size = 0;
  std::string digest;  // "blake3:..."
};

struct Gpu {
  std::string chip;     // "gfx90a"
  uint64_t target = 0;  // KFD's gfx_target_version
  uint64_t memory = 0;  // bytes of contents
};

struct Listener {
  std::string address;
  uint16_t port = 0;
};

struct Server {
  std::vector<std::string> command;
  pid_t pid = 0;            // in its own pid namespace
  std::vector<pid_t> pids;  // of the tree, in that of the machine
  bool own_pid_namespace = false;
  std::vector<Listener> listeners;
  unsigned connections = 0;
  // CRIU's names of what it writes its output to, which a replica replaces by a log of its own.
  std::vector<std::string> outputs;
};

struct Readiness {
  std::string command;
  unsigned port = 0;
  std::string line;
  double timeout = 600;  // seconds

  bool is_empty() const { return command.empty() && port == 0 && line.empty(); }
};

struct Manifest {
  std::string created;  // 2026-11-27T00:10:00Z
  std::string tool, criu, kernel;
  std::string stack_id;
  Server server;
  Readiness readiness;
  std::string tcp;                           // close or established
  std::vector<std::string> restore_options;  // what CRIU needs at a restore, too
  double ready_seconds = 0;                  // from the start of the server; 0: not measured
  double dump_seconds = 0;
  std::vector<Gpu> gpus;
  uint64_t vram = 0;  // bytes that /dev/kfd allocates for it, of all GPUs together
  std::vector<File> files;

  uint64_t bytes() const;
  uint64_t gpu_memory() const;
};

nlohmann::ordered_json json_of(const Manifest& manifest);
void print_as_json(const Manifest& manifest);
// Errors name the file. Refuses another version.
Result<Manifest> read_manifest(const std::string& directory);
Status write_manifest(const std::string& directory, const Manifest& manifest);

// Every file of the images, with its digest. A signal ends this between two blocks, if
// watch_for_signals() was called. Throws if a file cannot be examined.
Result<std::vector<File>> list_images(const std::string& directory);
// A signal ends it like that.
Result<std::string> digest_of(const std::string& path);
// "gfx90a" from 90010
std::string chip_name(uint64_t target);

}  // namespace amdgpu_criu::snapshot
