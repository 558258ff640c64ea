// SPDX-License-Identifier: GPL-2.0
// State that CRIU's main process shares with the restored tasks, which it forks.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <span>

#include "base/fd.h"
#include "base/result.h"
#include "image/mappings.h"
#include "image/set.h"

namespace amdgpu_criu::restore {

// A place for descriptors that all processes of one restore reach. What is in it needs no number
// in the restored task, where every number may be wanted by a file of its own.
class FdStore {
 public:
  virtual ~FdStore() = default;
  // A process that is forked now can use it. Without that, only tasks can.
  virtual bool is_ready() const = 0;
  virtual Result<int> add(const Fd& fd) = 0;
  // A new descriptor of the same open file.
  virtual Result<Fd> get(int id) = 0;
};

// Numbers for what the tasks of one restore share: made from the images before
// the first task is forked, and so the same in all.
class Layout {
 public:
  explicit Layout(const image::Set& images);

  // Work that is done once, by whoever comes first: to restore a process's /dev/kfd, to restore an
  // open render-node file, to fill an object. Objects come last.
  size_t jobs() const { return units_.size() + objects_.size(); }
  size_t job_of(image::TableId table) const { return units_.at(table); }
  size_t job_of_object(uint64_t object_id) const { return objects_.at(object_id); }

  // Open files that several tasks use.
  size_t files() const { return files_; }
  size_t file_of_kfd(uint32_t process) const { return kfd_files_.at(process); }
  size_t file_of_render(uint32_t render) const { return render_files_.at(render); }
  size_t file_of_vm(const image::VmId& vm) const { return vm_files_.at(vm); }

  // Offsets for mmap() after restore: those of a table's BOs follow one another.
  size_t offsets() const { return offsets_; }
  size_t offset_of(image::TableId table, size_t bo) const { return first_offset_.at(table) + bo; }

 private:
  std::map<image::TableId, size_t> units_;
  std::map<uint64_t, size_t> objects_;
  std::map<uint32_t, size_t> kfd_files_;
  std::map<uint32_t, size_t> render_files_;
  std::map<image::VmId, size_t> vm_files_;
  std::map<image::TableId, size_t> first_offset_;
  size_t files_ = 0;
  size_t offsets_ = 0;
};

class SharedState {
 public:
  // patience: how long wait() bears that nobody does anything.
  static Result<SharedState> create(const Layout& layout,
                                    std::chrono::milliseconds patience = std::chrono::minutes(5));
  // Those who have it were forked from CRIU's main process.
  const void* address() const { return mapping_.data(); }

  using Make = std::function<Result<int>()>;
  // The store's id of the one session, and of a shared file; `make` is called by whoever comes
  // first.
  Result<int> session_id(const Make& make);
  Result<int> file_id(size_t file, const Make& make);
  // -1 if nobody made it.
  int session_id() const;
  int file_id(size_t file) const;

  // True: the job is the caller's, who must end() it. False: it was done. Waits while somebody
  // is at it; an error if it failed there.
  Result<bool> begin(size_t job);
  void end(size_t job, bool success);
  // Until somebody else has done it. Gives up only after nobody has begun or ended any job for a
  // while, and none is being done.
  Status wait(size_t job);
  bool is_done(size_t job) const;

  // Of a job that is given by one and taken by another: true for one of those who call take() after
  // give(). To give it again is no harm.
  void give(size_t job);
  bool take(size_t job);
  // Nobody gives anything any more.
  void close();
  bool is_closed() const;

  // Changes with everything that others may wait for. wait_for_change() returns at once if it is
  // not `seen` any more, and may return too early.
  uint32_t changes() const;
  void wait_for_change(uint32_t seen) const;

  void set_offset(size_t number, uint64_t offset);
  uint64_t offset(size_t number) const;

 private:
  enum State : int { kNotBegun, kGiven, kBegun, kDone, kFailed };
  struct Page;
  SharedState(Mapping mapping, const Layout& layout, std::chrono::milliseconds patience);
  Page& page() const;
  Result<int> made_once(std::atomic<int>& id, const Make& make);
  void changed();
  bool is_anyone_busy() const;
  std::span<std::atomic<uint64_t>> offsets() const;
  std::span<std::atomic<int>> files() const;
  std::span<std::atomic<int>> jobs() const;

  Mapping mapping_;
  size_t num_offsets_ = 0;
  size_t num_files_ = 0;
  size_t num_jobs_ = 0;
  std::chrono::milliseconds patience_;
};

// A job that was begun: it has failed unless done() is called.
class Job {
 public:
  Job(SharedState& shared, size_t number) : shared_(&shared), number_(number) {}
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    if (shared_) shared_->end(number_, false);
  }
  void done() { std::exchange(shared_, nullptr)->end(number_, true); }

 private:
  SharedState* shared_;
  size_t number_;
};

}  // namespace amdgpu_criu::restore
