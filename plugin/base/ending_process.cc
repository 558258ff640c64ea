// SPDX-License-Identifier: GPL-2.0
#include "base/ending_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <string_view>

#include "base/entries.h"

namespace amdgpu_criu {
namespace {

constexpr std::chrono::milliseconds kNap{10};
// How long a failed operation waits for its disk.
constexpr std::chrono::milliseconds kPatienceForDisk{600};
constexpr std::chrono::milliseconds kLongest{10'000};

char* append(char* at, std::string_view text) { return std::ranges::copy(text, at).out; }

// An empty text: it cannot be read.
template <size_t kSize>
std::string_view read_text(int directory, const char* name, std::array<char, kSize>& text) {
  const Fd file(openat(directory, name, O_RDONLY | O_CLOEXEC));
  const ssize_t size = file.valid() ? read(file.get(), text.data(), text.size()) : 0;
  return {text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

// /proc/PID
Fd open_proc(pid_t pid) {
  std::array<char, 32> name{};
  std::to_chars(append(name.data(), "/proc/"), name.end() - 1, pid);
  return Fd(open(name.data(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// stat: as in /proc/PID/stat
bool is_runnable(std::string_view stat) {
  const size_t name_ends = stat.rfind(") ");
  return name_ends != stat.npos && stat.substr(name_ends).starts_with(") R");
}

bool has_runnable_thread(int process) {
  const Fd tasks(openat(process, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  bool found = false;
  for_each_entry(tasks.get(), [&](std::string_view thread) {
    std::array<char, 64> name{};
    append(append(name.data(), thread.substr(0, 16)), "/stat");
    std::array<char, 512> stat;
    found = is_runnable(read_text(tasks.get(), name.data(), stat));
    return !found;
  });
  return found;
}

// process: its directory. A line of /proc/PID/status that is longer than the text, such as that of
// the groups, is not one of signals.
uint64_t pending_signals_in(int process) {
  const Fd file(openat(process, "status", O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> text;
  uint64_t pending = 0, ignored = 0;
  size_t kept = 0;
  for (ssize_t size = 0; (size = read(file.get(), text.data() + kept, text.size() - kept)) > 0;) {
    std::string_view rest(text.data(), kept + static_cast<size_t>(size));
    for (size_t end = 0; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1)) {
      const std::string_view line = rest.substr(0, end);
      const bool is_pending = line.starts_with("SigPnd:\t") || line.starts_with("ShdPnd:\t");
      if (!is_pending && !line.starts_with("SigIgn:\t")) continue;
      uint64_t mask = 0;
      std::from_chars(line.begin() + 8, line.end(), mask, 16);
      (is_pending ? pending : ignored) |= mask;
    }
    kept = rest.size() < text.size() ? rest.size() : 0;
    std::copy_n(rest.begin(), kept, text.begin());
  }
  return pending & ~ignored;
}

// The flags in /proc/PID/stat, the seventh field after the name.
unsigned flags_of(std::string_view stat) {
  size_t at = stat.rfind(')');
  for (int field = 0; field < 7 && at != stat.npos; field++) at = stat.find(' ', at + 1);
  unsigned flags = 0;
  if (at != stat.npos) std::from_chars(stat.data() + at + 1, stat.end(), flags);
  return flags;
}

bool ends_within(const Pidfd& process, std::chrono::milliseconds patience) {
  pollfd ended{process.fd().get(), POLLIN, 0};
  return poll(&ended, 1, static_cast<int>(patience.count())) > 0;
}

}  // namespace

uint64_t pending_signals(pid_t pid) { return pending_signals_in(open_proc(pid).get()); }

bool has_ended(const Pidfd& process) { return ends_within(process, {}); }

bool is_ending(const Pidfd& process) {
  constexpr unsigned kExiting = 0x4;  // PF_EXITING
  constexpr uint64_t kKilled = 1ull << (SIGKILL - 1);
  const Fd directory = open_proc(process.pid());
  std::array<char, 512> stat;
  return pending_signals_in(directory.get()) & kKilled ||
         flags_of(read_text(directory.get(), "stat", stat)) & kExiting || has_ended(process);
}

bool EndingProcess::is_busy() {
  const Fd process = open_proc(pid_);
  decltype(last_) now{};
  if (!process.valid() || read_text(process.get(), "stat", now).empty()) return false;
  const bool changed = now != last_;
  last_ = now;
  return changed || has_runnable_thread(process.get());
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
