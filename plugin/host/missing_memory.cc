// SPDX-License-Identifier: GPL-2.0
#include "host/missing_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/log.h"

namespace amdgpu_criu::host {
namespace {

// process_vm_readv(2) waits for a page; /proc/PID/mem would fail.
Status read_memory(pid_t pid, uint64_t start, uint64_t end, std::vector<std::byte>& buffer) {
  while (start < end) {
    const iovec to{buffer.data(), buffer.size()};
    const iovec from{reinterpret_cast<void*>(start), std::min(buffer.size(), end - start)};
    const ssize_t size = process_vm_readv(pid, &to, 1, &from, 1, 0);
    if (size <= 0)
      return Error::system("process {}: cannot fetch its memory at {:#x}, which the GPU may use",
                           pid, start);
    start += static_cast<uint64_t>(size);
  }
  return {};
}

}  // namespace

// The daemon and CRIU have the same working directory. The socket may be of an earlier restore.
bool may_miss_memory() { return access("lazy-pages.socket", F_OK) == 0; }

Status fetch_missing_memory(pid_t pid) {
  constexpr size_t kAtOnce = 1 << 20;
  std::vector<std::byte> buffer(kAtOnce);
  std::ifstream maps(formatted("/proc/{}/smaps", pid));
  if (!maps) return Error::system("process {}: cannot find its memory that the GPU may use", pid);
  uint64_t start = 0, end = 0, bytes = 0;
  bool readable = false;
  for (std::string line; std::getline(maps, line);) {
    uint64_t first = 0, last = 0;
    char dash = 0;
    std::string permissions;
    std::istringstream fields(line);
    if (fields >> std::hex >> first >> dash >> last >> permissions && dash == '-') {
      start = first, end = last, readable = permissions.starts_with('r');
      continue;
    }
    // Registered with userfaultfd(2).
    if (!readable || !line.starts_with("VmFlags:") || (line + ' ').find(" um ") == line.npos)
      continue;
    TRY(read_memory(pid, start, end, buffer));
    bytes += end - start;
  }
  log_info("process {}: fetched {} bytes of memory before its GPU work", pid, bytes);
  return {};
}

}  // namespace amdgpu_criu::host
