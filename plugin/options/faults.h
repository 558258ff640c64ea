// SPDX-License-Identifier: GPL-2.0
// For tests: makes one of the things that happen while CRIU runs go wrong. Processes that are
// forked from the one that made it count together.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace amdgpu_criu::options {

class Faults {
 public:
  // Nothing goes wrong.
  Faults() = default;
  // EVENT:NUMBER:ACTION, as criu-amdgpu(1) describes it.
  static Result<Faults> create(const std::string& text);

  // To be called where an event of that kind ("hook", "ioctl", "fill") and name happens. The error
  // is to take the place of what would have been done.
  Status at(std::string_view kind, std::string_view name) const;

 private:
  enum class Action { kError, kKill, kKillCriu, kSleep };
  struct Plan {
    std::string event;  // a kind or a name
    unsigned number = 0;
    Action action = Action::kError;
    int code = 0;
    pid_t criu = 0;
  };
  static Status act(const Plan& plan, std::string_view name);

  std::optional<Plan> plan_;
  Mapping count_;  // of events, shared over fork
};

}  // namespace amdgpu_criu::options
