// SPDX-License-Identifier: GPL-2.0
// Dma-bufs and files of render nodes that processes outside of a paused tree have open. Such a
// process may have no GPU file of its own, and OUTSIDE does not examine descriptors: a file that
// processes of the tree have open, too, is one paused client to it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "host/files_of_others.h"
#include "kernel/kernel_api.h"

namespace amdgpu_criu::dump {

class OutsideFiles {
 public:
  OutsideFiles() = default;
  // tree: its processes, whose descriptors do not count
  static Result<OutsideFiles> find(const host::Host& host, const std::set<pid_t>& tree);

  // Such a descriptor of the same dma-buf as ours; null: none.
  const host::DmabufFile* same_dmabuf(int dmabuf) const;
  // Such a descriptor of the same open file of a render node as ours; null: none.
  const host::RenderFile* same_render(int render, unsigned minor) const;

  struct Shared {
    kernel::Bo bo;
    pid_t pid;
  };
  // The first BO of the table whose dma-buf is one of these. node: of any render node
  Result<std::optional<Shared>> find_bo(kernel::Api& api, kernel::Node node, int session,
                                        std::span<const kernel::Bo> bos) const;

 private:
  std::map<ino_t, host::DmabufFile> dmabufs_;
  std::set<uint64_t> sizes_;
  std::vector<host::RenderFile> renders_;
};

}  // namespace amdgpu_criu::dump
