// SPDX-License-Identifier: GPL-2.0
// What CRIU's main process and the restored tasks, forked from it, know of one another.
#pragma once

#include <atomic>
#include <functional>
#include <span>

#include "base/fd.h"
#include "base/result.h"
#include "restore/layout.h"

namespace amdgpu_criu::restore {

class SharedState {
 public:
  static Result<SharedState> create(const Layout& layout);
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
  // Until somebody else has done it.
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
  SharedState(Mapping mapping, const Layout& layout);
  Page& page() const;
  Result<int> made_once(std::atomic<int>& id, const Make& make);
  void changed();
  std::span<std::atomic<uint64_t>> offsets() const;
  std::span<std::atomic<int>> files() const;
  std::span<std::atomic<int>> jobs() const;

  Mapping mapping_;
  size_t num_offsets_ = 0;
  size_t num_files_ = 0;
  size_t num_jobs_ = 0;
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
