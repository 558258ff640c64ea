// SPDX-License-Identifier: GPL-2.0
#include "core/log.h"

#include <cstdio>

#include "core/fault_log.h"

namespace gpu {
namespace {

std::string& prefix() {
  static std::string text = "softgpu";
  return text;
}

void print(const std::string& text) {
  const std::string line = amdgpu_criu::formatted("{}: {}\n", prefix(), text);
  fwrite(line.data(), 1, line.size(), stderr);
}

FaultLog& log_of(Fault kind) {
  static FaultLog model("model fault"), vm("VM fault");
  return kind == Fault::kModel ? model : vm;
}

}  // namespace

void set_log_prefix(std::string text) { prefix() = std::move(text); }

void log_line(const std::string& text) { print(text); }

void log_fault(Fault kind, const std::string& text, uint64_t subject) {
  if (const auto line = log_of(kind).add(text, subject, FaultLog::Clock::now())) print(*line);
}

unsigned long model_faults() { return log_of(Fault::kModel).count(); }

}  // namespace gpu
