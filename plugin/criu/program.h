// SPDX-License-Identifier: GPL-2.0
// The criu program that has loaded the plugin. Only this folder uses its ABI.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "restore/shared_state.h"
#include "restore/target_gpus.h"

namespace amdgpu_criu::criu {

// CRIU 4.3 or later: it has more hooks and options, and checks errors of RESUME_DEVICES_LATE.
bool is_43();
Result<int> image_directory();
// This dump was started with --stream.
bool streams_images();
std::vector<std::string> plugin_options();
void send_log_to_criu();

// Makes the plugin mandatory at restore. To be called once: CRIU counts the calls, and after a
// second one a restore would look for a second plugin.
Status require_at_restore();
// Whether the images being restored ask for this plugin.
bool required_by_images();
// Whether they ask for CRIU's own amdgpu plugin. This removes the request, because our plugin
// restores its images.
bool foreign_required_by_images();

std::unique_ptr<restore::FdStore> make_fd_store();
// In CRIU's main process, between the forks of the tasks and the next stage of a restore.
restore::Tasks tasks();

// The numbers of all processes, threads, groups and sessions in CRIU's image of the process tree.
Result<std::set<uint32_t>> numbers_of_tasks(int image_directory);

}  // namespace amdgpu_criu::criu
