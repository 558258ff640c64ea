// SPDX-License-Identifier: GPL-2.0
// Which processes of this machine have dma-bufs open.
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

// Of all processes that the caller may examine, except for itself and `these`.
Result<std::vector<DmabufFile>> dmabufs_of_others(const Host& host, const std::set<pid_t>& these);

}  // namespace amdgpu_criu::host
