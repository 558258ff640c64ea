// SPDX-License-Identifier: GPL-2.0
// Messages for people, on stderr, one line each.
#pragma once

#include <string>
#include <utility>

#include "base/format.h"

namespace gpu {

// Put in front of every message, for instance the node. Set once, before threads start.
void set_log_prefix(std::string prefix);

void log_line(std::string_view kind, const std::string& text);

template <typename... Args>
void log_info(std::format_string<Args...> text, Args&&... args) {
  log_line("", base::format(text, std::forward<Args>(args)...));
}

// The guest asked for something the model does not do, or the model is in a state it should never
// be in. Work goes on; the count makes a run that had any recognisable.
template <typename... Args>
void model_fault(std::format_string<Args...> text, Args&&... args) {
  log_line("model fault: ", base::format(text, std::forward<Args>(args)...));
}
unsigned long model_faults();

}  // namespace gpu
