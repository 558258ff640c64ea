// SPDX-License-Identifier: GPL-2.0
// What cannot be is refused before anything is created.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "snapshot/manifest.h"
#include "snapshot/snapshot.h"

namespace amdgpu_criu::snapshot {

// This user, this CRIU and its plugin.
Status refuse_criu(const CriuOptions& options);
// "4.2"; empty: there is none.
std::string version_of(const CriuOptions& options);
// The last line of CRIU's log that has an error, before the one that says that all has failed.
std::string last_error(const std::string& log);

struct MachineGpu {
  uint64_t target;
  uint64_t vram;  // bytes
};

// What a restore would find.
struct Place {
  std::vector<MachineGpu> gpus;
  std::set<uint16_t> ports;  // that are in use
  std::set<pid_t> pids;      // of the snapshot that are in use
};
Result<Place> examine_place(const Manifest& manifest);

Status refuse_restore(const Manifest& manifest, const RestoreOptions& options, const Place& place);

enum class Check { kSizes, kAll };
// kSizes: compares the sizes of all files, and the digests of those that neither CRIU nor the
// plugin checks and that are small. kAll: every digest. Names each file that is missing or changed.
Result<std::vector<std::string>> damage_of(const std::string& directory, const Manifest& manifest,
                                           Check check);

}  // namespace amdgpu_criu::snapshot
