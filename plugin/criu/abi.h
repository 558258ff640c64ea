// SPDX-License-Identifier: GPL-2.0
// CRIU's plugin ABI, as in criu-plugin.h of CRIU 4.1.1, 4.2.1 and 4.3: a plugin exports one
// descriptor named CR_PLUGIN_DESC with name, init, exit, version, the number of hooks and a table
// of hook functions by number. CRIU refuses a descriptor whose version or number of hooks is above
// its own, and then the whole dump fails. The plugin therefore uses the values of 4.1, the oldest
// supported version, unless CRIU is known to be 4.3 or later.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>

namespace amdgpu_criu::criu {

enum Hook : unsigned {
  kDumpUnixSk = 0,
  kRestoreUnixSk = 1,
  kDumpExtFile = 2,
  kRestoreExtFile = 3,
  kDumpExtMount = 4,
  kRestoreExtMount = 5,
  kDumpExtLink = 6,
  kHandleDeviceVma = 7,
  kUpdateVmaMap = 8,
  kResumeDevicesLate = 9,
  kPauseDevices = 10,
  kCheckpointDevices = 11,
  kPostForking = 12,
  kRestoreInit = 13,
  kDumpDevicesLate = 14,
  kUpdateInetSk = 15,
  kDumpFinish = 16,
  kHookCount = 17,
};

enum Stage : int { kStageDump = 0, kStagePreDump = 1, kStageRestore = 2 };

constexpr unsigned version(unsigned major, unsigned minor, unsigned sublevel) {
  return (major << 16) + (minor << 8) + sublevel;
}
inline constexpr unsigned kVersion41 = version(0, 2, 0);
inline constexpr unsigned kHookCount41 = 12;
// CRIU 4.2 has POST_FORKING, too, with the version of 4.1.
inline constexpr unsigned kHookCount42 = 13;
inline constexpr unsigned kVersion43 = version(0, 3, 0);
inline constexpr unsigned kHookCount43 = kHookCount;

struct Descriptor {
  const char* name;
  int (*init)(int stage);
  void (*exit)(int stage, int result);
  unsigned version;
  unsigned max_hooks;
  void* hooks[kHookCount];
};
static_assert(offsetof(Descriptor, hooks) == 32);

// The signatures of the hooks in use.
using DumpExtFile = int(int fd, int id);
// Only 4.3 passes `retry`, and does not initialise it. With earlier versions it is undefined.
using RestoreExtFile = int(int id, bool* retry);
using HandleDeviceVma = int(int fd, const struct stat* status);
using UpdateVmaMap = int(const char* path, uint64_t address, uint64_t old_offset,
                         uint64_t* new_offset, int* fd);
using ResumeDevicesLate = int(int pid);
using CheckpointDevices = int(int pid);
using PostForking = int();
using DumpDevicesLate = int(int pid);
using DumpFinish = int(int result);

// The beginning of CRIU's shared counters of a restore, the same in 4.1.1, 4.2.1 and 4.3.
struct TaskEntries {
  int threads, tasks, helpers;
  // Of the current stage: tasks and threads that are busy; negative: one has failed.
  int in_progress;
};

}  // namespace amdgpu_criu::criu

extern "C" {
// Exported by the criu program. Weak, so that the plugin loads if one is missing.
[[gnu::weak]] int criu_get_image_dir(void);
[[gnu::weak]] int criu_plugin_get_options(int* argc, char*** argv);  // 4.3
[[gnu::weak]] void print_on_level(unsigned level, const char* format, ...)
    __attribute__((format(printf, 2, 3)));
[[gnu::weak]] int add_inventory_plugin(const char* name);
// 4.3 takes the name alone and ignores the second argument.
[[gnu::weak]] bool check_and_remove_inventory_plugin(const char* name, size_t length);
[[gnu::weak]] int fdstore_add(int fd);
[[gnu::weak]] int fdstore_get(int id);
[[gnu::weak]] extern amdgpu_criu::criu::TaskEntries* task_entries;
}
