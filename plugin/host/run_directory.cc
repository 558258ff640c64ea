// SPDX-License-Identifier: GPL-2.0
#include "host/run_directory.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

namespace amdgpu_criu::host {
namespace {

constexpr std::chrono::milliseconds kPoll{20};

}  // namespace

Result<Fd> open_run_directory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return Error::system("cannot make {}", path);
  Fd directory = TRY(Fd::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  struct stat status;
  if (fstat(directory.get(), &status) != 0) return Error::system("cannot examine {}", path);
  if (status.st_uid != geteuid())
    return Error::of(EPERM, "{} belongs to user {}", path, status.st_uid);
  if (!(status.st_mode & (S_IRWXG | S_IRWXO))) return directory;
  // An earlier version of the plugin let any user open and lock its files.
  if (fchmod(directory.get(), 0700) != 0) return Error::system("cannot close {} to others", path);
  for (const char* file : {kTurnOfRestores, kTurnOfFreezes})
    (void)unlinkat(directory.get(), file, 0);
  return directory;
}

Status take_lock(const Fd& file, std::chrono::milliseconds patience, const std::string& why) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return Error::system("cannot take a lock");
    if (std::chrono::steady_clock::now() >= end) return Error(ETIMEDOUT, why);
    std::this_thread::sleep_for(kPoll);
  }
  return {};
}

Result<Fd> lock_in(const Fd& directory, const char* name, std::chrono::milliseconds patience,
                   const std::string& why) {
  Fd file = TRY(Fd::openat(directory.get(), name, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  TRY(take_lock(file, patience, why));
  return file;
}

}  // namespace amdgpu_criu::host
