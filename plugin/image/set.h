// SPDX-License-Identifier: GPL-2.0
// All image files of one dump, read and cross-checked before they are used.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "image/records.h"

namespace amdgpu_criu::image {

// The kind of a file of this name; nullopt: it is not one of ours.
std::optional<Kind> kind_of(std::string_view name);
// Reads one file and checks that it is complete.
Status check_file(const Directory& directory, const std::string& name);
// Names of this plugin's images in the directory.
Result<std::vector<std::string>> list_files(int directory);
// Removes all of them.
Status remove_files(int directory);

class Set {
 public:
  // Verifies header and metadata of every file, and that the files fit together. The chunks in
  // contents files are verified when they are read.
  static Result<Set> load(const Directory& directory);
  // Makes a set of records that come from other images, with the same checks.
  static Result<Set> of(std::map<uint32_t, Process> processes, std::map<uint32_t, File> files);

  // Opened for each use: a restored task does not have the descriptors of CRIU's main process.
  struct ContentsFile {
    std::string name;
    Contents contents;
    uint64_t data_end = 0;
    Sum metadata_sum{};

    uint64_t bytes() const { return data_end - kDataStart; }
    // Refuses a file that is not the one that was verified.
    Result<Opened> open(const Directory& directory) const;
  };

  bool empty() const {
    return processes_.empty() && renders_.empty() && files_.empty() && contents_.empty();
  }
  // The newest of all files.
  uint32_t format() const { return format_; }
  const std::map<uint32_t, Process>& processes() const { return processes_; }
  const std::map<uint32_t, Render>& renders() const { return renders_; }
  const std::map<uint32_t, File>& files() const { return files_; }
  const std::vector<ContentsFile>& contents() const { return contents_; }
  // Every GPU that any file names, by the machine's gpu_id.
  const std::map<uint32_t, topology::Gpu>& gpus() const { return gpus_; }
  // Those of them that a restore needs. A process that opens /dev/kfd gets every GPU that its
  // device cgroup allows; it uses one of them only after it has acquired a VM there, or has mapped
  // it.
  const std::set<uint32_t>& used_gpus() const { return used_gpus_; }
  // Of the memory of that GPU whose contents are in the files.
  uint64_t contents_bytes(uint32_t gpu_id) const;
  // VRAM that each process allocated through /dev/kfd, by the machine's gpu_id. What processes
  // share counts once. Memory of render nodes does not count: the kernel moves it to system memory
  // if VRAM is short.
  using Vram = std::map<uint32_t, uint64_t>;
  std::map<uint32_t, Vram> kfd_vram() const;  // by index

 private:
  friend Status check_file(const Directory& directory, const std::string& name);

  Status add(const Directory& directory, const std::string& name);
  void collect_gpus();
  void collect_gpus_of(const Process& process);
  void add_used(const topology::Gpu& gpu);
  // set_check.cc
  Status check() const;
  Status check_dump_ids() const;
  Status check_files() const;
  Status check_renders() const;
  Status check_mappings() const;
  Status check_objects() const;
  Status check_sources(const Directory& directory) const;

  uint32_t format_ = 0;
  std::map<uint32_t, Process> processes_;  // by index
  std::map<uint32_t, Render> renders_;     // by index
  std::map<uint32_t, File> files_;         // by CRIU's id
  std::vector<ContentsFile> contents_;
  std::map<uint32_t, topology::Gpu> gpus_;
  std::set<uint32_t> used_gpus_;
};

// Calls `visit` with each contents file alone, of which one is in memory at a time.
Status for_each_contents(const Directory& directory,
                         const std::function<Status(Set::ContentsFile file)>& visit);
// All of them.
Result<std::vector<Set::ContentsFile>> load_contents(const Directory& directory);

}  // namespace amdgpu_criu::image
