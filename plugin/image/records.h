// SPDX-License-Identifier: GPL-2.0
// What the image files say, as plain structures. encode.cc and decode.cc alone know protobuf-c.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "image/checksum.h"
#include "image/container.h"
#include "kernel/api.h"
#include "topology/topology.h"

namespace image {

// Random; the same in all files of one dump.
using DumpId = std::array<std::byte, 16>;
DumpId new_dump_id();

struct Device {
  uint32_t gpu_id = 0;
  uint32_t actual_gpu_id = 0;
  bool has_vm = false;
  topology::Gpu gpu;
};

struct Vma {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t offset = 0;
  bool kfd = false;
  uint32_t gpu_id = 0;  // of Device, when !kfd
};

struct Process {
  DumpId dump_id{};
  uint32_t index = 0;
  uint32_t pid = 0;  // in the process's own pid namespace
  std::string comm;
  std::vector<Device> devices;
  std::vector<kernel::Bo> bos;
  std::vector<Vma> vmas;
  std::vector<std::byte> blob;
  uint32_t num_queues = 0;
  uint32_t num_events = 0;
  uint32_t num_svm_ranges = 0;
};

struct File {
  DumpId dump_id{};
  uint32_t id = 0;
  uint32_t process = 0;
  bool kfd = false;
  uint32_t gpu_id = 0;
  uint32_t status_flags = 0;
};

struct Chunk {
  uint64_t offset = 0;
  uint32_t size = 0;
  Sum sum{};
};

struct Object {
  uint64_t object_id = 0;
  uint64_t size = 0;
  std::vector<Chunk> chunks;
};

struct Contents {
  DumpId dump_id{};
  uint32_t process = 0;
  uint32_t gpu_id = 0;
  std::vector<Object> objects;
};

std::string process_file_name(uint32_t index);
std::string file_file_name(uint32_t id);
std::string contents_file_name(uint32_t process, uint32_t gpu_id);

std::vector<std::byte> encode(const Process& process);
std::vector<std::byte> encode(const File& file);
std::vector<std::byte> encode(const Contents& contents);

// Refuse missing fields and inconsistencies within the one file; errors name it.
Result<Process> decode_process(const Opened& from);
Result<File> decode_file(const Opened& from);
Result<Contents> decode_contents(const Opened& from);

}  // namespace image
