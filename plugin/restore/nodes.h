// SPDX-License-Identifier: GPL-2.0
// Opens device nodes of GPUs in a restored task.
//
// The task may be in a container, whose /dev is restored from the images, with the numbers of the
// dumped machine. If it lacks a node, the task makes it there, because only a file of the
// container's own mounts can be dumped again, or else opens that of this machine. The device cgroup
// of the container decides whether it may open either.
#pragma once

#include <memory>

#include "host/host.h"
#include "restore/shared_state.h"

namespace amdgpu_criu::restore {

class Nodes {
 public:
  // In CRIU's main process, before tasks are forked.
  static Result<Nodes> create(const host::Host& host, FdStore& store);

  Result<Fd> open_kfd() const;
  Result<Fd> open_render(unsigned minor) const;

  // Whether the task may open the node through its own /dev, or through any.
  bool has_render(unsigned minor) const;
  bool may_open_render(unsigned minor) const;

 private:
  Nodes(const host::Host& host, FdStore& store) : host_(&host), store_(&store) {}
  void make_render(unsigned minor) const;
  template <typename Open>
  Result<Fd> open(Result<Fd> own_directory, const std::optional<int>& this_machine,
                  const Open& open) const;

  const host::Host* host_;
  FdStore* store_;
  // The store has directories of CRIU's main process, except with CRIU 4.1 or without a GPU.
  std::optional<int> kfd_directory_;
  std::optional<int> render_directory_;
};

}  // namespace amdgpu_criu::restore
