// SPDX-License-Identifier: GPL-2.0
#include "core/log.h"

#include <atomic>
#include <cstdio>

namespace gpu {
namespace {

// A guest that repeats its mistake must not fill the disk with messages.
constexpr unsigned long kMaxFaultLines = 200;

std::string& prefix() {
  static std::string text = "softgpu";
  return text;
}

std::atomic<unsigned long> faults = 0;

}  // namespace

void set_log_prefix(std::string text) { prefix() = std::move(text); }

void log_line(std::string_view kind, const std::string& text) {
  if (!kind.empty()) {
    const unsigned long count = ++faults;
    if (count > kMaxFaultLines) return;
    if (count == kMaxFaultLines) kind = "last message of this kind: model fault: ";
  }
  const std::string line = base::format("{}: {}{}\n", prefix(), kind, text);
  fwrite(line.data(), 1, line.size(), stderr);
}

unsigned long model_faults() { return faults; }

}  // namespace gpu
