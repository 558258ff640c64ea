// SPDX-License-Identifier: GPL-2.0
// Feeds damaged metadata to the decoders of all kinds of image files. Accepted metadata must
// survive encoding and decoding unchanged, and a set of images must accept or refuse it.
//
// An input is a kind and edits of the sample of that kind, so that inputs pass the checksum and
// have all fields.
#include <cstdlib>

#include "image/set.h"

namespace amdgpu_criu::image {
namespace {

topology::Gpu sample_gpu() {
  topology::Gpu gpu;
  gpu.gpu_id = 0x22;
  gpu.pci_address = "0000:03:00.0";
  gpu.properties = {{"simd_count", 32}};
  gpu.links = {{0x99, 11}};
  return gpu;
}

kernel::Bo sample_bo() {
  kernel::Bo bo{};
  bo.object_id = 7;
  bo.size = 4096;
  bo.mmap_offset = 0x100000000;
  bo.gpu_id = 0x22;
  bo.flags = AMDGPU_CRIU_BO_CONTENTS;
  return bo;
}

Process sample_process() {
  Process process;
  process.comm = "job";
  process.devices = {{0x22, 0x22, true, sample_gpu()}};
  process.bos = {sample_bo()};
  process.vmas = {{0x1000, 0x2000, 0x100000000, false, 0x22}};
  process.blob.emplace(3);
  process.imports = {{{sample_bo(), {std::byte{4}}}, sample_gpu()}};
  return process;
}

Render sample_render() {
  Render render;
  render.holders = {41, 42};
  render.gpu = sample_gpu();
  render.bos = {sample_bo()};
  render.vm = VmId{0, 0x22};
  return render;
}

Contents sample_contents() {
  Contents contents;
  contents.gpu = sample_gpu();
  contents.sources = {{1, contents_file_name(0, 0x22), {}}};
  const Chunk here{.offset = kDataStart, .size = 4096};
  const Chunk earlier{.offset = kDataStart, .source = 1, .size = 4096};
  contents.objects = {{7, 8192, {here, earlier}, {}}};
  return contents;
}

std::vector<std::byte> sample_of(Kind kind) {
  switch (kind) {
    case Kind::kProcess:
      return encode(sample_process());
    case Kind::kRender:
      return encode(sample_render());
    case Kind::kFile:
      return encode(File{{}, 3, 0, Exported{{sample_bo(), {}}, sample_gpu()}});
    case Kind::kContents:
      break;
  }
  return encode(sample_contents());
}

// Each edit is a place (2 bytes), an operation, and a byte.
void edit(std::vector<std::byte>& bytes, std::span<const uint8_t> edits) {
  for (; edits.size() >= 4; edits = edits.subspan(4)) {
    const size_t at = (edits[0] | edits[1] << 8) % (bytes.size() + 1);
    const auto place = bytes.begin() + static_cast<ptrdiff_t>(at);
    if (edits[2] % 3 == 0)
      bytes.insert(place, std::byte{edits[3]});
    else if (place != bytes.end() && edits[2] % 3 == 1)
      *place = std::byte{edits[3]};
    else if (place != bytes.end())
      bytes.erase(place);
  }
}

template <typename Record>
void check(Opened& opened, Result<Record> (*decode)(const Opened&)) {
  const auto first = decode(opened);
  if (!first.ok()) return;
  opened.metadata = encode(*first);
  const auto second = decode(opened);
  if (!second.ok() || encode(*second) != opened.metadata) abort();
  if constexpr (std::is_same_v<Record, Process>) (void)Set::of({{first->index, *first}}, {});
  if constexpr (std::is_same_v<Record, File>) (void)Set::of({}, {{first->id, *first}});
}

}  // namespace
}  // namespace amdgpu_criu::image

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace amdgpu_criu::image;
  if (size == 0) return 0;
  const auto kind = static_cast<Kind>(data[0] % 4 + 1);
  Opened opened;
  opened.name = "fuzz";
  opened.data_end = kDataStart + 4096;
  opened.metadata = sample_of(kind);
  opened.format = kFormat;
  edit(opened.metadata, std::span(data, size).subspan(1));
  if (kind == Kind::kProcess) check(opened, decode_process);
  if (kind == Kind::kRender) check(opened, decode_render);
  if (kind == Kind::kFile) check(opened, decode_file);
  if (kind == Kind::kContents) check(opened, decode_contents);
  return 0;
}
