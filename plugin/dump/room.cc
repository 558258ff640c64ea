// SPDX-License-Identifier: GPL-2.0
#include "dump/room.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <climits>

namespace amdgpu_criu::dump {
namespace {

// A write that failed may have left less room than it needed.
constexpr uint64_t kFull = 1 << 20;

uint64_t free_bytes(int directory) {
  struct statvfs room{};
  // A file system without a limit has no blocks.
  if (fstatvfs(directory, &room) != 0 || room.f_blocks == 0) return UINT64_MAX;
  return room.f_bavail * room.f_frsize;
}

}  // namespace

Error with_room(const Error& error, int directory, uint64_t bytes) {
  if (error.code() != ENOSPC && error.code() != EDQUOT) return error;
  char path[PATH_MAX] = "the image directory";
  const ssize_t length =
      readlink(formatted("/proc/self/fd/{}", directory).c_str(), path, sizeof(path) - 1);
  if (length > 0) path[length] = 0;
  const std::string memory =
      bytes ? formatted(", and GPU memory of {} MiB is to be saved", bytes >> 20) : "";
  return Error::of(error.code(),
                   "{}; {} has {} MiB free now{}: make room, choose another directory (criu -D), "
                   "or compress (amdgpu.compress=lz4)",
                   error.message(), path, free_bytes(directory) >> 20, memory);
}

Status with_room(Status status, int directory) {
  return status.ok() ? std::move(status) : with_room(status.error(), directory);
}

Status check_room(int directory, uint64_t bytes) {
  if (bytes <= free_bytes(directory)) return {};
  return Error::of(ENOSPC, "cannot save GPU memory: {}", strerror(ENOSPC));
}

std::string full_disk(int directory) {
  if (free_bytes(directory) >= kFull) return {};
  const Error error = Error::of(ENOSPC, "CRIU's own part: {}", strerror(ENOSPC));
  return with_room(error, directory).message();
}

}  // namespace amdgpu_criu::dump
