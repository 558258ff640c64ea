// SPDX-License-Identifier: GPL-2.0
#include "workload/control.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

namespace e2e {

using amdgpu_criu::Error;

namespace {
volatile sig_atomic_t verify_flag = 0;
volatile sig_atomic_t release_flag = 0;
volatile sig_atomic_t stop_flag = 0;

void take_note(int number) {
  if (number == SIGUSR1)
    verify_flag = 1;
  else if (number == SIGUSR2)
    release_flag = 1;
  else
    stop_flag = 1;
}
}  // namespace

void say(std::string line) {
  line += '\n';
  for (size_t done = 0; done < line.size();) {
    const ssize_t count = write(STDOUT_FILENO, line.data() + done, line.size() - done);
    if (count < 0 && errno != EINTR) return;
    if (count > 0) done += static_cast<size_t>(count);
  }
}

amdgpu_criu::Status handle_signals() {
  struct sigaction action = {};
  action.sa_handler = take_note;
  for (int number : {SIGUSR1, SIGUSR2, SIGTERM})
    if (sigaction(number, &action, nullptr) != 0)
      return Error::system("cannot handle signal {}", number);
  return {};
}

bool verify_requested() { return verify_flag != 0; }

bool take_verify_request() {
  if (!verify_flag) return false;
  verify_flag = 0;
  return true;
}

bool take_release_request() {
  if (!release_flag) return false;
  release_flag = 0;
  return true;
}

bool stop_requested() { return stop_flag != 0; }

void pause_ms(unsigned ms) { poll(nullptr, 0, static_cast<int>(ms)); }

bool give_verdict(const char* word, uint64_t step, const std::vector<std::string>& problems) {
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < problems.size() && i < kShown; ++i) say("damage: " + problems[i]);
  if (problems.empty())
    say(amdgpu_criu::formatted("{} ok: step {}", word, step));
  else
    say(amdgpu_criu::formatted("{} FAILED: step {} problems {}", word, step, problems.size()));
  return problems.empty();
}

int skip(const std::string& why) {
  say("skip: " + why);
  return kSkipped;
}

}  // namespace e2e
