// SPDX-License-Identifier: GPL-2.0
#pragma once

#include "base/fd.h"

namespace amdgpu_criu {

struct Pipe {
  Fd read, write;

  // flags: O_NONBLOCK, or none.
  static Result<Pipe> create(int flags = 0) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | flags) != 0) return Error::system("cannot make a pipe");
    return Pipe{Fd(ends[0]), Fd(ends[1])};
  }
};

}  // namespace amdgpu_criu
