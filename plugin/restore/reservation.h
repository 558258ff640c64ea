// SPDX-License-Identifier: GPL-2.0
// GPU memory that restores have chosen and not allocated yet. Each restore writes a file to one
// directory and keeps it locked, so that restores at the same time respect each other's choice.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

#include "base/fd.h"

namespace amdgpu_criu::restore {

class Reservation {
 public:
  // By gpu_id.
  using Bytes = std::map<uint32_t, uint64_t>;

  // Other restores wait in begin() until take(), or until this object is destroyed.
  static Result<Reservation> begin(const std::string& directory);
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&&) = delete;
  // Ends the reservation, in the process that called take(). A forked process has no effect.
  ~Reservation();

  Bytes of_others() const;
  Status take(const Bytes& bytes);

 private:
  Reservation(std::string directory, Fd turn)
      : directory_(std::move(directory)), turn_(std::move(turn)) {}

  std::string directory_;
  Fd turn_;
  Fd file_;
  std::string path_;  // empty: nothing was taken
  pid_t owner_ = 0;
};

}  // namespace amdgpu_criu::restore
