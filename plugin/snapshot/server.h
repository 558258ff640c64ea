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

// Lets these processes continue, and their descendants: those that were forked since
// examine_server() included. A process whose parent has ended is found only if it is given.
void continue_tree(const std::vector<Pidfd>& noted);
// Kills the processes, and all their descendants, and waits until they are gone. A process of the
// tree whose parent has ended is found only if it is given.
void kill_tree(std::vector<Pidfd> processes);
// Fails if this command may not open processes, so that it could not end them.
Status need_pidfds();
// To be called while the numbers are theirs. Leaves out those that have ended.
Result<std::vector<Pidfd>> open_all(const std::vector<pid_t>& pids);

}  // namespace amdgpu_criu::snapshot
