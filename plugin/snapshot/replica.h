// SPDX-License-Identifier: GPL-2.0
// One restored copy of a server.
#pragma once

#include <optional>
#include <string>

#include "base/fd.h"
#include "snapshot/criu_command.h"
#include "snapshot/network.h"
#include "snapshot/report.h"
#include "snapshot/snapshot.h"

namespace amdgpu_criu::snapshot {

class Replica {
 public:
  // With a directory of its own for its log, CRIU's log and its pid. next_network: the number of
  // the first network that may be taken; is set to the next one.
  static Result<Replica> prepare(const Manifest& manifest, const RestoreOptions& options,
                                 const std::string& state_directory, unsigned& next_network);

  // For its command line alone: changes nothing.
  static Result<Replica> preview(const Manifest& manifest, const RestoreOptions& options,
                                 const std::string& state_directory);

  unsigned number() const { return number_; }
  pid_t pid() const { return process_.pid(); }
  // Where it listens.
  std::string address() const { return veth_ ? veth_->inside : "127.0.0.1"; }
  std::string directory() const { return directory_; }
  // From the start of criu until it was ready.
  double seconds() const { return seconds_; }
  // "GPU 0x1234 (0000:03:00.0, ...)", as the plugin logs them
  std::string gpus() const;

  Result<CriuCommand> command() const;
  // Returns when it is ready and the hook has succeeded. A failure leaves no process of it.
  Status restore(Report& report);
  void end();
  // Descriptors that this command needs for each.
  static unsigned descriptors(const Manifest& manifest);

 private:
  Replica(const Manifest& manifest, const RestoreOptions& options)
      : manifest_(&manifest), options_(&options) {}
  Status open_logs();
  Status run_criu(Report& report);
  Status wait_until_ready() const;
  Status call_hook() const;
  Variables variables() const;
  std::string path(const char* name) const { return directory_ + "/" + name; }

  const Manifest* manifest_;
  const RestoreOptions* options_;
  unsigned number_ = 0;
  Pidfd process_;  // the first one of the replica, once it is restored
  std::string directory_;
  std::optional<Veth> veth_;
  Fd lock_;
  std::vector<Fd> logs_;  // for each output of the server: CRIU closes those that it has used
  double seconds_ = 0;
};

}  // namespace amdgpu_criu::snapshot
