// SPDX-License-Identifier: GPL-2.0
#include "options/restore_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cstring>

namespace amdgpu_criu::options {
namespace {

// False: it does not exist, or is in a directory that the caller may not search, or no file can
// have such a name.
Result<bool> is_ours(const std::string& path, mode_t type) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ENAMETOOLONG)
      return false;
    return Error::system("cannot examine {}", path);
  }
  if ((status.st_mode & S_IFMT) != type) return Error::of(EINVAL, "{} is of another type", path);
  if (status.st_uid != 0 && status.st_uid != geteuid())
    return Error::of(EPERM, "{} belongs to user {}", path, status.st_uid);
  if (status.st_mode & (S_IWGRP | S_IWOTH))
    return Error::of(EPERM, "users other than {} may write {}", status.st_uid, path);
  return true;
}

// Different paths have different names, none of which is an ID: it begins with "-".
std::string name_of(const std::string& path) {
  std::string name;
  for (const char c : path) {
    const bool plain = isalnum(static_cast<unsigned char>(c)) || strchr(":_.", c);
    name += c == '/' ? "-"
            : plain  ? std::string(1, c)
                     : formatted("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return name;
}

}  // namespace

Result<std::string> find_restore_file(const std::string& directory, const std::string& images,
                                      const std::string& container) {
  // Only root can create what is above it.
  if (!TRY(is_ours(directory, S_IFDIR))) return std::string();
  for (const std::string& name : {name_of(images), container}) {
    const std::string path = formatted("{}/{}.conf", directory, name);
    if (!name.empty() && TRY(is_ours(path, S_IFREG))) return path;
  }
  return std::string();
}

}  // namespace amdgpu_criu::options
