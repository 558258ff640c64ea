// SPDX-License-Identifier: GPL-2.0
#include "base/bounded.h"

#include <dlfcn.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace amdgpu_criu {
namespace {

constexpr std::chrono::milliseconds kLook{50};

std::mutex lock;  // protects the number, and the members of each Call
std::condition_variable ended;
unsigned alone = 0;  // calls whose caller does not wait

struct Call {
  Status result;
  bool done = false;
  bool alone = false;
};

void run(Call& call, std::function<Status()> work) {
  Status result = without_exceptions(work);
  work = nullptr;
  const std::lock_guard guard(lock);
  call.result = std::move(result);
  call.done = true;
  if (call.alone) alone--;
  ended.notify_all();
}

}  // namespace

void stay_loaded() {
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(stay_loaded), &self))
    (void)dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

Status run_until(std::function<Status()> work, const Check& check) {
  if (!check) return work();
  const auto call = std::make_shared<Call>();
  std::thread thread;
  try {
    thread = std::thread([call, work]() mutable { run(*call, std::move(work)); });
  } catch (const std::system_error&) {
    return work();
  }
  work = nullptr;
  std::unique_lock guard(lock);
  while (!ended.wait_for(guard, kLook, [&] { return call->done; })) {
    if (Status status = check(); !status.ok()) {
      stay_loaded();
      call->alone = true;
      alone++;
      thread.detach();
      return status;
    }
  }
  guard.unlock();
  thread.join();
  return call->result;
}

Check within(std::chrono::milliseconds patience) {
  return [end = std::chrono::steady_clock::now() + patience]() -> Status {
    if (std::chrono::steady_clock::now() < end) return {};
    return Error(ETIME, "the disk does not answer");
  };
}

bool all_work_ended(std::chrono::milliseconds patience) {
  std::unique_lock guard(lock);
  return ended.wait_for(guard, patience, [] { return alone == 0; });
}

}  // namespace amdgpu_criu
