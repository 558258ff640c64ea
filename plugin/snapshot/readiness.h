// SPDX-License-Identifier: GPL-2.0
// Waits until a server is ready: a command succeeds, a TCP port accepts, or its log has a line.
#pragma once

#include <optional>
#include <string>

#include "snapshot/program.h"
#include "snapshot/snapshot.h"

namespace amdgpu_criu::snapshot {

// Where to look for signs of a server.
struct Probe {
  pid_t pid;            // port and command are tried in its network namespace
  std::string log;      // of the line; empty: its output is not known
  Variables variables;  // for the command
};

// Fails if the server ends, or is not ready in time.
Status wait_until_ready(const Readiness& readiness, const Probe& probe);

// What the options ask for, else what create has waited for. The timeout is chosen separately.
Readiness readiness_of_replica(const Manifest& manifest, const RestoreOptions& options);

// Before a server is started: the port of another one would look ready.
Status refuse_open_port(const Readiness& readiness);

// For a function of Child::start(): in the network namespace of that process.
Status enter_network_of(pid_t pid);

}  // namespace amdgpu_criu::snapshot
