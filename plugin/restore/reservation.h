// SPDX-License-Identifier: GPL-2.0
// GPU memory that restores have chosen and not allocated yet. Each restore writes a file to one
// directory and keeps it locked, so that restores at the same time respect each other's choice.
// Nobody but the directory's owner can open anything in it: a lock on it would delay all restores.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "base/fd.h"

namespace amdgpu_criu::restore {

class Reservation {
 public:
  // By gpu_id.
  using Bytes = std::map<uint32_t, uint64_t>;

  // Other restores wait in begin() until take(), or until this object is destroyed. Fails when
  // another one keeps it waiting for longer than that.
  static Result<Reservation> begin(const std::string& directory,
                                   std::chrono::milliseconds patience = std::chrono::seconds(5));
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&&) = delete;
  // Ends the reservation, in the process that called take(). A forked process has no effect.
  ~Reservation();

  Bytes of_others() const;
  // Also if this fails, other restores no longer wait.
  Status take(const Bytes& bytes);
  // In the caller of take(), or in a process that it has forked since: the kernel counts that much
  // memory of the reservation as used from now on.
  void allocated(uint32_t gpu_id, uint64_t bytes) const;

 private:
  Reservation(std::string directory, Fd turn)
      : directory_(std::move(directory)), turn_(std::move(turn)) {}

  struct Entry;
  Status write(const Bytes& bytes);

  std::string directory_;
  Fd turn_;
  Fd file_;
  Mapping entries_;   // of the file
  std::string path_;  // empty: nothing was taken
  pid_t owner_ = 0;
};

}  // namespace amdgpu_criu::restore
