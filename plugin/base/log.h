// SPDX-License-Identifier: GPL-2.0
// Log lines of the plugin. The program sets the sink once: CRIU's log, or stderr.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace amdgpu_criu {

// Values are those of CRIU's print_on_level().
enum class LogLevel : unsigned { kError = 1, kWarning = 2, kInfo = 3, kDebug = 4 };

using LogSink = void (*)(LogLevel level, const std::string& line);

// Returns the sink in use before.
LogSink set_log_sink(LogSink sink);
void log_line(LogLevel level, const std::string& line);

template <typename... Args>
void log_error(std::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::kError, formatted(text, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(std::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::kWarning, formatted(text, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(std::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::kInfo, formatted(text, std::forward<Args>(args)...));
}

}  // namespace amdgpu_criu
