// SPDX-License-Identifier: GPL-2.0
// The criu program that has loaded us, in our terms. Only this folder knows its ABI.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "restore/shared_state.h"

namespace amdgpu_criu::criu {

// CRIU 4.3 or later: more hooks, options, and errors of RESUME_DEVICES_LATE are heeded.
bool is_43();
Result<int> image_directory();
// This dump was started with --stream.
bool streams_images();
std::vector<std::string> plugin_options();
void send_log_to_criu();

// Makes the plugin mandatory at restore. To be called once: CRIU counts every call, and a second
// one would make restore look for a second plugin.
Status require_at_restore();
// Whether the images being restored ask for this plugin.
bool required_by_images();
// Whether they ask for CRIU's own amdgpu plugin. It is not asked for any more then: its images are
// for us to restore.
bool foreign_required_by_images();

std::unique_ptr<restore::FdStore> make_fd_store();

// The highest number of a process, thread, group or session in CRIU's image of the process tree.
Result<uint32_t> highest_pid(int image_directory);
// The next processes and threads of this pid namespace get higher numbers than `pid`, if the kernel
// allows that: no number that CRIU gives to a task is in use by a helper of ours.
void number_processes_from(uint32_t pid);

}  // namespace amdgpu_criu::criu
