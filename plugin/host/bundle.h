// SPDX-License-Identifier: GPL-2.0
// The container that CRIU restores for an engine, such as runc or crun. The engine does not pass
// its configuration to CRIU, but works in the directory of the bundle, which has it.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace amdgpu_criu::host {

// Empty unless it is a regular file: reading a FIFO or a device might have no end.
std::string contents_of_file(const std::string& path);

// Path of the configuration; empty: CRIU was not called by an engine.
std::string path_of_container_config();

// The ID of the container, the last word of the engine's command line; empty: unknown.
std::string id_of_container();
// The same of a command line as in /proc/PID/cmdline.
std::string restored_container(std::string_view command);

// The minors of the device nodes with that major number that the configuration lists. Devices of
// CDI are among them: engines add them before they restore.
std::set<unsigned> listed_minors(std::string_view config, unsigned major);

}  // namespace amdgpu_criu::host
