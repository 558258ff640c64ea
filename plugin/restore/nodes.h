// SPDX-License-Identifier: GPL-2.0
// Device nodes of GPUs, as a restored task opens them.
//
// The task may be in a container, whose /dev comes out of the images: what was there is there
// again, with the numbers of the machine of the dump. So where it lacks a node the one of this
// machine is opened, by the task itself: its device cgroup is the container's, and decides.
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

  // Whether the task may open it by its own /dev, or at all.
  bool has_render(unsigned minor) const;
  bool may_open_render(unsigned minor) const;

 private:
  Nodes(const host::Host& host, FdStore& store) : host_(&host), store_(&store) {}
  template <typename Open>
  Result<Fd> open(Result<Fd> own_directory, const std::optional<int>& this_machine,
                  const Open& open) const;

  const host::Host* host_;
  FdStore* store_;
  // Directories of CRIU's main process, in the store. None with CRIU 4.1, nor without a GPU.
  std::optional<int> kfd_directory_;
  std::optional<int> render_directory_;
};

}  // namespace amdgpu_criu::restore
