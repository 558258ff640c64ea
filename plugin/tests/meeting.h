// SPDX-License-Identifier: GPL-2.0
// Shows that threads run at the same time.
#pragma once

#include <condition_variable>
#include <mutex>

#include "tests/patience.h"

namespace amdgpu_criu::testing_support {

// Waits until that many threads are here at the same time.
class Meeting {
 public:
  explicit Meeting(unsigned wanted) : wanted_(wanted) {}
  void join() {
    std::unique_lock guard(lock_);
    here_++;
    held_ |= here_ >= wanted_;
    changed_.notify_all();
    over_ |= !changed_.wait_for(guard, patient(std::chrono::seconds(10)),
                                [&] { return held_ || over_; });
    here_--;
  }
  bool held() const { return held_; }

 private:
  const unsigned wanted_;
  std::mutex lock_;  // protects the members below
  std::condition_variable changed_;
  unsigned here_ = 0;
  bool held_ = false;
  bool over_ = false;  // a thread has waited long enough
};

}  // namespace amdgpu_criu::testing_support
