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

// Receives the lines of log_refused(), which are warnings in the log while there is none.
using RefusalSink = void (*)(const std::string& line);
RefusalSink set_refusal_sink(RefusalSink sink);
void refused_line(const std::string& line);

template <typename... Args>
void log_error(std::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::kError, formatted(text, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(std::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::kWarning, formatted(text, std::forward<Args>(args)...));
}
// Names state that CRIU refuses after this call without naming it.
template <typename... Args>
void log_refused(std::format_string<Args...> text, Args&&... args) {
  refused_line(formatted(text, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(std::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::kInfo, formatted(text, std::forward<Args>(args)...));
}

}  // namespace amdgpu_criu
