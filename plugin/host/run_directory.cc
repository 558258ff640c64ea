// SPDX-License-Identifier: GPL-2.0
#include "host/run_directory.h"

#include <sys/stat.h>

namespace amdgpu_criu::host {

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

}  // namespace amdgpu_criu::host
