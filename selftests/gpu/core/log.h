// SPDX-License-Identifier: GPL-2.0
// Messages for people, on stderr, one line each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/result.h"

namespace gpu {

// A prefix of every message, for instance the node. Set once, before threads start.
void set_log_prefix(std::string prefix);

enum class Fault { kModel, kVm };

void log_line(const std::string& text);
// Counts the fault, and prints it as FaultLog decides. Faults of one subject are alike.
void log_fault(Fault kind, const std::string& text, uint64_t subject);

template <typename... Args>
void log_info(std::format_string<Args...> text, Args&&... args) {
  log_line(amdgpu_criu::formatted(text, std::forward<Args>(args)...));
}

// The guest requested something that the model does not support, or the model is in an invalid
// state. Work continues; the count shows whether a run had any.
template <typename... Args>
void model_fault(std::format_string<Args...> text, Args&&... args) {
  const std::string line = amdgpu_criu::formatted(text, std::forward<Args>(args)...);
  log_fault(Fault::kModel, line, std::hash<std::string>()(line));
}
unsigned long model_faults();

}  // namespace gpu
