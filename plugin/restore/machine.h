// SPDX-License-Identifier: GPL-2.0
// What a restore works with, and which GPU of this machine stands for which of the images.
#pragma once

#include <map>

#include "gpu/engine.h"
#include "host/host.h"
#include "image/set.h"
#include "options/faults.h"
#include "options/options.h"
#include "restore/fd_store.h"
#include "topology/planner.h"

namespace restore {

using base::Fd;
using base::Result;
using base::Status;

struct Environment {
  kernel::Api& api;
  const host::Host& host;
  FdStore& store;
  gpu::EngineFactory make_engine;
  options::Options options;
  const options::Faults& faults;
  Result<int> (*image_directory)();  // another descriptor in each process
};

class Machine {
 public:
  // Finds a GPU for each of the images.
  static Result<Machine> create(const Environment& environment, const image::Set& images);

  const topology::Assignment& targets() const { return targets_; }
  // source: actual gpu_id of the images
  uint32_t target(uint32_t source) const { return targets_.at(source); }
  Result<Fd> open_render(const host::Host& host, uint32_t source) const {
    return host.open_render(minors_.at(target(source)));
  }

 private:
  topology::Assignment targets_;
  std::map<uint32_t, unsigned> minors_;  // render minor by gpu_id now
};

}  // namespace restore
