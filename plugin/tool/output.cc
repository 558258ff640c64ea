// SPDX-License-Identifier: GPL-2.0
#include "tool/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
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

std::string printable(std::string text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  for (size_t at = 0; at < text.size(); at++) {
    // U+0080 to U+009F are two bytes of UTF-8.
    const bool has_two =
        byte(at) == 0xc2 && at + 1 < text.size() && byte(at + 1) >= 0x80 && byte(at + 1) <= 0x9f;
    if (has_two) text.erase(at, 1);
    if (has_two || byte(at) < ' ' || byte(at) == 0x7f) text[at] = '?';
  }
  return text;
}

int complain(int status, const std::string& reason) {
  fprintf(stderr, "amdgpu-criu: %s\n", printable(reason).c_str());
  return status;
}

// To use one of them fails as if it were closed, because they are opened for the other direction.
void prepare_output() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0)  // open() returns the lowest free number
      (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  // What is written before finish_output() may fail without an errno that is left.
  static char buffer[1 << 20];
  if (!isatty(STDOUT_FILENO)) setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
}

// A reader that has ended is no exception: SIGPIPE ends this command unless it is ignored.
int finish_output(int status) {
  errno = 0;
  // Some file systems report a failed write only when a descriptor is closed.
  if (fflush(stdout) == 0 && close(dup(STDOUT_FILENO)) == 0 && !ferror(stdout)) return status;
  return complain(2, errno == 0 ? "cannot write the output"
                                : formatted("cannot write the output: {}", strerror(errno)));
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
