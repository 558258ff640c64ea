// SPDX-License-Identifier: GPL-2.0
// Which processes of this machine have dma-bufs or render nodes open.
#pragma once

#include <set>
#include <vector>

#include "host/host.h"

namespace amdgpu_criu::host {

// A descriptor of a process. The kernel gives each dma-buf, of any exporter, an inode of its own.
struct DmabufFile {
  pid_t pid;
  ino_t inode;
  uint64_t size;
};

// A descriptor of a process. kcmp(2) compares what it has open by the thread.
struct RenderFile {
  pid_t pid;
  pid_t thread;
  int number;
  unsigned minor;
};

struct FilesOfOthers {
  std::vector<DmabufFile> dmabufs;
  std::vector<RenderFile> renders;
};

// Of all processes that the caller may examine, except for itself, `these`, and processes that an
// earlier dump has forked, which may still be ending.
Result<FilesOfOthers> files_of_others(const Host& host, const std::set<pid_t>& these);

}  // namespace amdgpu_criu::host
