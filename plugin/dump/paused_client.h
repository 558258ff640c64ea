// SPDX-License-Identifier: GPL-2.0
// An open file of a GPU node through which no GPU work runs as long as this object exists: of
// /dev/kfd a process's queues, of a render node what was submitted through the file.
#pragma once

#include <memory>

#include "host/host.h"
#include "kernel/api.h"

namespace amdgpu_criu::dump {

class PausedClient {
 public:
  // process: one that has the file open.
  static Result<PausedClient> pause(kernel::Api& api, int session, kernel::Node::Kind kind,
                                    host::TakenFile file, pid_t process);

  PausedClient(PausedClient&& other) noexcept
      : api_(std::exchange(other.api_, nullptr)),
        session_(other.session_),
        kind_(other.kind_),
        file_(std::move(other.file_)),
        info_(other.info_) {}
  PausedClient& operator=(PausedClient&&) = delete;
  ~PausedClient();

  // Another object keeps this client paused: do not unpause it.
  void keep() { api_ = nullptr; }

  const kernel::ProcessInfo& info() const { return info_; }
  kernel::Node node() const { return {file_.get(), kind_}; }

 private:
  PausedClient(kernel::Api& api, int session, kernel::Node::Kind kind, host::TakenFile file,
               const kernel::ProcessInfo& info)
      : api_(&api), session_(session), kind_(kind), file_(std::move(file)), info_(info) {}

  kernel::Api* api_;  // null: not ours to unpause
  int session_;       // owned by Tree, which outlives this
  kernel::Node::Kind kind_;
  host::TakenFile file_;
  kernel::ProcessInfo info_;
};

}  // namespace amdgpu_criu::dump
