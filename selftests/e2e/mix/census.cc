// SPDX-License-Identifier: GPL-2.0
#include "mix/census.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Result;

bool is_gpu_node(const std::string& path) {
  return path == "/dev/kfd" || path.starts_with("/dev/dri/");
}

// "START-END PERMISSIONS PATH", of a line of smaps that begins a mapping of a GPU; else "".
std::string mapping_of(const std::string& line) {
  std::istringstream in(line);
  std::string range, permissions, offset, device, inode, path;
  in >> range >> permissions >> offset >> device >> inode >> path;
  return is_gpu_node(path) ? range + " " + permissions + " " + path : "";
}

// Flags that belong to the kernel, so a restore need not keep them: pages are tracked as dirty; x86
// frees the memory type with the mapping, unless the mapping was moved or cut.
std::string without_flags_of_kernel(std::string flags) {
  for (const std::string_view flag : {" sd", " ar"})
    if (const size_t at = flags.find(flag); at != flags.npos) flags.erase(at, flag.size());
  return flags;
}

Result<Census> list_mappings() {
  Census census;
  std::ifstream smaps("/proc/self/smaps");
  std::string mapping;
  for (std::string line; std::getline(smaps, line);) {
    if (const size_t colon = line.find(':'); colon == line.npos || line.find('-') < colon)
      mapping = mapping_of(line);
    else if (!mapping.empty() && line.starts_with("VmFlags:"))
      census.push_back(mapping + without_flags_of_kernel(line.substr(8)));
  }
  if (smaps.bad()) return Error(EIO, "cannot read /proc/self/smaps");
  return census;
}

Result<std::vector<int>> list_descriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fd"), closedir);
  if (!directory) return Error::system("cannot read /proc/self/fd");
  std::vector<int> fds;
  while (const dirent* entry = readdir(directory.get()))
    if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(directory.get()))
      fds.push_back(atoi(entry->d_name));
  std::ranges::sort(fds);
  return fds;
}

// Pipes and sockets have other inode numbers after a restore.
std::string kind_of(int fd) {
  char path[256] = {};
  if (readlink(amdgpu_criu::formatted("/proc/self/fd/{}", fd).c_str(), path, sizeof(path) - 1) < 0)
    return "?";
  const std::string target = path;
  return target[0] == '/' ? target : target.substr(0, target.find(':'));
}

std::string describe(int fd, const std::vector<int>& earlier) {
  std::string same;
  for (const int other : earlier)
    if (syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, fd, other) == 0) {
      same = amdgpu_criu::formatted(" the same file as {}", other);
      break;
    }
  return amdgpu_criu::formatted("descriptor {} {} close-on-exec {} flags {:#x}{}", fd, kind_of(fd),
                                fcntl(fd, F_GETFD) & FD_CLOEXEC, fcntl(fd, F_GETFL), same);
}

}  // namespace

Result<Census> take_census() {
  Census census = TRY(list_mappings());
  std::vector<int> earlier;
  for (const int fd : TRY(list_descriptors())) {
    census.push_back(describe(fd, earlier));
    earlier.push_back(fd);
  }
  return census;
}

}  // namespace e2e
