// SPDX-License-Identifier: GPL-2.0
// Files of statistics in CRIU's working directory, where CRIU writes its own.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>

namespace amdgpu_criu {

inline constexpr char kDumpStatistics[] = "amdgpu-stats-dump.json";
inline constexpr char kRestoreStatistics[] = "amdgpu-stats-restore.json";

// A failure is a warning in the log.
void write_statistics(const char* file,
                      std::initializer_list<std::pair<const char*, uint64_t>> members);
// To be called before a new operation begins.
void remove_statistics(const char* file);

}  // namespace amdgpu_criu
