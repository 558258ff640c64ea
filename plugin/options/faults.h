// SPDX-License-Identifier: GPL-2.0
// For tests: makes one event of a CRIU run fail. Processes that are forked from the creator of this
// object count events together.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace amdgpu_criu::options {

class Faults {
 public:
  // Injects nothing.
  Faults() = default;
  // EVENT:NUMBER:ACTION, as criu-amdgpu(1) describes it.
  static Result<Faults> create(const std::string& text);

  // To be called at an event of that kind ("hook", "ioctl", "fill") and name. After an error the
  // caller fails instead of continuing.
  Status at(std::string_view kind, std::string_view name) const;

 private:
  enum class Action { kError, kKill, kKillCriu, kTerminate, kSleep };
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
