// SPDX-License-Identifier: GPL-2.0
#include "restore/shared_state.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstring>
#include <new>

namespace amdgpu_criu::restore {

Layout::Layout(const image::Set& images) {
  auto add_table = [&](image::TableId table, size_t bos) {
    units_.emplace(table, units_.size());
    first_offset_[table] = offsets_;
    offsets_ += bos;
  };
  for (const auto& [index, render] : images.renders()) {
    add_table({true, index}, render.bos.size());
    render_files_[index] = files_++;
    if (render.vm) vm_files_[*render.vm] = render_files_[index];
  }
  for (const auto& [index, process] : images.processes()) {
    if (!process.blob) continue;
    add_table({false, index}, process.bos.size());
    kfd_files_[index] = files_++;
    for (const image::Device& device : process.devices)
      if (device.has_vm && vm_files_.emplace(image::VmId{index, device.gpu_id}, files_).second)
        files_++;
  }
  for (const auto& file : images.contents())
    for (const image::Object& object : file.contents.objects)
      objects_.emplace(object.object_id, units_.size() + objects_.size());
}

namespace {

// The longest sleep of a waiter, because a process that died has not woken it.
constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 100'000'000};

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

// Lives in memory shared over fork, with the arrays behind it; never destroyed, as other processes
// may still use it.
struct alignas(std::atomic<uint64_t>) SharedState::Page {
  pthread_mutex_t lock;  // robust: a task may die with it
  std::atomic<int> session_id;
  std::atomic<uint32_t> changes;  // a futex
  std::atomic<bool> closed;
  std::atomic<int> verdict;
  std::atomic<uint64_t> bytes, zero_bytes, submissions;  // of Filled
  enum Failure : uint32_t { kNone, kBeingWritten, kWritten };
  std::atomic<uint32_t> failed;
  std::array<char, 1024> failure;  // ends with 0
};

SharedState::SharedState(Mapping mapping, const Layout& layout, std::chrono::milliseconds patience)
    : mapping_(std::move(mapping)),
      num_offsets_(layout.offsets()),
      num_files_(layout.files()),
      num_jobs_(layout.jobs()),
      patience_(patience) {}

SharedState::Page& SharedState::page() const {
  return *std::launder(reinterpret_cast<Page*>(mapping_.data()));
}

std::span<std::atomic<uint64_t>> SharedState::offsets() const {
  return {reinterpret_cast<std::atomic<uint64_t>*>(mapping_.data() + sizeof(Page)), num_offsets_};
}
std::span<std::atomic<int>> SharedState::files() const {
  return {reinterpret_cast<std::atomic<int>*>(offsets().data() + num_offsets_), num_files_};
}
std::span<std::atomic<int>> SharedState::jobs() const {
  return {files().data() + num_files_, num_jobs_};
}

Result<SharedState> SharedState::create(const Layout& layout, std::chrono::milliseconds patience) {
  static_assert(std::atomic<int>::is_always_lock_free &&
                std::atomic<uint64_t>::is_always_lock_free);
  const size_t size = sizeof(Page) + layout.offsets() * sizeof(std::atomic<uint64_t>) +
                      (layout.files() + layout.jobs()) * sizeof(std::atomic<int>);
  SharedState state(TRY(Mapping::map(size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS)),
                    layout, patience);
  Page& page = *new (state.mapping_.data()) Page;
  page.session_id = -1;
  page.changes = 0;
  page.closed = false;
  page.verdict = kOpen;
  page.bytes = page.zero_bytes = page.submissions = 0;
  page.failed = Page::kNone;
  page.failure = {};
  for (auto& offset : state.offsets()) new (&offset) std::atomic<uint64_t>(0);
  for (auto& file : state.files()) new (&file) std::atomic<int>(-1);
  for (auto& job : state.jobs()) new (&job) std::atomic<int>(kNotBegun);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&page.lock, &attributes);
  pthread_mutexattr_destroy(&attributes);
  return state;
}

