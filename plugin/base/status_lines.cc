// SPDX-License-Identifier: GPL-2.0
#include "base/status_lines.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

namespace amdgpu_criu {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + '"';
}

// Without waiting, and without SIGPIPE.
void write_at_once(int fd, const std::string& line) {
  pollfd ready{fd, POLLOUT, 0};
  if (poll(&ready, 1, 0) != 1 || ready.revents != POLLOUT) return;
  sigset_t pipe, before, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const ssize_t written = write(fd, line.data(), line.size());
  constexpr timespec kNow{};
  if (written < 0 && errno == EPIPE && sigismember(&pending, SIGPIPE) == 0)
    sigtimedwait(&pipe, nullptr, &kNow);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

bool is_writable(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

void StatusLines::phase(std::string_view phase, std::string_view reason) const {
  constexpr size_t kMost = PIPE_BUF / 2;
  write(phase, reason.empty() ? "" : ", \"reason\": " + quoted(reason.substr(0, kMost / 2)));
}

void StatusLines::progress(std::string_view phase, uint32_t gpu_id,
                           const Progress& progress) const {
  write(phase,
        formatted(
            ", \"gpu_id\": {}, \"bytes\": {}, \"total_bytes\": {}, \"bytes_per_second\": {:.0f}",
            gpu_id, progress.done(), progress.total(), progress.rate()));
}

void StatusLines::write(std::string_view phase, const std::string& members) const {
  if (fd_ < 0) return;
  std::string deadline;
  if (const auto left = interruption_.time_left())
    deadline = formatted(", \"seconds_left\": {:.1f}", static_cast<double>(left->count()) / 1000);
  write_at_once(fd_, formatted("{{\"version\": 1, \"operation\": \"{}\", \"phase\": \"{}\"{}{}}}\n",
                               operation_, phase, members, deadline));
}

}  // namespace amdgpu_criu
