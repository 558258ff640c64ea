// SPDX-License-Identifier: GPL-2.0
#include "host/run_directory.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <thread>

namespace amdgpu_criu::host {
namespace {

constexpr std::chrono::milliseconds kPoll{20};

}  // namespace

Result<RunDirectory> open_run_directory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return Error::system("cannot make {}", path);
  RunDirectory result{TRY(Fd::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)), false};
  struct stat status;
  if (fstat(result.directory.get(), &status) != 0) return Error::system("cannot examine {}", path);
  if (status.st_uid != geteuid())
    return Error::of(EPERM, "{} belongs to user {}", path, status.st_uid);
  result.was_open = status.st_mode & (S_IRWXG | S_IRWXO);
  if (result.was_open && fchmod(result.directory.get(), 0700) != 0)
    return Error::system("cannot close {} to others", path);
  return result;
}

Status lock_within(const Fd& file, std::chrono::milliseconds patience, const std::string& why) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return Error::system("cannot take a lock");
    if (std::chrono::steady_clock::now() >= end) return Error(ETIMEDOUT, why);
    std::this_thread::sleep_for(kPoll);
  }
  return {};
}

}  // namespace amdgpu_criu::host
