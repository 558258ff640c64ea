// SPDX-License-Identifier: GPL-2.0
// `amdgpu-criu snapshot`: a server becomes a directory, from which replicas of it start. Each
// function returns the exit status of the program: 0 success, 1 refused or failed, 2 an error of
// usage.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "snapshot/manifest.h"
#include "tool/commands.h"

namespace amdgpu_criu::snapshot {

// How criu is called.
struct CriuOptions {
  std::string program = "criu";
  std::string libdir;                   // empty: criu's own
  std::vector<std::string> words;       // added to the command line
  std::vector<std::string> leave_outs;  // options that are not to be added
};

struct CreateOptions {
  std::string directory;
  pid_t pid = 0;  // of a server that runs; 0: `command` is started
  std::vector<std::string> command;
  Readiness readiness;
  std::string before, after;  // hooks
  std::string tcp = "close";  // or "established"
  bool leave_running = false;
  bool dry_run = false;
  CriuOptions criu;
};
int create(const CreateOptions& options, tool::Format format);

enum class Network { kHost, kNone, kVeth };

struct RestoreOptions {
  std::string directory;
  unsigned replicas = 1;
  Network network = Network::kHost;
  std::string subnet = "10.213.0.0";  // each replica has a /30 of it
  std::string tcp;                    // empty: as at create
  Readiness readiness;                // empty: as at create
  bool has_timeout = false;           // false: the timeout is that of create, too
  std::string restored;               // a hook
  std::string state_directory;        // empty: in /run
  bool verify = false;
  bool dry_run = false;
  CriuOptions criu;
};
int restore(const RestoreOptions& options, tool::Format format);

int inspect(const std::string& directory, tool::Format format);
int verify(const std::string& directory, tool::Format format);
// The snapshots in a directory.
int list(const std::string& directory, tool::Format format);

}  // namespace amdgpu_criu::snapshot
