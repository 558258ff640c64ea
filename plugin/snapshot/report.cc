// SPDX-License-Identifier: GPL-2.0
#include "snapshot/report.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tool/output.h"

namespace amdgpu_criu::snapshot {
namespace {

constexpr std::chrono::seconds kBetweenReports{2};
constexpr double kMib = 1 << 20;

}  // namespace

void Report::print(const std::string& text) {
  const std::lock_guard lock(mutex_);
  fprintf(stderr, "%8.2f s  %s\n", seconds(), tool::printable(text).c_str());
}

void Report::detail(const std::string& text) {
  const std::lock_guard lock(mutex_);
  fprintf(stderr, "            %s\n", tool::printable(text).c_str());
}

Result<StatusPipe> StatusPipe::create() {
  StatusPipe lines;
  lines.pipe_ = TRY(Pipe::create(O_NONBLOCK));
  return lines;
}

Status StatusPipe::keep_in_child() const {
  if (fcntl(pipe_.write.get(), F_SETFD, 0) == 0) return {};
  return Error::system("cannot keep a descriptor");
}

void StatusPipe::read(Report& report, const std::string& prefix) {
  char buffer[4096];
  for (ssize_t got; (got = ::read(pipe_.read.get(), buffer, sizeof(buffer))) > 0;)
    text_.append(buffer, static_cast<size_t>(got));
  for (size_t end; (end = text_.find('\n')) != text_.npos;) {
    const std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    // An exception would end the wait for the program, which runs on.
    (void)without_exceptions([&]() -> Status {
      report_line(line, report, prefix);
      return {};
    });
  }
}

void StatusPipe::report_line(const std::string& line, Report& report, const std::string& prefix) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return;
  const std::string phase = json.value("phase", "");
  const bool is_new = phase != phase_;
  const double total = json.value("total_bytes", 0.0);
  if (!is_new && (total == 0 || Clock::now() - reported_ < kBetweenReports)) return;
  phase_ = phase;
  reported_ = Clock::now();
  if (total > 0)
    report.say("{}GPU memory: {}, {:.0f} of {:.0f} MiB, {:.0f} MiB/s", prefix, phase,
               json.value("bytes", 0.0) / kMib, total / kMib,
               json.value("bytes_per_second", 0.0) / kMib);
  else
    report.say("{}GPU: {}{}{}", prefix, phase, json.contains("reason") ? ": " : "",
               json.value("reason", ""));
}

}  // namespace amdgpu_criu::snapshot
