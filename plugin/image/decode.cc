// SPDX-License-Identifier: GPL-2.0
#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "amdgpu_criu.pb-c.h"
#include "image/records.h"
#include "image/set.h"

namespace amdgpu_criu::image {
namespace {

constexpr uint64_t kPageMask = 4095;

template <typename T, void (*Free)(T*, ProtobufCAllocator*)>
struct Freer {
  void operator()(T* message) const { Free(message, nullptr); }
};
using ProcessMessage =
    std::unique_ptr<AmdgpuCriu__Pb__Process,
                    Freer<AmdgpuCriu__Pb__Process, amdgpu_criu__pb__process__free_unpacked>>;
using RenderMessage =
    std::unique_ptr<AmdgpuCriu__Pb__Render,
                    Freer<AmdgpuCriu__Pb__Render, amdgpu_criu__pb__render__free_unpacked>>;
using FileMessage =
    std::unique_ptr<AmdgpuCriu__Pb__File,
                    Freer<AmdgpuCriu__Pb__File, amdgpu_criu__pb__file__free_unpacked>>;
using ContentsMessage =
    std::unique_ptr<AmdgpuCriu__Pb__Contents,
                    Freer<AmdgpuCriu__Pb__Contents, amdgpu_criu__pb__contents__free_unpacked>>;

template <typename Pointer, typename Unpack>
Pointer unpack(const Opened& from, Unpack function) {
  return Pointer(function(nullptr, from.metadata.size(),
                          reinterpret_cast<const uint8_t*>(from.metadata.data())));
}

Bytes bytes_of(const ProtobufCBinaryData& data) {
  return std::as_bytes(std::span(data.data, data.len));
}

std::vector<std::byte> copy_of(const ProtobufCBinaryData& data) {
  const Bytes bytes = bytes_of(data);
  return {bytes.begin(), bytes.end()};
}

template <typename Message>
Result<DumpId> dump_id_of(const Message& message, const Opened& from) {
  DumpId id;
  if (!message.has_dump_id || message.dump_id.len != id.size())
    return bad(from.name, "has no dump id");
  memcpy(id.data(), message.dump_id.data, id.size());
  return id;
}

// protobuf-c returns 0 for a field that was never set. It is refused where 0 is not a valid value.
Result<topology::Gpu> decode(const AmdgpuCriu__Pb__Gpu* message, const Opened& from) {
  topology::Gpu gpu;
  if (!message || message->gpu_id == 0) return bad(from.name, "a GPU is not described");
  gpu.gpu_id = message->gpu_id;
  gpu.render_minor = message->render_minor;
  gpu.unique_id = message->unique_id;
  gpu.pci_address = message->pci_address ? message->pci_address : "";
  for (size_t i = 0; i < message->n_property; i++)
    if (message->property[i]->name)
      gpu.properties[message->property[i]->name] = message->property[i]->value;
  for (size_t i = 0; i < message->n_link; i++)
    gpu.links[message->link[i]->gpu_id] = message->link[i]->type;
  return gpu;
}

Result<Device> decode(const AmdgpuCriu__Pb__Device& message, const Opened& from) {
  Device device;
  if (!message.has_gpu_id || !message.has_actual_gpu_id || !message.gpu)
    return bad(from.name, "a device is incomplete");
  device.gpu_id = message.gpu_id;
  device.actual_gpu_id = message.actual_gpu_id;
  device.has_vm = message.has_vm;
  device.gpu = TRY(decode(message.gpu, from));
  if (device.gpu.gpu_id != device.actual_gpu_id)
    return bad(from.name, "a device's description is of another GPU");
  return device;
}

Result<kernel::Bo> decode(const AmdgpuCriu__Pb__Bo& message, const Opened& from) {
  kernel::Bo bo{};
  bo.object_id = message.object_id;
  bo.size = message.size;
  bo.va = message.va;
  bo.mmap_offset = message.mmap_offset;
  bo.gpu_id = message.gpu_id;
  bo.handle = message.handle;
  bo.domain = message.domain;
  bo.flags = message.flags;
  // GDS, GWS and OA have other units, but are neither copied nor mapped.
  const bool pages = bo.flags & AMDGPU_CRIU_BO_CONTENTS || bo.mmap_offset != ~0ull;
  if (bo.object_id == 0 || bo.size == 0 || (pages && bo.size & kPageMask))
    return bad(from.name, "a BO is incomplete");
  return bo;
}

Result<Exported> decode(const AmdgpuCriu__Pb__Exported& message, const Opened& from) {
  if (!message.bo || !message.has_blob) return bad(from.name, "an exported object is incomplete");
  Exported exported;
  exported.state.bo = TRY(decode(*message.bo, from));
  exported.state.blob = copy_of(message.blob);
  exported.gpu = TRY(decode(message.gpu, from));
  if (exported.state.bo.gpu_id != 0 && exported.state.bo.gpu_id != exported.gpu.gpu_id)
    return bad(from.name, "an exported object's GPU is another one than described");
  return exported;
}

Vma decode(const AmdgpuCriu__Pb__Vma& message) {
  return {message.start, message.end,    message.offset,
          !!message.kfd, message.gpu_id, !!message.inaccessible};
}

Status check(const Process& process, const Opened& from) {
  std::set<uint32_t> gpus;
  for (const Device& device : process.devices)
    if (!gpus.insert(device.gpu_id).second) return bad(from.name, "names a GPU twice");
  for (const kernel::Bo& bo : process.bos)
    if (!gpus.contains(bo.gpu_id)) return bad(from.name, "a BO is on a GPU that is not described");
  if (!process.blob && !(process.devices.empty() && process.bos.empty()))
    return bad(from.name, "has no state of /dev/kfd, but GPUs of it");
  for (const Vma& vma : process.vmas) {
    if (vma.start >= vma.end || (vma.start | vma.end | vma.offset) & kPageMask)
      return bad(from.name, "a mapping is inconsistent");
  }
  return {};
}

// A name from a file must not lead out of its directory.
Result<Source> decode(const AmdgpuCriu__Pb__Source& message, const Opened& from) {
  Source source;
  source.depth = message.depth;
  source.name = message.name ? message.name : "";
  if (source.depth == 0 || source.depth > kMaxSourceDepth ||
      kind_of(source.name) != Kind::kContents || source.name.find('/') != std::string::npos ||
      message.metadata_sum.len != sizeof(source.metadata_sum))
    return bad(from.name, "a file of an earlier dump is not named properly");
  memcpy(source.metadata_sum.data(), message.metadata_sum.data, sizeof(source.metadata_sum));
  return source;
}

// Takes the first `count` items off the index, which has as many.
template <typename T>
std::vector<T> take(Bytes& index, size_t count) {
  std::vector<T> result(count);
  std::ranges::copy(index.first(count * sizeof(T)),
                    std::as_writable_bytes(std::span(result)).begin());
  index = index.subspan(count * sizeof(T));
  return result;
}

// sources: the number of those of the file.
Status check(const Chunk& chunk, size_t sources, const Opened& from) {
  if (const auto encoding = static_cast<unsigned>(chunk.encoding);
      encoding > pipeline::kLastEncoding)
    return Error::of(EOPNOTSUPP, "image {}: has a chunk of encoding {}, which is newer than this",
                     from.name, encoding);
  if (chunk.size == 0 || chunk.size > kMaxChunk) return bad(from.name, "a chunk has a bad size");
  const bool zeros = chunk.encoding == pipeline::Encoding::kZeros;
  if (zeros && (chunk.offset != 0 || chunk.source != 0))
    return bad(from.name, "a chunk of zeros has a place in a file");
  if (!zeros && (chunk.stored() == 0 || chunk.stored() > chunk.size))
    return bad(from.name, "the stored size of a chunk is invalid");
  if (chunk.source > sources) return bad(from.name, "a chunk is in a file that is not named");
  return {};
}

// next: the place in the file where the data of the next chunk must begin: without gaps in the
// file, a checksum covers every byte.
Result<Object> decode(const AmdgpuCriu__Pb__Object& message, const Opened& from, size_t sources,
                      Bytes& index, uint64_t& next) {
  Object object{message.object_id, message.size, {}, {}};
  const size_t each = sizeof(Chunk) + (message.hashed ? sizeof(Hash) : 0);
  if (object.object_id == 0 || object.size == 0 || message.num_chunks > index.size() / each)
    return bad(from.name, "an object's chunk index is incomplete");
  object.chunks = take<Chunk>(index, message.num_chunks);
  if (message.hashed) object.hashes = take<Hash>(index, message.num_chunks);
  uint64_t covered = 0;
  for (const Chunk& chunk : object.chunks) {
    TRY(check(chunk, sources, from));
    covered += chunk.size;
    if (chunk.source != 0 || chunk.stored() == 0) continue;
    if (chunk.offset != next || chunk.stored() > from.data_end - next)
      return bad(from.name, "a chunk is at a wrong offset");
    next += chunk.stored();
  }
  if (covered != object.size) return bad(from.name, "an object's chunks do not cover it");
  return object;
}

template <typename Message, typename Record>
Status decode_tables(const Message& message, const Opened& from, Record& record) {
  for (size_t i = 0; i < message.n_bo; i++) record.bos.push_back(TRY(decode(*message.bo[i], from)));
  for (size_t i = 0; i < message.n_import; i++)
    record.imports.push_back(TRY(decode(*message.import[i], from)));
  return {};
}

Result<FileKind> decode_what(const AmdgpuCriu__Pb__File& message, const Opened& from) {
  if (message.has_process + message.has_render + (message.exported != nullptr) != 1)
    return bad(from.name, "does not say what the file is");
  if (message.has_render) return FileKind(RenderFile{message.render});
  if (message.exported) return FileKind(TRY(decode(*message.exported, from)));
  if (message.kfd) return FileKind(KfdFile{message.process});
  return FileKind(VmFile{{message.process, message.gpu_id}});
}

}  // namespace

Result<Process> decode_process(const Opened& from) {
  auto message = unpack<ProcessMessage>(from, amdgpu_criu__pb__process__unpack);
  if (!message) return bad(from.name, "cannot be decoded");
  Process process;
  process.dump_id = TRY(dump_id_of(*message, from));
  if (!message->has_index || !message->has_pid) return bad(from.name, "is incomplete");
  process.index = message->index;
  process.pid = message->pid;
  process.comm = message->comm ? message->comm : "";
  process.num_queues = message->num_queues;
  process.num_events = message->num_events;
  process.num_svm_ranges = message->num_svm_ranges;
  if (message->has_opened) process.opened = message->opened;
  if (message->has_blob) process.blob = copy_of(message->blob);
  for (size_t i = 0; i < message->n_device; i++)
    process.devices.push_back(TRY(decode(*message->device[i], from)));
  TRY(decode_tables(*message, from, process));
  for (size_t i = 0; i < message->n_vma; i++) process.vmas.push_back(decode(*message->vma[i]));
  TRY(check(process, from));
  return process;
}

Result<Render> decode_render(const Opened& from) {
  auto message = unpack<RenderMessage>(from, amdgpu_criu__pb__render__unpack);
  if (!message) return bad(from.name, "cannot be decoded");
  Render render;
  render.dump_id = TRY(dump_id_of(*message, from));
  if (!message->has_index || !message->has_pid || !message->has_blob)
    return bad(from.name, "is incomplete");
  render.index = message->index;
  render.pid = message->pid;
  render.comm = message->comm ? message->comm : "";
  render.holders.assign(message->holder, message->holder + message->n_holder);
  render.gpu = TRY(decode(message->gpu, from));
  render.blob = copy_of(message->blob);
  if (message->has_vm_process) render.vm = VmId{message->vm_process, message->vm_gpu_id};
  TRY(decode_tables(*message, from, render));
  return render;
}

Result<File> decode_file(const Opened& from) {
  auto message = unpack<FileMessage>(from, amdgpu_criu__pb__file__unpack);
  if (!message) return bad(from.name, "cannot be decoded");
  File file;
  file.dump_id = TRY(dump_id_of(*message, from));
  if (!message->has_id) return bad(from.name, "is incomplete");
  file.id = message->id;
  file.status_flags = message->status_flags;
  file.what = TRY(decode_what(*message, from));
  return file;
}

Result<Contents> decode_contents(const Opened& from) {
  Bytes index = from.metadata;
  uint64_t size = 0;
  if (index.size() >= sizeof(size)) size = take<uint64_t>(index, 1).front();
  if (size == 0 || size > index.size()) return bad(from.name, "cannot be decoded");
  const ContentsMessage message(amdgpu_criu__pb__contents__unpack(
      nullptr, size, reinterpret_cast<const uint8_t*>(index.data())));
  index = index.subspan(size);
  if (!message) return bad(from.name, "cannot be decoded");
  Contents contents;
  contents.dump_id = TRY(dump_id_of(*message, from));
  if (!message->has_part) return bad(from.name, "is incomplete");
  contents.part = message->part;
  contents.gpu = TRY(decode(message->gpu, from));
  for (size_t i = 0; i < message->n_source; i++)
    contents.sources.push_back(TRY(decode(*message->source[i], from)));
  uint64_t next = kDataStart;
  for (size_t i = 0; i < message->n_object; i++)
    contents.objects.push_back(
        TRY(decode(*message->object[i], from, contents.sources.size(), index, next)));
  if (!index.empty()) return bad(from.name, "its index has chunks of no object");
  if (next != from.data_end) return bad(from.name, "has data that its index lacks");
  return contents;
}

}  // namespace amdgpu_criu::image
