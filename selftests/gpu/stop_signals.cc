// SPDX-License-Identifier: GPL-2.0
#include "stop_signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <array>
#include <csignal>

namespace gpu {

amdgpu_criu::Result<std::unique_ptr<StopSignals>> StopSignals::create() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  if (const int error = pthread_sigmask(SIG_BLOCK, &set, nullptr))
    return amdgpu_criu::Error::of(error, "cannot block signals");
  amdgpu_criu::Fd signals(signalfd(-1, &set, SFD_CLOEXEC));
  if (!signals.valid()) return amdgpu_criu::Error::system("cannot watch for signals");
  amdgpu_criu::Fd quit(eventfd(0, EFD_CLOEXEC));
  if (!quit.valid()) return amdgpu_criu::Error::system("cannot make an eventfd");
  return std::unique_ptr<StopSignals>(new StopSignals(std::move(signals), std::move(quit)));
}

void StopSignals::on_signal(std::function<void()> stop) {
  thread_ = std::thread([this, stop = std::move(stop)] {
    std::array<pollfd, 2> watched = {pollfd{signals_.get(), POLLIN, 0},
                                     pollfd{quit_.get(), POLLIN, 0}};
    while (poll(watched.data(), watched.size(), -1) < 0 && errno == EINTR) {
    }
    if (watched[0].revents) stop();
  });
}

StopSignals::~StopSignals() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  const ssize_t written = ::write(quit_.get(), &one, sizeof(one));
  (void)written;
  thread_.join();
}

}  // namespace gpu
