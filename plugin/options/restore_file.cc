// SPDX-License-Identifier: GPL-2.0
#include "options/restore_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

namespace amdgpu_criu::options {
namespace {

// False: it does not exist, or is in a directory that the caller may not search.
Result<bool> is_ours(const std::string& path, mode_t type) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == EACCES) return false;
    return Error::system("cannot examine {}", path);
  }
  if ((status.st_mode & S_IFMT) != type) return Error::of(EINVAL, "{} is of another type", path);
  if (status.st_uid != 0 && status.st_uid != geteuid())
    return Error::of(EPERM, "{} belongs to user {}", path, status.st_uid);
  if (status.st_mode & (S_IWGRP | S_IWOTH))
    return Error::of(EPERM, "users other than {} may write {}", status.st_uid, path);
  return true;
}

void add_components(const std::string& path, std::vector<std::string>& names) {
  const auto first = static_cast<std::ptrdiff_t>(names.size());
  for (const auto& component : std::filesystem::path(path).relative_path())
    names.push_back(component);
  std::reverse(names.begin() + first, names.end());
}

}  // namespace

Result<std::string> find_restore_file(const std::string& directory, const std::string& images,
                                      const std::string& work) {
  // Only root can create what is above it.
  if (!TRY(is_ours(directory, S_IFDIR))) return std::string();
  std::vector<std::string> names{images.substr(std::min<size_t>(images.size(), 1))};
  std::ranges::replace(names.front(), '/', '-');
  add_components(images, names);
  add_components(work, names);
  for (const std::string& name : names) {
    const std::string path = formatted("{}/{}.conf", directory, name);
    if (TRY(is_ours(path, S_IFREG))) return path;
  }
  return std::string();
}

}  // namespace amdgpu_criu::options
