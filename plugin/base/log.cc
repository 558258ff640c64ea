// SPDX-License-Identifier: GPL-2.0
#include "base/log.h"

#include <cstdio>

namespace amdgpu_criu {
namespace {

void to_stderr(LogLevel level, const std::string& line) {
  if (level <= LogLevel::kWarning) fprintf(stderr, "amdgpu: %s\n", line.c_str());
}

LogSink current_sink = to_stderr;

}  // namespace

LogSink set_log_sink(LogSink sink) { return std::exchange(current_sink, sink ? sink : to_stderr); }

void log_line(LogLevel level, const std::string& line) { current_sink(level, line); }

}  // namespace amdgpu_criu
