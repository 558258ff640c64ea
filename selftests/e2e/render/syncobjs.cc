// SPDX-License-Identifier: GPL-2.0
#include "render/syncobjs.h"

#include <cstring>
#include <optional>

#include "workload/control.h"

namespace e2e {

using amdgpu_criu::Result;
using amdgpu_criu::Status;

namespace {
constexpr uint64_t kFirstPoint = 5;
constexpr unsigned kPatienceMs = 20000;
constexpr size_t kStackSize = 256 << 10;
}  // namespace

Result<std::unique_ptr<SyncSet>> SyncSet::create(const RenderDevice& device) {
  SyncObject signaled = TRY(SyncObject::create(device, true));
  std::optional<SyncObject> hole(TRY(SyncObject::create(device)));
  SyncObject unsignaled = TRY(SyncObject::create(device));
  SyncObject timeline = TRY(SyncObject::create(device));
  std::optional<SyncObject> second_hole(TRY(SyncObject::create(device)));
  SyncObject gate = TRY(SyncObject::create(device));
  TRY(timeline.signal(kFirstPoint));
  std::unique_ptr<SyncSet> set(new SyncSet(std::move(signaled), std::move(unsignaled),
                                           std::move(timeline), std::move(gate)));
  set->last_point_ = kFirstPoint;
  set->armed_ = true;
  TRY(set->start());
  return set;
}

// On a stack without guard pages: CRIU before 4.2 cannot save the kind that glibc 2.42 and later
// use.
Status SyncSet::start() {
  stack_ = TRY(amdgpu_criu::Mapping::map(kStackSize, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack_.data(), stack_.size());
  pthread_t thread;
  auto enter = [](void* set) -> void* {
    static_cast<SyncSet*>(set)->wait_at_gate();
    return nullptr;
  };
  const int error = pthread_create(&thread, &attributes, enter, this);
  pthread_attr_destroy(&attributes);
  if (error) return amdgpu_criu::Error::of(error, "cannot start a thread: {}", strerror(error));
  thread_ = thread;
  return {};
}

SyncSet::~SyncSet() {
  if (!thread_) return;
  stop_ = true;
  (void)gate_.signal();
  armed_ = true;
  pthread_join(*thread_, nullptr);
}

void SyncSet::wait_at_gate() {
  while (!stop_) {
    if (!armed_.exchange(false)) {
      pause_ms(1);
      continue;
    }
    const Status status = gate_.wait_forever();
    if (!status.ok()) {
      say("damage: the waiting thread: " + status.error().message());
      failed_ = true;
      return;
    }
    ++passes_;
  }
}

Status SyncSet::check(std::vector<std::string>& problems) {
  if (!TRY(signaled_.is_signaled())) problems.push_back("a signaled syncobj is not signaled");
  if (TRY(unsignaled_.is_signaled())) problems.push_back("an unsignaled syncobj is signaled");
  const uint64_t point = TRY(timeline_.last_point());
  if (point != last_point_)
    problems.push_back(
        amdgpu_criu::formatted("a timeline is at {}, expected {}", point, last_point_));
  for (const uint64_t old : {uint64_t{1}, last_point_})
    if (!TRY(timeline_.is_signaled(old)))
      problems.push_back(amdgpu_criu::formatted("point {} of a timeline is not signaled", old));
  if (TRY(timeline_.is_signaled(last_point_ + 1)))
    problems.push_back("a timeline's next point is signaled");
  last_point_ += 3;
  TRY(timeline_.signal(last_point_));

  if (passes_ != passes_wanted_) problems.push_back("the waiting thread did not wait");
  TRY(gate_.signal());
  ++passes_wanted_;
  for (unsigned ms = 0; passes_ != passes_wanted_ && ms < kPatienceMs && !failed_; ++ms)
    pause_ms(1);
  if (passes_ != passes_wanted_)
    problems.push_back(amdgpu_criu::formatted("the waiting thread passed {} times, expected {}",
                                              passes_.load(), passes_wanted_));
  TRY(gate_.reset());
  armed_ = true;
  return {};
}

}  // namespace e2e
