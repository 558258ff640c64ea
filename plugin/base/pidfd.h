// SPDX-License-Identifier: GPL-2.0
// A process by a descriptor, which stays with it when its number goes to another: pidfd_open(2),
// pidfd_send_signal(2) and pidfd_getfd(2), which the C library of Debian 12 does not know.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

namespace amdgpu_criu {

class Pidfd {
 public:
  Pidfd() = default;
  // Of a process that there is not (errno says so) it is not valid.
  static Pidfd open(pid_t pid) {
    return Pidfd(Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))));
  }

  bool valid() const { return fd_.valid(); }
  // Readable from the end of the process on.
  const Fd& fd() const { return fd_; }

  bool signal(int number) const {
    return syscall(SYS_pidfd_send_signal, fd_.get(), number, nullptr, 0) == 0;
  }

  // A copy of its descriptor of that number, closed on exec. Not valid: errno says why.
  Fd take_descriptor(int number) const {
    return Fd(static_cast<int>(syscall(SYS_pidfd_getfd, fd_.get(), number, 0)));
  }

 private:
  explicit Pidfd(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace amdgpu_criu