Result<int> SharedState::made_once(std::atomic<int>& id, const Make& make) {
  const Lock lock = TRY(Lock::take(page().lock));
  if (id < 0) id = TRY(make());
  return id.load();
}

Result<int> SharedState::session_id(const Make& make) { return made_once(page().session_id, make); }
Result<int> SharedState::file_id(size_t file, const Make& make) {
  return made_once(files()[file], make);
}
int SharedState::session_id() const { return page().session_id; }
int SharedState::file_id(size_t file) const { return files()[file]; }

std::set<int> SharedState::stored_ids() const {
  std::set<int> ids = {session_id()};
  for (const auto& file : files()) ids.insert(file);
  ids.erase(-1);
  return ids;
}

uint32_t SharedState::changes() const { return page().changes; }

void SharedState::changed() {
  page().changes++;
  syscall(SYS_futex, &page().changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// std::atomic's wait() works only among threads of one process.
void SharedState::wait_for_change(uint32_t seen) const {
  syscall(SYS_futex, &page().changes, FUTEX_WAIT, seen, &kNap, nullptr, 0);
}

Result<bool> SharedState::begin(size_t job) {
  int expected = kNotBegun;
  if (jobs()[job].compare_exchange_strong(expected, kBegun)) {
    changed();
    return true;
  }
  TRY(wait(job));
  return false;
}

Status SharedState::wait(size_t job) {
  // A task may be restored long after others.
  auto end = std::chrono::steady_clock::now() + patience_;
  for (uint32_t last = changes();;) {
    const uint32_t seen = changes();
    if (std::exchange(last, seen) != seen || is_anyone_busy())
      end = std::chrono::steady_clock::now() + patience_;
    switch (jobs()[job].load()) {
      case kDone:
        return {};
      case kFailed:
        return Error(ECANCELED, "what it depends on could not be restored: see the errors above");
      case kNotBegun:
        if (std::chrono::steady_clock::now() > end)
          return Error(ETIMEDOUT, "what it depends on is restored by no other process");
    }
    wait_for_change(seen);
  }
}

bool SharedState::is_anyone_busy() const {
  return std::ranges::any_of(jobs(), [](const auto& job) { return job == kBegun; });
}

void SharedState::end(size_t job, bool success) {
  jobs()[job] = success ? kDone : kFailed;
  changed();
}
bool SharedState::is_done(size_t job) const { return jobs()[job] == kDone; }

void SharedState::give(size_t job) {
  int expected = kNotBegun;
  if (jobs()[job].compare_exchange_strong(expected, kGiven)) changed();
}

bool SharedState::take(size_t job) {
  int expected = kGiven;
  return jobs()[job].compare_exchange_strong(expected, kBegun);
}

void SharedState::close() {
  page().closed = true;
  changed();
}
bool SharedState::is_closed() const { return page().closed; }

bool SharedState::decide(Verdict verdict) {
  int expected = kOpen;
  return page().verdict.compare_exchange_strong(expected, verdict);
}
bool SharedState::commit() { return decide(kCommitted); }
bool SharedState::give_up() { return decide(kGivenUp); }

void SharedState::note_failure(std::string_view text) {
  uint32_t expected = Page::kNone;
  if (!page().failed.compare_exchange_strong(expected, Page::kBeingWritten)) return;
  text.copy(page().failure.data(), page().failure.size() - 1);
  page().failed = Page::kWritten;
}

std::string SharedState::failure() const {
  return page().failed == Page::kWritten ? page().failure.data() : "";
}

void SharedState::count(const Filled& filled) {
  page().bytes += filled.bytes;
  page().zero_bytes += filled.zero_bytes;
  page().submissions += filled.submissions;
}

SharedState::Filled SharedState::counted() const {
  return {page().bytes, page().zero_bytes, page().submissions};
}

void SharedState::set_offset(size_t number, uint64_t offset) { offsets()[number] = offset; }
uint64_t SharedState::offset(size_t number) const { return offsets()[number]; }

}  // namespace amdgpu_criu::restore
