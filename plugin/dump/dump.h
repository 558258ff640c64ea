// SPDX-License-Identifier: GPL-2.0
// One dump: pauses processes, writes the images, and lets the processes run on when destroyed.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "dump/paused_process.h"
#include "gpu/engine.h"
#include "host/host.h"
#include "image/records.h"
#include "options/options.h"

namespace dump {

using base::Result;
using base::Status;

struct Environment {
  kernel::Api& api;
  const host::Host& host;
  gpu::EngineFactory make_engine;
  options::Options options;
  Result<int> (*image_directory)();
};

class Dump {
 public:
  explicit Dump(Environment environment) : env_(std::move(environment)) {}
  Dump(const Dump&) = delete;
  Dump& operator=(const Dump&) = delete;

  // To be called for every process of the tree before the first dump_file(). pid must be frozen
  // and traced by the caller. Refuses by name what cannot be carried.
  Status pause(pid_t pid);

  // Writes the image of one open file, and at the first one those of all paused processes. False
  // if the file is not of a GPU.
  Result<bool> dump_file(int fd, uint32_t id);

  bool has_paused() const { return !members_.empty(); }
  // There are images that restore needs.
  bool has_written() const { return has_written_; }

 private:
  struct Member {
    PausedProcess paused;
    std::vector<host::ProcessVma> vmas;
    std::vector<base::Fd> drm_files;  // as devices in `image`
    image::Process image;
  };

  Status pause_owner(const host::ProcessFile& file, pid_t found_in);
  Member* find_member(pid_t pid);
  Status prepare();
  Status checkpoint(Member& member, const std::vector<topology::Gpu>& gpus);
  Status add_vmas(Member& member);
  Status write_contents(Member& member, const image::Device& device);
  Result<image::File> describe_kfd_file(int fd);
  Result<image::File> describe_render_file(int fd, unsigned minor);

  Environment env_;
  image::DumpId id_ = image::new_dump_id();
  // Before members_, so that it is closed after they are unpaused.
  base::Fd session_;
  std::vector<Member> members_;
  std::set<uint64_t> saved_objects_;
  bool prepared_ = false;
  bool has_written_ = false;
};

}  // namespace dump
