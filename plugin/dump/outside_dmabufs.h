// SPDX-License-Identifier: GPL-2.0
// Dma-bufs that processes outside of a paused tree have open. Such a process may have no GPU file,
// and OUTSIDE does not examine descriptors.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>

#include "host/dmabufs.h"
#include "kernel/kernel_api.h"

namespace amdgpu_criu::dump {

class OutsideDmabufs {
 public:
  OutsideDmabufs() = default;
  // tree: its processes, whose descriptors do not count
  static Result<OutsideDmabufs> find(const host::Host& host, const std::set<pid_t>& tree);

  // Such a descriptor of the same dma-buf as ours; null: none.
  const host::DmabufFile* same_as(int dmabuf) const;

  struct Shared {
    kernel::Bo bo;
    pid_t pid;
  };
  // The first BO of the table whose dma-buf is one of these. node: of any render node
  Result<std::optional<Shared>> find_bo(kernel::Api& api, kernel::Node node, int session,
                                        std::span<const kernel::Bo> bos) const;

 private:
  std::map<ino_t, host::DmabufFile> files_;
  std::set<uint64_t> sizes_;
};

}  // namespace amdgpu_criu::dump
