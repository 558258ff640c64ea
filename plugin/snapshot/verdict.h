// SPDX-License-Identifier: GPL-2.0
// At the end of a dump CRIU asks, by an action script, whether the dump is good: if not, it gives
// the server its connections back and lets it continue.
#pragma once

#include <string>

#include "base/pipe.h"
#include "base/result.h"

namespace amdgpu_criu::snapshot {

class Verdict {
 public:
  static Result<Verdict> create();

  // For --action-script, as long as this object exists.
  std::string script() const;
  bool is_asked_for() const;
  // Without an answer, as when this command is killed, the dump is not good.
  void give(bool is_good);

 private:
  Pipe question_, answer_;
  Fd script_;
};

}  // namespace amdgpu_criu::snapshot
