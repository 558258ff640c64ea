// SPDX-License-Identifier: GPL-2.0
// The checks of `amdgpu-criu check`. Each function has one subject, and returns one line or more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "gpu/engine.h"
#include "host/host.h"

namespace amdgpu_criu::tool {

// kLimited: it works, but more slowly, or not for all processes.
enum class Grade { kGood, kLimited, kBad };

// If the grade is kGood, consequence and remedy are empty.
struct Item {
  std::string what;
  Grade grade;
  std::string found;
  std::string consequence;
  std::string remedy;

  static Item good(std::string what, std::string found) {
    return {std::move(what), Grade::kGood, std::move(found), "", ""};
  }
};

// Defaults are for this machine; tests replace it.
struct Machine {
  host::Config host;
  std::string proc = "/proc";
  std::string cgroups = "/sys/fs/cgroup";
  std::string criu = "criu";
  std::string kernel_release;  // empty: that of uname(2)
  std::string plugin_directory = "/usr/lib/criu";
  std::string image_directory;  // empty: not requested
  gpu::EngineCheck check_engine = gpu::check_sdma;
};

// check_gpu.cc
Item check_driver(const host::Host& host, Fd& kfd);
Item check_interface(const Fd& kfd);
std::vector<Item> check_gpus(const Machine& machine, const host::Host& host);

// check_criu.cc
Item check_criu_version(const Machine& machine);
Item check_criu_kernel(const Machine& machine);
Item check_plugin(const Machine& machine);

// check_system.cc
Item check_kernel(const Machine& machine);
Item check_capability(const Machine& machine);
Item check_kcmp();
Item check_io_uring(const Machine& machine);
Item check_open_files();
Item check_locked_memory(const Machine& machine, unsigned gpus);
Item check_file_size();
Item check_memory_cgroup(const Machine& machine, unsigned gpus);
Item check_images(const Machine& machine, const host::Host& host);

// The capability sets of /proc/self/status.
bool has_capability(const Machine& machine, unsigned capability);
// The tightest memory limit that this process is under, and what is free below it.
struct MemoryLimit {
  std::string group;
  uint64_t limit;
  uint64_t used;

  uint64_t free() const { return limit - used; }
};
std::optional<MemoryLimit> tightest_memory_limit(const Machine& machine);

std::vector<Item> check_all(const Machine& machine);

}  // namespace amdgpu_criu::tool
