// SPDX-License-Identifier: GPL-2.0
// The image files of CRIU's own amdgpu plugin, 4.1 to 4.3. Each begins with the size of the rest,
// in 8 bytes. The rest is a protobuf message, or in amdgpu-pages-ID-GPUID.img the contents of the
// BOs in VRAM and GTT of one GPU, in the order of the table. There is no magic, version or
// checksum: only lengths and numbers can be checked against each other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "image/set.h"

namespace amdgpu_criu::foreign {

// The place of the contents of one BO.
struct FileRange {
  std::string file;
  uint64_t offset = 0;
};

struct Bo {
  uint64_t va = 0;
  uint64_t size = 0;
  uint64_t mmap_offset = 0;
  uint32_t alloc_flags = 0;
  uint32_t gpu_id = 0;
  std::optional<FileRange> contents;
};

// One open /dev/kfd, and the process that it belongs to. The images identify a GPU only by the
// number that the process used.
struct Kfd {
  std::string name;
  uint32_t file_id = 0;  // CRIU's
  uint32_t pid = 0;      // in the process's own pid namespace
  std::vector<topology::Gpu> gpus;
  std::vector<Bo> bos;
  uint32_t num_objects = 0;
  std::vector<std::byte> private_data;
};

// An open render node.
struct Render {
  std::string name;
  uint32_t file_id = 0;
  uint32_t gpu_id = 0;
};

struct Images {
  std::vector<Kfd> kfds;
  std::vector<Render> renders;
  uint64_t contents_bytes = 0;
};

// Names of such images in the directory; empty: there are none.
Result<std::vector<std::string>> list_files(int directory);
// Does not wait, whatever kind of file it is.
Result<Fd> open_file(int directory, const std::string& name);
// Reads and checks all of them; an error names the file.
Result<Images> read(int directory);

// Converts them to the set of images that a restore reads, without contents.
Result<image::Set> make_set(const Images& images);
// Objects of the set are numbered over all BOs, beginning with 1.
const Bo* find_object(const Images& images, uint64_t object_id);

}  // namespace amdgpu_criu::foreign
