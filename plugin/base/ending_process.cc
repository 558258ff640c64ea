// SPDX-License-Identifier: GPL-2.0
#include "base/ending_process.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string_view>

namespace amdgpu_criu {
namespace {

constexpr std::chrono::milliseconds kNap{10};
// How long a failed operation waits for its disk.
constexpr std::chrono::milliseconds kPatienceForDisk{600};
constexpr std::chrono::milliseconds kLongest{10'000};

char* append(char* at, std::string_view text) { return std::ranges::copy(text, at).out; }

bool ends_within(const Pidfd& process, std::chrono::milliseconds patience) {
  pollfd ended{process.fd().get(), POLLIN, 0};
  return poll(&ended, 1, static_cast<int>(patience.count())) > 0;
}

}  // namespace

bool has_ended(const Pidfd& process) { return ends_within(process, {}); }

EndingProcess::EndingProcess(pid_t pid) {
  char* at = append(path_.data(), "/proc/");
  at = std::to_chars(at, at + 16, pid).ptr;
  append(at, "/stat");
}

bool EndingProcess::is_busy() {
  Text now{};
  const Fd file(open(path_.data(), O_RDONLY | O_CLOEXEC));
  if (!file.valid() || read(file.get(), now.data(), now.size() - 1) <= 0) return false;
  const std::string_view text(now.data());
  const size_t name_ends = text.rfind(") ");
  const bool runs = name_ends != text.npos && text.substr(name_ends).starts_with(") R");
  const bool changed = now != last_;
  last_ = now;
  return runs || changed;
}

bool wait_for_end(const Pidfd& process) {
  EndingProcess ending(process.pid());
  // Naps are counted, not time: this process, too, waits for a processor.
  auto patience = kPatienceForDisk;
  for (auto left = kLongest; !ends_within(process, kNap); left -= kNap) {
    patience -= kNap;
    if (ending.is_busy()) patience = kPatienceForDisk;
    if (patience.count() <= 0 || left.count() <= 0) return false;
  }
  return true;
}

}  // namespace amdgpu_criu
