// SPDX-License-Identifier: GPL-2.0
// Saves the contents of the objects of one dump, each once whatever file or process names it.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "dump/tree.h"
#include "gpu/engine.h"
#include "image/records.h"
#include "options/options.h"

namespace dump {

struct Environment {
  kernel::Api& api;
  const host::Host& host;
  gpu::EngineFactory make_engine;
  options::Options options;
  Result<int> (*image_directory)();
};

class ObjectSaver {
 public:
  ObjectSaver(const Environment& environment, const Tree& tree, const image::DumpId& id)
      : env_(environment), tree_(tree), id_(id) {}

  // bo, of some table, is on that GPU.
  void add(const kernel::Bo& bo, const topology::Gpu& gpu);
  // Saves what was added since the last call: a contents file for each GPU.
  Status save();

 private:
  struct Batch {
    topology::Gpu gpu;
    std::vector<kernel::Bo> bos;
  };
  Status save(const Batch& batch);

  const Environment& env_;
  const Tree& tree_;
  const image::DumpId& id_;
  std::set<uint64_t> known_;
  std::map<uint32_t, Batch> pending_;  // by actual gpu_id
  uint32_t part_ = 0;                  // number of the next call that saves
};

}  // namespace dump
