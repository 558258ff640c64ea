// SPDX-License-Identifier: GPL-2.0
// A process that runs no GPU work as long as this object exists.
#pragma once

#include <memory>

#include "kernel/api.h"

namespace dump {

class PausedProcess {
 public:
  // kfd_file: an open /dev/kfd of the process.
  static base::Result<PausedProcess> pause(kernel::Api& api, int session, base::Fd kfd_file);

  PausedProcess(PausedProcess&& other) noexcept
      : api_(std::exchange(other.api_, nullptr)),
        session_(other.session_),
        kfd_file_(std::move(other.kfd_file_)),
        info_(other.info_) {}
  PausedProcess& operator=(PausedProcess&&) = delete;
  ~PausedProcess();

  // Another object keeps this process paused: do not unpause it.
  void keep() { api_ = nullptr; }

  const kernel::ProcessInfo& info() const { return info_; }
  kernel::Node node() const { return kernel::kfd_node(kfd_file_); }

 private:
  PausedProcess(kernel::Api& api, int session, base::Fd kfd_file, const kernel::ProcessInfo& info)
      : api_(&api), session_(session), kfd_file_(std::move(kfd_file)), info_(info) {}

  kernel::Api* api_;  // null: not ours to unpause
  int session_;       // owned by Dump, which outlives this
  base::Fd kfd_file_;
  kernel::ProcessInfo info_;
};

}  // namespace dump
