// SPDX-License-Identifier: GPL-2.0
// The contents of the image files as plain structures. Only encode.cc and decode.cc use protobuf-c.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "image/checksum.h"
#include "image/container.h"
#include "kernel/kernel_api.h"
#include "pipeline/codec.h"
#include "topology/topology.h"

namespace amdgpu_criu::image {

// Random; the same in all files of one dump.
using DumpId = std::array<std::byte, 16>;
DumpId new_dump_id();

struct Device {
  uint32_t gpu_id = 0;  // as the process knows it
  uint32_t actual_gpu_id = 0;
  bool has_vm = false;
  topology::Gpu gpu;
};

struct Vma {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t offset = 0;
  bool kfd = false;
  uint32_t gpu_id = 0;        // actual; of /dev/kfd, Device::gpu_id, 0 if the mapping is of no GPU
  bool inaccessible = false;  // PROT_NONE
};

// One object as operation EXPORTED reports it. bo.gpu_id is the actual one, that of `gpu`.
struct Exported {
  kernel::Exported state;
  topology::Gpu gpu;
};

// A process that has /dev/kfd open, or a GPU node mapped.
struct Process {
  DumpId dump_id{};
  uint32_t index = 0;
  uint32_t pid = 0;  // in the process's own pid namespace
  std::string comm;
  std::vector<Device> devices;
  std::vector<kernel::Bo> bos;  // gpu_id as in Device::gpu_id
  std::vector<Vma> vmas;
  std::optional<std::vector<std::byte>> blob;  // none: it has no /dev/kfd
  std::vector<Exported> imports;               // must exist before it is restored
  uint32_t num_queues = 0;
  uint32_t num_events = 0;
  uint32_t num_svm_ranges = 0;
  std::optional<uint32_t> opened;  // descriptor of /dev/kfd that it had only for the dump
};

// The VM of a process on a GPU that it uses through /dev/kfd.
struct VmId {
  uint32_t process = 0;
  uint32_t gpu_id = 0;  // of Device
  auto operator<=>(const VmId&) const = default;
};

// An open file of a render node.
struct Render {
  DumpId dump_id{};
  uint32_t index = 0;
  uint32_t pid = 0;  // as in Process: in whose memory its userptrs are
  std::string comm;
  std::vector<uint32_t> holders;  // pids
  topology::Gpu gpu;
  std::vector<kernel::Bo> bos;  // gpu_id: actual
  std::vector<std::byte> blob;
  std::vector<Exported> imports;
  std::optional<VmId> vm;  // KFD uses its VM
};

// An open file in CRIU's images is exactly one of these.
struct KfdFile {
  uint32_t process = 0;
};
// A render node whose own state this kernel could not save: it is only opened again, for KFD.
struct VmFile {
  VmId vm;
};
struct RenderFile {
  uint32_t render = 0;
};

using FileKind = std::variant<KfdFile, VmFile, RenderFile, Exported>;

struct File {
  DumpId dump_id{};
  uint32_t id = 0;
  uint32_t status_flags = 0;
  FileKind what;
};

// Terabytes of memory have millions of these. Images have them as they are in memory,
// little-endian: encoded by protobuf-c, they would be in memory three times.
struct Chunk {
  uint64_t offset : 48 = 0;  // in the file that it is in
  uint64_t source : 16 = 0;  // 0: this contents file; else Contents::sources[source - 1]
  uint32_t size = 0;
  uint32_t compressed : 28 = 0;  // bytes in the file, padding included, if compressed
  pipeline::Encoding encoding : 4 = pipeline::Encoding::kPlain;
  Sum sum{};  // of the plain bytes; in an encrypted file, the tag of what is stored

  // Bytes in the file.
  uint32_t stored() const;
};
static_assert(sizeof(Chunk) == 32);  // as criu-amdgpu(1) states

struct Object {
  uint64_t object_id = 0;
  uint64_t size = 0;
  std::vector<Chunk> chunks;
  std::vector<Hash> hashes;  // of each chunk, or none
};

// CRIU's link to the images of the earlier dump.
inline constexpr char kParent[] = "parent";

// A contents file of an earlier dump that chunks are in.
struct Source {
  uint32_t depth = 0;  // of "parent" directories
  std::string name;
  Sum metadata_sum{};
  bool operator==(const Source&) const = default;
};
inline constexpr uint32_t kMaxSourceDepth = 64;
// What members of Chunk can hold.
inline constexpr uint64_t kMaxOffset = (uint64_t{1} << 48) - 1;
inline constexpr uint32_t kMaxSources = UINT16_MAX;

struct Contents {
  DumpId dump_id{};
  uint32_t part = 0;
  topology::Gpu gpu;
  std::vector<Object> objects;
  std::vector<Source> sources;
};

// Upper bounds of the size of the tables and the index in the metadata, the object's entry
// included.
inline constexpr uint64_t kMaxBoBytes = 96;
inline constexpr uint64_t kMaxChunkBytes = 96;

std::string process_file_name(uint32_t index);
std::string render_file_name(uint32_t index);
std::string file_file_name(uint32_t id);
std::string contents_file_name(uint32_t part, uint32_t gpu_id);
// Relative to the image directory.
std::string path_of(const Source& source);

std::vector<std::byte> encode(const Process& process);
std::vector<std::byte> encode(const Render& render);
std::vector<std::byte> encode(const File& file);
std::vector<std::byte> encode(Contents contents);

// Refuse missing fields and inconsistencies within one file; errors name it.
Result<Process> decode_process(const Opened& from);
Result<Render> decode_render(const Opened& from);
Result<File> decode_file(const Opened& from);
Result<Contents> decode_contents(const Opened& from);

}  // namespace amdgpu_criu::image
