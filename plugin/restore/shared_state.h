// SPDX-License-Identifier: GPL-2.0
// State that CRIU's main process shares with the tasks that it forks.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "image/mappings.h"
#include "image/set.h"

namespace amdgpu_criu::restore {

// Stores descriptors for all processes of one restore. A stored descriptor occupies no number in a
// restored task, whose own files may need any number.
class FdStore {
 public:
  virtual ~FdStore() = default;
  // True if a process that is forked now can use it; otherwise only tasks can.
  virtual bool is_ready() const = 0;
  virtual Result<int> add(const Fd& fd) = 0;
  // A new descriptor of the same open file.
  virtual Result<Fd> get(int id) = 0;
  // Forgets these descriptors. The ids of all others stay. No other process may use the store.
  virtual Status drop(const std::set<int>& ids) = 0;
};

// Numbers of the things that the tasks of one restore share. They are assigned from the images
// before the first task is forked, and so are the same in all tasks.
class Layout {
 public:
  explicit Layout(const image::Set& images);

  // Jobs that are done once, by the first task that needs them: restoring a process's /dev/kfd,
  // restoring an open render-node file, filling an object. Objects come last.
  size_t jobs() const { return units_.size() + objects_.size(); }
  size_t job_of(image::TableId table) const { return units_.at(table); }
  size_t job_of_object(uint64_t object_id) const { return objects_.at(object_id); }

  // Open files that several tasks use.
  size_t files() const { return files_; }
  size_t file_of_kfd(uint32_t process) const { return kfd_files_.at(process); }
  size_t file_of_render(uint32_t render) const { return render_files_.at(render); }
  size_t file_of_vm(const image::VmId& vm) const { return vm_files_.at(vm); }

  // Offsets for mmap() after the restore. Those of one table's BOs are consecutive.
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
  // patience: how long wait() waits without progress of others.
  static Result<SharedState> create(const Layout& layout,
                                    std::chrono::milliseconds patience = std::chrono::minutes(5));
  // The descendants of CRIU's main process have this mapping.
  const void* address() const { return mapping_.data(); }

  using Make = std::function<Result<int>()>;
  // The store's id of the session, and of a shared file. The first caller calls `make`.
  Result<int> session_id(const Make& make);
  Result<int> file_id(size_t file, const Make& make);
  // -1 if it was not made.
  int session_id() const;
  int file_id(size_t file) const;
  // All that were made.
  std::set<int> stored_ids() const;

  // True: the caller must do the job and end() it. False: it is done. Waits while another process
  // does the job; an error if it failed there.
  Result<bool> begin(size_t job);
  void end(size_t job, bool success);
  // Waits until another process has done the job. Gives up only if no job was begun or ended for a
  // while, and none is in progress.
  Status wait(size_t job);
  bool is_done(size_t job) const;

  // Hands a job from one process to another: take() returns true to one of the callers after
  // give(). Further calls of give() have no effect.
  void give(size_t job);
  bool take(size_t job);
  // No more jobs will be given.
  void close();
  bool is_closed() const;

  // The first call of either decides for all processes. True: the caller has decided.
  bool commit();
  bool give_up();

  // Changes at every event that others may wait for. wait_for_change() returns at once if the value
  // differs from `seen`, and may return early.
  uint32_t changes() const;
  void wait_for_change(uint32_t seen) const;

  // Keeps the first text of all processes.
  void note_failure(std::string_view text);
  // The kept text; empty: none.
  std::string failure() const;

  // Adds what one process has filled to the sum of all.
  struct Filled {
    uint64_t bytes = 0;        // of objects
    uint64_t zero_bytes = 0;   // of these, not stored
    uint64_t submissions = 0;  // to the GPUs
  };
  void count(const Filled& filled);
  Filled counted() const;

  void set_offset(size_t number, uint64_t offset);
  uint64_t offset(size_t number) const;

 private:
  enum Verdict : int { kOpen, kCommitted, kGivenUp };
  enum State : int { kNotBegun, kGiven, kBegun, kDone, kFailed };
  struct Page;
  SharedState(Mapping mapping, const Layout& layout, std::chrono::milliseconds patience);
  Page& page() const;
  Result<int> made_once(std::atomic<int>& id, const Make& make);
  void changed();
  bool decide(Verdict verdict);
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

// A job in progress. Its destructor reports failure unless done() was called.
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
