// SPDX-License-Identifier: GPL-2.0
// A place for descriptors that all processes of one restore reach. What is in it needs no number
// in the restored task, where every number may be wanted by a file of its own.
#pragma once

#include "base/fd.h"
#include "base/result.h"

namespace amdgpu_criu::restore {

class FdStore {
 public:
  virtual ~FdStore() = default;
  // A process that is forked now can use it. Without that, only tasks can.
  virtual bool is_ready() const = 0;
  virtual Result<int> add(const Fd& fd) = 0;
  // A new descriptor of the same open file.
  virtual Result<Fd> get(int id) = 0;
};

}  // namespace amdgpu_criu::restore
