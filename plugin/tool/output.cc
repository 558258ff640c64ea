// SPDX-License-Identifier: GPL-2.0
#include "tool/output.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

namespace amdgpu_criu::tool {
namespace {

constexpr char kEraseLine[] = "\r\033[K";
constexpr std::chrono::milliseconds kOnTerminal{200};
constexpr std::chrono::seconds kElsewhere{2};

bool can_overwrite() {
  const char* terminal = getenv("TERM");
  return isatty(STDERR_FILENO) && terminal && std::string_view(terminal) != "dumb";
}

}  // namespace

void print_json(const Json& value) {
  printf("%s\n", value.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

int complain(int status, const std::string& reason) {
  fprintf(stderr, "amdgpu-criu: %s\n", reason.c_str());
  return status;
}

ProgressLine::ProgressLine(std::string what, uint64_t total_bytes)
    : what_(std::move(what)),
      terminal_(can_overwrite()),
      progress_(total_bytes, terminal_ ? Progress::Clock::duration(kOnTerminal) : kElsewhere) {}

ProgressLine::~ProgressLine() {
  if (shown_ && terminal_) fputs(kEraseLine, stderr);
}

void ProgressLine::add(uint64_t bytes) {
  const auto text = progress_.add(bytes);
  if (!text) return;
  shown_ = true;
  fprintf(stderr, terminal_ ? "%s%s: %s" : "%.0s%s: %s\n", kEraseLine, what_.c_str(),
          text->c_str());
  fflush(stderr);
}

}  // namespace amdgpu_criu::tool
