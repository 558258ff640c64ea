// SPDX-License-Identifier: GPL-2.0
// The server that a snapshot is made of.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "snapshot/manifest.h"
#include "snapshot/program.h"

namespace amdgpu_criu::snapshot {

// Starts a server in a pid namespace and an IPC namespace of its own, which replicas need, as
// leader of a session, with its output in the log.
Result<Child> start_server(const std::vector<std::string>& command, const std::string& log);

// What there is to know about a running one. Refuses what no snapshot can be made of.
Result<Server> examine_server(pid_t pid);

// Lets all processes of the tree continue, those that were forked since examine_server() included,
// and those of it whose parent has ended: `noted` is what examine_server() found.
void continue_tree(pid_t pid, const std::vector<pid_t>& noted);
// Kills the processes, and all their descendants, and waits until they are gone. A process of the
// tree whose parent has ended is found only if it is given.
void kill_tree(std::vector<Pidfd> processes);
// To be called while the numbers are theirs.
std::vector<Pidfd> open_all(const std::vector<pid_t>& pids);

}  // namespace amdgpu_criu::snapshot
