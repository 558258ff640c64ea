// SPDX-License-Identifier: GPL-2.0
#include "restore/shared_state.h"

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <new>

namespace restore {

using base::Error;
using base::Result;

// Lives in memory shared over fork; never destroyed, as other processes may still use it.
struct SharedState::Page {
  pthread_mutex_t lock;  // robust: a task may die with it
  std::atomic<int> session_id;
  std::atomic<bool> restored[];
};

namespace {

class Lock {
 public:
  static Result<Lock> take(pthread_mutex_t& mutex) {
    int result = pthread_mutex_lock(&mutex);
    if (result == EOWNERDEAD) result = pthread_mutex_consistent(&mutex);
    if (result != 0)
      return Error::of(result, "cannot lock the state shared by tasks: {}", strerror(result));
    return Lock(mutex);
  }
  Lock(Lock&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)) {}
  Lock& operator=(Lock&&) = delete;
  ~Lock() {
    if (mutex_) pthread_mutex_unlock(mutex_);
  }

 private:
  explicit Lock(pthread_mutex_t& mutex) : mutex_(&mutex) {}
  pthread_mutex_t* mutex_;
};

}  // namespace

SharedState::Page& SharedState::page() const {
  return *std::launder(reinterpret_cast<Page*>(mapping_.data()));
}

Result<SharedState> SharedState::create(size_t processes) {
  static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);
  auto mapping = TRY(base::Mapping::map(sizeof(Page) + processes * sizeof(std::atomic<bool>),
                                        PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS));
  SharedState state(std::move(mapping));
  Page& page = *new (state.mapping_.data()) Page;
  page.session_id = -1;
  for (size_t i = 0; i < processes; i++) new (&page.restored[i]) std::atomic<bool>(false);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&page.lock, &attributes);
  pthread_mutexattr_destroy(&attributes);
  return state;
}

Result<int> SharedState::session_id(const std::function<Result<int>()>& make) {
  const Lock lock = TRY(Lock::take(page().lock));
  if (page().session_id < 0) page().session_id = TRY(make());
  return page().session_id.load();
}

int SharedState::session_id() const { return page().session_id; }
void SharedState::set_restored(size_t process) { page().restored[process] = true; }
bool SharedState::is_restored(size_t process) const { return page().restored[process]; }

}  // namespace restore
