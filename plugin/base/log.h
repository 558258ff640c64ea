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
// Destructors and C code call the functions below: a line for which there is no memory is lost.
void log_line(LogLevel level, std::string_view text, std::format_args args) noexcept;

// Receives the lines of log_refused(), which are warnings in the log while there is none.
using RefusalSink = void (*)(const std::string& line);
RefusalSink set_refusal_sink(RefusalSink sink);
void refused_line(std::string_view text, std::format_args args) noexcept;

template <typename... Args>
void log_error(std::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::kError, text.get(), std::make_format_args(args...));
}
template <typename... Args>
void log_warning(std::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::kWarning, text.get(), std::make_format_args(args...));
}
// Names state that CRIU refuses after this call without naming it.
template <typename... Args>
void log_refused(std::format_string<Args...> text, Args&&... args) {
  refused_line(text.get(), std::make_format_args(args...));
}
template <typename... Args>
void log_info(std::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::kInfo, text.get(), std::make_format_args(args...));
}

}  // namespace amdgpu_criu
