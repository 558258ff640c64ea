// SPDX-License-Identifier: GPL-2.0
#include "base/log.h"

#include <cstdio>

namespace amdgpu_criu {
namespace {

void to_stderr(LogLevel level, const std::string& line) {
  if (level <= LogLevel::kWarning) fprintf(stderr, "amdgpu: %s\n", line.c_str());
}

LogSink current_sink = to_stderr;
RefusalSink refusal_sink = nullptr;

}  // namespace

LogSink set_log_sink(LogSink sink) { return std::exchange(current_sink, sink ? sink : to_stderr); }

void log_line(LogLevel level, std::string_view text, std::format_args args) noexcept {
  try {
    current_sink(level, formatted_from(text, args));
  } catch (const std::exception&) {
  }
}

RefusalSink set_refusal_sink(RefusalSink sink) { return std::exchange(refusal_sink, sink); }

void refused_line(std::string_view text, std::format_args args) noexcept {
  if (!refusal_sink) return log_line(LogLevel::kWarning, text, args);
  try {
    refusal_sink(formatted_from(text, args));
  } catch (const std::exception&) {
  }
}

}  // namespace amdgpu_criu
