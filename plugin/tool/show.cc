// SPDX-License-Identifier: GPL-2.0
#include <cstdio>
#include <nlohmann/json.hpp>

#include "foreign/images.h"
#include "image/blob.h"
#include "image/set.h"
#include "stock/record.h"
#include "tool/commands.h"
#include "tool/images.h"
#include "tool/output.h"

namespace amdgpu_criu::tool {
namespace {

using image::Device;
using image::Process;
using kernel::Bo;

struct Name {
  uint32_t value;
  const char* name;
};
constexpr Name kDomains[] = {{AMDGPU_CRIU_DOMAIN_NONE, "none"},
                             {AMDGPU_CRIU_DOMAIN_VRAM, "VRAM"},
                             {AMDGPU_CRIU_DOMAIN_GTT, "GTT"},
                             {AMDGPU_CRIU_DOMAIN_CPU, "CPU"}};
constexpr Name kFlags[] = {
    {AMDGPU_CRIU_BO_CONTENTS, "contents"}, {AMDGPU_CRIU_BO_USERPTR, "userptr"},
    {AMDGPU_CRIU_BO_DOORBELL, "doorbell"}, {AMDGPU_CRIU_BO_MMIO, "mmio"},
    {AMDGPU_CRIU_BO_SHARED, "shared"},     {AMDGPU_CRIU_BO_IMPORTED, "imported"}};

std::string domain_of(const Bo& bo) {
  for (const Name& domain : kDomains)
    if (domain.value == bo.domain) return domain.name;
  return formatted("domain {}", bo.domain);
}

std::vector<std::string> flags_of(const Bo& bo) {
  std::vector<std::string> result;
  for (const Name& flag : kFlags)
    if (bo.flags & flag.value) result.emplace_back(flag.name);
  return result;
}

std::string dump_id_of(const image::Set& set) {
  image::DumpId id{};
  if (!set.processes().empty())
    id = set.processes().begin()->second.dump_id;
  else if (!set.renders().empty())
    id = set.renders().begin()->second.dump_id;
  else if (!set.files().empty())
    id = set.files().begin()->second.dump_id;
  std::string result;
  for (const std::byte b : id) result += formatted("{:02x}", static_cast<unsigned>(b));
  return result;
}

Json device_json(const image::Set& set, const Device& device) {
  Json properties = Json::object();
  for (const auto& [name, value] : device.gpu.properties) properties[name] = value;
  return {{"gpu_id", device.gpu_id},
          {"actual_gpu_id", device.actual_gpu_id},
          {"pci_address", device.gpu.pci_address},
          {"render_minor", device.gpu.render_minor},
          {"has_vm", device.has_vm},
          {"used", set.used_gpus().contains(device.actual_gpu_id)},
          {"properties", std::move(properties)}};
}

Json bo_json(const Bo& bo) {
  Json flags = Json::array();
  for (std::string& flag : flags_of(bo)) flags.emplace_back(std::move(flag));
  return {{"object_id", static_cast<uint64_t>(bo.object_id)},
          {"size", static_cast<uint64_t>(bo.size)},
          {"va", static_cast<uint64_t>(bo.va)},
          {"mmap_offset", static_cast<uint64_t>(bo.mmap_offset)},
          {"gpu_id", bo.gpu_id},
          {"handle", bo.handle},
          {"domain", domain_of(bo)},
          {"flags", std::move(flags)}};
}

Json bos_json(const std::vector<Bo>& bos) {
  Json result = Json::array();
  for (const Bo& bo : bos) result.push_back(bo_json(bo));
  return result;
}

Json imports_json(const std::vector<image::Exported>& imports) {
  Json result = Json::array();
  for (const image::Exported& exported : imports) result.push_back(bo_json(exported.state.bo));
  return result;
}

Json render_json(const image::Render& render) {
  Json holders = Json::array();
  for (const uint32_t pid : render.holders) holders.emplace_back(pid);
  Json members{{"index", render.index},
               {"pid", render.pid},
               {"comm", render.comm},
               {"open_in", std::move(holders)},
               {"gpu_id", render.gpu.gpu_id},
               {"render_minor", render.gpu.render_minor},
               {"kernel_state_bytes", static_cast<uint64_t>(render.blob.size())},
               {"bos", bos_json(render.bos)},
               {"imports", imports_json(render.imports)}};
  if (render.vm) members["vm_of_process"] = render.vm->process;
  return members;
}

Json file_json(const image::File& file) {
  Json members{{"id", file.id}};
  if (const auto* kfd = std::get_if<image::KfdFile>(&file.what)) {
    members["node"] = "kfd";
    members["process"] = kfd->process;
  } else if (const auto* vm = std::get_if<image::VmFile>(&file.what)) {
    members["node"] = "render";
    members["process"] = vm->vm.process;
    members["gpu_id"] = vm->vm.gpu_id;
  } else if (const auto* render = std::get_if<image::RenderFile>(&file.what)) {
    members["node"] = "render";
    members["render"] = render->render;
  } else {
    members["node"] = "dma-buf";
    members["bo"] = bo_json(std::get<image::Exported>(file.what).state.bo);
  }
  return members;
}

std::string describe(const image::File& file) {
  if (const auto* kfd = std::get_if<image::KfdFile>(&file.what))
    return formatted("/dev/kfd of process {}", kfd->process);
  if (const auto* vm = std::get_if<image::VmFile>(&file.what))
    return formatted("render node of GPU {:#x} of process {}", vm->vm.gpu_id, vm->vm.process);
  if (const auto* render = std::get_if<image::RenderFile>(&file.what))
    return formatted("render file {}", render->render);
  return formatted("dma-buf of object {}",
                   static_cast<uint64_t>(std::get<image::Exported>(file.what).state.bo.object_id));
}

bool is_stock(const Process& process) { return process.blob && stock::is_record(*process.blob); }
uint64_t state_bytes(const Process& process) { return process.blob ? process.blob->size() : 0; }

Json process_json(const image::Set& set, const Process& process) {
  Json devices = Json::array(), vmas = Json::array();
  for (const Device& device : process.devices) devices.push_back(device_json(set, device));
  for (const image::Vma& vma : process.vmas)
    vmas.push_back(Json{{"start", vma.start},
                        {"end", vma.end},
                        {"offset", vma.offset},
                        {"node", vma.kfd ? "kfd" : "render"},
                        {"gpu_id", vma.gpu_id}});
  return {{"index", process.index},
          {"pid", process.pid},
          {"comm", process.comm},
          {"queues", process.num_queues},
          {"events", process.num_events},
          {"svm_ranges", process.num_svm_ranges},
          {"kernel_state_bytes", state_bytes(process)},
          {"stock_kernel_interface", is_stock(process)},
          {"gpus", std::move(devices)},
          {"bos", bos_json(process.bos)},
          {"imports", imports_json(process.imports)},
          {"mappings", std::move(vmas)}};
}

// How the memory was saved.
struct Usage {
  uint64_t chunks = 0;
  uint64_t bytes = 0;
  uint64_t zero_bytes = 0;
  uint64_t earlier_bytes = 0;
  uint64_t compressed = 0;
};

Usage usage_of(const image::Contents& contents) {
  Usage usage;
  for (const image::Object& object : contents.objects) {
    usage.chunks += object.chunks.size();
    usage.bytes += object.size;
    for (const image::Chunk& chunk : object.chunks) {
      if (chunk.encoding == pipeline::Encoding::kZeros) usage.zero_bytes += chunk.size;
      if (chunk.compressed > 0) usage.compressed++;
      if (chunk.source > 0) usage.earlier_bytes += chunk.size;
    }
  }
  return usage;
}

// Calls body(RECORDS) for each type; not for a blob without records.
template <typename Body>
void for_each_record(std::span<const std::byte> blob, const Body& body) {
  const auto records = image::list_records(blob);
  if (!records.ok()) return;
  for (const image::BlobRecords& one : *records) body(one);
}

Json records_json(std::span<const std::byte> blob) {
  Json result = Json::array();
  for_each_record(blob, [&](const image::BlobRecords& one) {
    result.push_back(Json{{"type", one.type},
                          {"name", one.name()},
                          {"version", one.version},
                          {"count", one.count},
                          {"bytes", one.bytes}});
  });
  return result;
}

void print_records(std::span<const std::byte> blob) {
  for_each_record(blob, [](const image::BlobRecords& one) {
    printf("  record %#x %s, version %u: %llu, %llu bytes\n", one.type, one.name().c_str(),
           one.version, static_cast<unsigned long long>(one.count),
           static_cast<unsigned long long>(one.bytes));
  });
}

std::span<const std::byte> blob_of(const Process& process) {
  return process.blob && !is_stock(process) ? std::span<const std::byte>(*process.blob)
                                            : std::span<const std::byte>();
}

Json set_json(const image::Set& set, bool foreign, bool blobs) {
  Json processes = Json::array(), renders = Json::array(), files = Json::array(),
       contents = Json::array();
  for (const auto& [index, process] : set.processes()) {
    processes.push_back(process_json(set, process));
    if (blobs) processes.back()["records"] = records_json(blob_of(process));
  }
  for (const auto& [index, render] : set.renders()) {
    renders.push_back(render_json(render));
    if (blobs) renders.back()["records"] = records_json(render.blob);
  }
  for (const auto& [id, file] : set.files()) files.push_back(file_json(file));
  for (const auto& file : set.contents()) {
    const Usage usage = usage_of(file.contents);
    Json sources = Json::array();
    for (const image::Source& source : file.contents.sources)
      sources.emplace_back(image::path_of(source));
    contents.push_back(Json{{"name", file.name},
                            {"part", file.contents.part},
                            {"gpu_id", file.contents.gpu.gpu_id},
                            {"objects", static_cast<uint64_t>(file.contents.objects.size())},
                            {"chunks", usage.chunks},
                            {"memory_bytes", usage.bytes},
                            {"zero_bytes", usage.zero_bytes},
                            {"compressed_chunks", usage.compressed},
                            {"earlier_bytes", usage.earlier_bytes},
                            {"earlier_files", std::move(sources)},
                            {"bytes", file.bytes()}});
  }
  return {{"format", set.format()},
          {"dump_id", dump_id_of(set)},
          {"of_criu_plugin", foreign},
          {"processes", std::move(processes)},
          {"render_files", std::move(renders)},
          {"files", std::move(files)},
          {"contents", std::move(contents)}};
}

void print_bo(const Bo& bo) {
  std::string flags;
  for (const std::string& flag : flags_of(bo)) flags += ", " + flag;
  printf("  object %llu: %s, %llu bytes at %#llx on GPU %#x%s\n",
         static_cast<unsigned long long>(bo.object_id), domain_of(bo).c_str(),
         static_cast<unsigned long long>(bo.size), static_cast<unsigned long long>(bo.va),
         bo.gpu_id, flags.c_str());
}

const char* note_on(const image::Set& set, const Device& device) {
  if (device.has_vm) return "";
  return set.used_gpus().contains(device.actual_gpu_id) ? ", no VM" : ", no process uses it";
}

void print_process(const image::Set& set, const Process& process) {
  printf(
      "process %u: pid %u (%s), %zu BOs, %u queues, %u events, %u SVM ranges, %zu mappings, "
      "%zu bytes of kernel state%s\n",
      process.index, process.pid, printable(process.comm).c_str(), process.bos.size(),
      process.num_queues, process.num_events, process.num_svm_ranges, process.vmas.size(),
      static_cast<size_t>(state_bytes(process)),
      is_stock(process) ? " of the stock kernel interface" : "");
  for (const Device& device : process.devices)
    printf("  %s, known to the process as %#x%s\n", device.gpu.describe().c_str(), device.gpu_id,
           note_on(set, device));
  for (const Bo& bo : process.bos) print_bo(bo);
}

void print_render(const image::Render& render) {
  std::string holders;
  for (const uint32_t pid : render.holders) holders += formatted(" {}", pid);
  if (holders.empty()) holders = " KFD only";
  printf(
      "render file %u: %s, open in%s, userptrs of pid %u (%s), %zu BOs, %zu bytes of kernel "
      "state%s\n",
      render.index, render.gpu.describe().c_str(), holders.c_str(), render.pid,
      printable(render.comm).c_str(), render.bos.size(), render.blob.size(),
      render.vm ? formatted(", VM of process {}", render.vm->process).c_str() : "");
  for (const Bo& bo : render.bos) print_bo(bo);
}

void print(const image::Set& set, bool foreign, bool blobs) {
  if (foreign)
    printf("of CRIU's own amdgpu plugin, without checksums\n");
  else
    printf("format %u, dump %s\n", set.format(), dump_id_of(set).c_str());
  for (const auto& [index, process] : set.processes()) {
    print_process(set, process);
    if (blobs) print_records(blob_of(process));
  }
  for (const auto& [index, render] : set.renders()) {
    print_render(render);
    if (blobs) print_records(render.blob);
  }
  for (const auto& [id, file] : set.files())
    printf("open file %#x: %s\n", id, describe(file).c_str());
  for (const auto& file : set.contents()) {
    const Usage usage = usage_of(file.contents);
    printf("%s: %s\n", file.name.c_str(),
           formatted("{} objects, {} bytes of memory: {} stored here, {} of zeros, {} in earlier "
                     "dumps, {} chunks of {} compressed",
                     file.contents.objects.size(), usage.bytes, file.bytes(), usage.zero_bytes,
                     usage.earlier_bytes, usage.compressed, usage.chunks)
               .c_str());
    for (const image::Source& source : file.contents.sources)
      printf("  needs %s\n", image::path_of(source).c_str());
  }
}

}  // namespace

namespace {

// Shows images of CRIU's own plugin if there are none of ours.
Result<image::Set> load_any(const Images& images, bool& foreign) {
  auto set = TRY(image::Set::load(images.directory()));
  if (!set.empty() || TRY(foreign::list_files(images.fd())).empty()) return set;
  foreign = true;
  return foreign::make_set(TRY(foreign::read(images.fd())));
}

}  // namespace

int show(const std::string& directory, bool blobs, Format format) {
  const auto images = Images::open(directory);
  if (!images.ok()) return complain(2, images.error().message());
  bool foreign = false;
  const auto set = load_any(*images, foreign);
  if (!set.ok()) return complain(is_damage(set.error()) ? 1 : 2, set.error().message());
  if (set->empty()) return complain(2, "no GPU images in " + directory);
  if (format == Format::kJson)
    print_json(set_json(*set, foreign, blobs));
  else
    print(*set, foreign, blobs);
  return 0;
}

}  // namespace amdgpu_criu::tool
