// SPDX-License-Identifier: GPL-2.0
#include <sys/random.h>

#include <cstring>
#include <deque>

#include "amdgpu_criu.pb-c.h"
#include "image/records.h"

namespace amdgpu_criu::image {
namespace {

// Messages of one type that a repeated field points to. protobuf-c only reads them, although its
// structures lack const.
template <typename Message>
class List {
 public:
  Message& add(const Message& initial) {
    storage_.push_back(initial);
    return storage_.back();
  }
  void put_into(size_t& count, Message**& first) {
    pointers_.clear();
    for (Message& message : storage_) pointers_.push_back(&message);
    count = pointers_.size();
    first = pointers_.data();
  }

 private:
  std::deque<Message> storage_;  // elements do not move
  std::vector<Message*> pointers_;
};

ProtobufCBinaryData binary(Bytes bytes) {
  auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  return {bytes.size(), const_cast<uint8_t*>(data)};
}
char* text(const std::string& string) { return const_cast<char*>(string.c_str()); }

template <typename T, typename Size, typename Pack>
std::vector<std::byte> packed(const T& message, Size size, Pack pack) {
  std::vector<std::byte> result(size(&message));
  pack(&message, reinterpret_cast<uint8_t*>(result.data()));
  return result;
}

#define SET(message, field, value) \
  do {                             \
    (message).has_##field = 1;     \
    (message).field = (value);     \
  } while (0)

// Owns the messages that one encoded message points to.
struct Messages {
  List<AmdgpuCriu__Pb__Device> devices;
  std::deque<AmdgpuCriu__Pb__Gpu> gpus;
  std::deque<List<AmdgpuCriu__Pb__Property>> properties;
  std::deque<List<AmdgpuCriu__Pb__Link>> links;
  List<AmdgpuCriu__Pb__Bo> bos;
  std::deque<AmdgpuCriu__Pb__Bo> single_bos;
  List<AmdgpuCriu__Pb__Vma> vmas;
  List<AmdgpuCriu__Pb__Exported> imports;
};

AmdgpuCriu__Pb__Gpu* add_gpu(Messages& all, const topology::Gpu& gpu) {
  auto& message = all.gpus.emplace_back() = AMDGPU_CRIU__PB__GPU__INIT;
  SET(message, gpu_id, gpu.gpu_id);
  SET(message, render_minor, gpu.render_minor);
  SET(message, unique_id, gpu.unique_id);
  message.pci_address = text(gpu.pci_address);
  auto& properties = all.properties.emplace_back();
  for (const auto& [name, value] : gpu.properties) {
    auto& property = properties.add(AMDGPU_CRIU__PB__PROPERTY__INIT);
    property.name = text(name);
    SET(property, value, value);
  }
  properties.put_into(message.n_property, message.property);
  auto& links = all.links.emplace_back();
  for (const auto& [gpu_id, type] : gpu.links) {
    auto& link = links.add(AMDGPU_CRIU__PB__LINK__INIT);
    SET(link, gpu_id, gpu_id);
    SET(link, type, type);
  }
  links.put_into(message.n_link, message.link);
  return &message;
}

void add_device(Messages& all, const Device& device) {
  auto& message = all.devices.add(AMDGPU_CRIU__PB__DEVICE__INIT);
  SET(message, gpu_id, device.gpu_id);
  SET(message, actual_gpu_id, device.actual_gpu_id);
  SET(message, has_vm, device.has_vm);
  message.gpu = add_gpu(all, device.gpu);
}

void fill(AmdgpuCriu__Pb__Bo& message, const kernel::Bo& bo) {
  SET(message, object_id, bo.object_id);
  SET(message, size, bo.size);
  SET(message, va, bo.va);
  SET(message, mmap_offset, bo.mmap_offset);
  SET(message, gpu_id, bo.gpu_id);
  SET(message, handle, bo.handle);
  SET(message, domain, bo.domain);
  SET(message, flags, bo.flags);
}

void fill(AmdgpuCriu__Pb__Exported& message, Messages& all, const Exported& exported) {
  message.bo = &(all.single_bos.emplace_back() = AMDGPU_CRIU__PB__BO__INIT);
  fill(*message.bo, exported.state.bo);
  SET(message, blob, binary(exported.state.blob));
  message.gpu = add_gpu(all, exported.gpu);
}

void add_tables(Messages& all, const std::vector<kernel::Bo>& bos,
                const std::vector<Exported>& imports) {
  for (const kernel::Bo& bo : bos) fill(all.bos.add(AMDGPU_CRIU__PB__BO__INIT), bo);
  for (const Exported& exported : imports)
    fill(all.imports.add(AMDGPU_CRIU__PB__EXPORTED__INIT), all, exported);
}

void add_vma(Messages& all, const Vma& vma) {
  auto& message = all.vmas.add(AMDGPU_CRIU__PB__VMA__INIT);
  SET(message, start, vma.start);
  SET(message, end, vma.end);
  SET(message, offset, vma.offset);
  SET(message, kfd, vma.kfd);
  SET(message, gpu_id, vma.gpu_id);
  if (vma.inaccessible) SET(message, inaccessible, true);
}

template <typename T>
void append(std::vector<std::byte>& to, std::span<const T> items) {
  const Bytes bytes = std::as_bytes(items);
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

DumpId new_dump_id() {
  DumpId id{};
  // Does not fail for so few bytes once the kernel's pool is ready. Zeros would only weaken the
  // check that files belong together.
  if (getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) id.fill(std::byte{0});
  return id;
}

std::string process_file_name(uint32_t index) { return formatted("amdgpu-process-{}.img", index); }
std::string file_file_name(uint32_t id) { return formatted("amdgpu-file-{:x}.img", id); }
std::string render_file_name(uint32_t index) { return formatted("amdgpu-render-{}.img", index); }
std::string contents_file_name(uint32_t part, uint32_t gpu_id) {
  return formatted("amdgpu-contents-{}-{:x}.img", part, gpu_id);
}

std::string path_of(const Source& source) {
  std::string path;
  for (uint32_t i = 0; i < source.depth; i++) path += std::string(kParent) + "/";
  return path + source.name;
}
uint32_t Chunk::stored() const {
  if (encoding == pipeline::Encoding::kZeros) return 0;
  return encoding == pipeline::Encoding::kPlain ? size : compressed;
}

std::vector<std::byte> encode(const Process& process) {
  Messages all;
  for (const Device& device : process.devices) add_device(all, device);
  add_tables(all, process.bos, process.imports);
  for (const Vma& vma : process.vmas) add_vma(all, vma);
  AmdgpuCriu__Pb__Process message = AMDGPU_CRIU__PB__PROCESS__INIT;
  SET(message, dump_id, binary(process.dump_id));
  SET(message, index, process.index);
  SET(message, pid, process.pid);
  message.comm = text(process.comm);
  all.devices.put_into(message.n_device, message.device);
  all.bos.put_into(message.n_bo, message.bo);
  all.vmas.put_into(message.n_vma, message.vma);
  all.imports.put_into(message.n_import, message.import);
  if (process.blob) SET(message, blob, binary(*process.blob));
  SET(message, num_queues, process.num_queues);
  SET(message, num_events, process.num_events);
  SET(message, num_svm_ranges, process.num_svm_ranges);
  if (process.opened) SET(message, opened, *process.opened);
  return packed(message, amdgpu_criu__pb__process__get_packed_size, amdgpu_criu__pb__process__pack);
}

std::vector<std::byte> encode(const Render& render) {
  Messages all;
  add_tables(all, render.bos, render.imports);
  std::vector<uint32_t> holders = render.holders;
  AmdgpuCriu__Pb__Render message = AMDGPU_CRIU__PB__RENDER__INIT;
  SET(message, dump_id, binary(render.dump_id));
  SET(message, index, render.index);
  SET(message, pid, render.pid);
  message.comm = text(render.comm);
  message.n_holder = holders.size();
  message.holder = holders.data();
  message.gpu = add_gpu(all, render.gpu);
  all.bos.put_into(message.n_bo, message.bo);
  all.imports.put_into(message.n_import, message.import);
  SET(message, blob, binary(render.blob));
  if (render.vm) {
    SET(message, vm_process, render.vm->process);
    SET(message, vm_gpu_id, render.vm->gpu_id);
  }
  return packed(message, amdgpu_criu__pb__render__get_packed_size, amdgpu_criu__pb__render__pack);
}

std::vector<std::byte> encode(const File& file) {
  Messages all;
  AmdgpuCriu__Pb__Exported exported = AMDGPU_CRIU__PB__EXPORTED__INIT;
  AmdgpuCriu__Pb__File message = AMDGPU_CRIU__PB__FILE__INIT;
  SET(message, dump_id, binary(file.dump_id));
  SET(message, id, file.id);
  SET(message, status_flags, file.status_flags);
  if (const auto* kfd = std::get_if<KfdFile>(&file.what)) {
    SET(message, process, kfd->process);
    SET(message, kfd, true);
  } else if (const auto* vm = std::get_if<VmFile>(&file.what)) {
    SET(message, process, vm->vm.process);
    SET(message, kfd, false);
    SET(message, gpu_id, vm->vm.gpu_id);
  } else if (const auto* render = std::get_if<RenderFile>(&file.what)) {
    SET(message, render, render->render);
  } else {
    fill(exported, all, std::get<Exported>(file.what));
    message.exported = &exported;
  }
  return packed(message, amdgpu_criu__pb__file__get_packed_size, amdgpu_criu__pb__file__pack);
}

// Each object is freed when it is encoded, so that a large index is in memory little more than
// once.
std::vector<std::byte> encode(Contents contents) {
  Messages all;
  List<AmdgpuCriu__Pb__Source> sources;
  for (const Source& source : contents.sources) {
    auto& message = sources.add(AMDGPU_CRIU__PB__SOURCE__INIT);
    SET(message, depth, source.depth);
    message.name = text(source.name);
    SET(message, metadata_sum, binary(source.metadata_sum));
  }
  List<AmdgpuCriu__Pb__Object> objects;
  size_t index = 0;
  for (const Object& object : contents.objects) {
    auto& message = objects.add(AMDGPU_CRIU__PB__OBJECT__INIT);
    SET(message, object_id, object.object_id);
    SET(message, size, object.size);
    SET(message, num_chunks, object.chunks.size());
    SET(message, hashed, !object.hashes.empty());
    index += std::span(object.chunks).size_bytes() + std::span(object.hashes).size_bytes();
  }
  AmdgpuCriu__Pb__Contents message = AMDGPU_CRIU__PB__CONTENTS__INIT;
  SET(message, dump_id, binary(contents.dump_id));
  SET(message, part, contents.part);
  message.gpu = add_gpu(all, contents.gpu);
  sources.put_into(message.n_source, message.source);
  objects.put_into(message.n_object, message.object);
  const std::vector<std::byte> packed_message =
      packed(message, amdgpu_criu__pb__contents__get_packed_size, amdgpu_criu__pb__contents__pack);
  const uint64_t size = packed_message.size();
  std::vector<std::byte> result;
  result.reserve(sizeof(size) + size + index);
  append<uint64_t>(result, {&size, 1});
  append<std::byte>(result, packed_message);
  for (Object& object : contents.objects) {
    const Object one = std::exchange(object, {});
    append<Chunk>(result, one.chunks);
    append<Hash>(result, one.hashes);
  }
  return result;
}

}  // namespace amdgpu_criu::image
