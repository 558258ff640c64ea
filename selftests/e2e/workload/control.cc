// SPDX-License-Identifier: GPL-2.0
#include "workload/control.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

namespace e2e {

using base::Error;

namespace {
volatile sig_atomic_t verify_flag = 0;
volatile sig_atomic_t stop_flag = 0;
}  // namespace

void say(std::string line) {
  line += '\n';
  for (size_t done = 0; done < line.size();) {
    const ssize_t count = write(STDOUT_FILENO, line.data() + done, line.size() - done);
    if (count < 0 && errno != EINTR) return;
    if (count > 0) done += static_cast<size_t>(count);
  }
}

base::Status handle_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int number) { (number == SIGUSR1 ? verify_flag : stop_flag) = 1; };
  for (int number : {SIGUSR1, SIGTERM})
    if (sigaction(number, &action, nullptr) != 0)
      return Error::system("cannot handle signal {}", number);
  return {};
}

bool take_verify_request() {
  if (!verify_flag) return false;
  verify_flag = 0;
  return true;
}

bool stop_requested() { return stop_flag != 0; }

void pause_ms(unsigned ms) { poll(nullptr, 0, static_cast<int>(ms)); }

}  // namespace e2e
