// SPDX-License-Identifier: GPL-2.0
#include "foreign/images.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "base/log.h"
#include "criu_amdgpu.pb-c.h"
#include "image/container.h"
#include "stock/ioctl.h"
#include "stock/private_data.h"

namespace amdgpu_criu::foreign {
namespace {

constexpr uint64_t kPageMask = 4095;
constexpr uint64_t kMaxMessage = 1ull << 30;
constexpr uint64_t kMaxBoSize = 1ull << 48;
constexpr uint64_t kHeader = sizeof(uint64_t);

constexpr char kKfd[] = "amdgpu-kfd-";
constexpr char kRenderD[] = "amdgpu-renderD-";
constexpr char kPages[] = "amdgpu-pages-";
constexpr char kDrmPages[] = "amdgpu-drm-pages-";
constexpr char kDmabuf[] = "amdgpu-dmabuf_";
constexpr char kSuffix[] = ".img";

using KfdMessage = std::unique_ptr<CriuAmdgpu__Pb__Kfd, void (*)(CriuAmdgpu__Pb__Kfd*)>;

Error bad(const std::string& name, const std::string& why) {
  return Error::of(EBADMSG, "image {} of CRIU's own amdgpu plugin: {}", name, why);
}

// The number between the two; nullopt: the name is another one.
std::optional<uint32_t> number_in(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  name.remove_suffix(sizeof(kSuffix) - 1);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return number;
}

bool is_one(std::string_view name) {
  return number_in(name, kKfd) || number_in(name, kRenderD) ||
         (name.ends_with(kSuffix) &&
          (name.starts_with(kPages) || name.starts_with(kDrmPages) || name.starts_with(kDmabuf)));
}

// A file that was overwritten without truncation may be longer than its contents.
Result<uint64_t> content_size(const Fd& file, const std::string& name) {
  struct stat status;
  if (fstat(file.get(), &status) != 0) return Error::system("cannot examine image {}", name);
  if (!S_ISREG(status.st_mode)) return bad(name, "is not a regular file");
  uint64_t size = 0;
  TRY(image::read_at(file, name, 0, std::as_writable_bytes(std::span(&size, 1))));
  const uint64_t there = static_cast<uint64_t>(status.st_size) - kHeader;
  if (size > there) return bad(name, formatted("is truncated: {} bytes of {}", there, size));
  if (size < there)
    log_warning("image {}: the last {} bytes are of an older dump", name, there - size);
  return size;
}

Result<std::vector<std::byte>> read_message(int directory, const std::string& name) {
  const Fd file = TRY(open_file(directory, name));
  const uint64_t size = TRY(content_size(file, name));
  if (size > kMaxMessage) return bad(name, "is too long");
  std::vector<std::byte> bytes(size);
  TRY(image::read_at(file, name, kHeader, bytes));
  return bytes;
}

// Properties by KFD's names. Those that the images lack are absent, and so not compared.
topology::Gpu gpu_of(const CriuAmdgpu__Pb__Node& node) {
  topology::Gpu gpu;
  gpu.gpu_id = node.gpu_id;
  gpu.render_minor = node.render_minor;
  gpu.pci_address = "PCI address unknown";
#define PROPERTY(name) gpu.properties[#name] = node.name
  PROPERTY(simd_count);
  PROPERTY(caches_count);
  PROPERTY(max_waves_per_simd);
  PROPERTY(lds_size_in_kb);
  PROPERTY(num_gws);
  PROPERTY(wave_front_size);
  PROPERTY(array_count);
  PROPERTY(simd_arrays_per_engine);
  PROPERTY(cu_per_simd_array);
  PROPERTY(simd_per_cu);
  PROPERTY(max_slots_scratch_cu);
  PROPERTY(vendor_id);
  PROPERTY(device_id);
  PROPERTY(hive_id);
  PROPERTY(num_sdma_engines);
  PROPERTY(num_sdma_xgmi_engines);
  PROPERTY(num_sdma_queues_per_engine);
  PROPERTY(num_cp_queues);
  PROPERTY(fw_version);
  PROPERTY(capability);
  PROPERTY(sdma_fw_version);
  PROPERTY(vram_size);
#undef PROPERTY
  return gpu;
}

void connect(topology::Gpu& gpu, const CriuAmdgpu__Pb__Node& node,
             const std::map<uint32_t, uint32_t>& ids) {
  for (size_t i = 0; i < node.n_link; i++) {
    const auto end = ids.find(node.link[i]->to_node);
    if (end == ids.end()) continue;
    if (end->second) {
      gpu.links[end->second] = node.link[i]->type;
      continue;
    }
    auto [numa, added] = gpu.properties.emplace("numa_node", end->first);
    if (!added) numa->second = std::min<uint64_t>(numa->second, end->first);
  }
}

class KfdReader {
 public:
  KfdReader(int directory, std::string name, uint32_t id) : directory_(directory) {
    kfd_.name = std::move(name);
    kfd_.file_id = id;
  }

  Result<Kfd> read() {
    const auto bytes = TRY(read_message(directory_, kfd_.name));
    const KfdMessage message(
        criu_amdgpu__pb__kfd__unpack(nullptr, bytes.size(),
                                     reinterpret_cast<const uint8_t*>(bytes.data())),
        [](CriuAmdgpu__Pb__Kfd* one) { criu_amdgpu__pb__kfd__free_unpacked(one, nullptr); });
    if (!message) return broken("cannot be decoded");
    if (!message->has_pid || !message->has_num_objects || !message->has_private_data)
      return broken("is incomplete");
    if (message->num_gpus + uint64_t{message->num_cpus} != message->n_node ||
        message->num_bos != message->n_bo)
      return broken("states other numbers of GPUs or BOs than it holds");
    kfd_.pid = message->pid;
    kfd_.num_objects = message->num_objects;
    TRY(read_gpus(*message));
    TRY(read_bos(*message));
    TRY(find_contents());
    TRY(read_private_data(*message));
    TRY(check_shared_memory(*message));
    return std::move(kfd_);
  }

 private:
  Error broken(const std::string& why) const { return bad(kfd_.name, why); }

  Status read_gpus(const CriuAmdgpu__Pb__Kfd& message) {
    std::map<uint32_t, uint32_t> ids;
    for (size_t i = 0; i < message.n_node; i++) {
      if (!message.node[i]->has_gpu_id) return broken("a node of the topology has no gpu_id");
      if (!ids.emplace(message.node[i]->node_id, message.node[i]->gpu_id).second)
        return broken("names a node of the topology twice");
    }
    std::set<uint32_t> seen;
    for (size_t i = 0; i < message.n_node; i++) {
      if (message.node[i]->gpu_id == 0) continue;
      if (!seen.insert(message.node[i]->gpu_id).second) return broken("names a GPU twice");
      connect(kfd_.gpus.emplace_back(gpu_of(*message.node[i])), *message.node[i], ids);
    }
    if (kfd_.gpus.size() != message.num_gpus) return broken("states another number of GPUs");
    return {};
  }

  Status read_bos(const CriuAmdgpu__Pb__Kfd& message) {
    for (size_t i = 0; i < message.n_bo; i++) {
      const auto& bo = *message.bo[i];
      if (bo.size == 0 || bo.size & kPageMask || bo.size > kMaxBoSize || bo.va & kPageMask ||
          bo.mmap_offset & kPageMask || bo.va > UINT64_MAX - bo.size)
        return broken(formatted("BO {} has no sensible size or address", i));
      if (std::ranges::count(kfd_.gpus, bo.gpu_id, &topology::Gpu::gpu_id) == 0)
        return broken(formatted("BO {} is on a GPU that is not described", i));
      kfd_.bos.push_back({bo.va, bo.size, bo.mmap_offset, bo.alloc_flags, bo.gpu_id, {}});
    }
    return {};
  }

  // Finds the contents of the BOs in the files, and checks that they are complete.
  Status find_contents() {
    for (const topology::Gpu& gpu : kfd_.gpus) {
      const std::string name =
          formatted("{}{}-{:04x}{}", kPages, kfd_.file_id, gpu.gpu_id, kSuffix);
      uint64_t next = kHeader;
      for (Bo& bo : kfd_.bos) {
        if (bo.gpu_id != gpu.gpu_id || !(bo.alloc_flags & (stock::kVram | stock::kGtt))) continue;
        bo.contents = FileRange{name, next};
        if (next > UINT64_MAX - bo.size) return broken("has more contents than there can be");
        next += bo.size;
      }
      if (next == kHeader) continue;
      const auto file = open_file(directory_, name);
      if (!file.ok())
        return Error::of(file.error().code(), "{}, which image {} needs", file.error().message(),
                         kfd_.name);
      const uint64_t size = TRY(content_size(*file, name));
      if (size != next - kHeader)
        return bad(name, formatted("holds {} bytes, but the BOs in {} have {}", size, kfd_.name,
                                   next - kHeader));
    }
    return {};
  }

  Status read_private_data(const CriuAmdgpu__Pb__Kfd& message) {
    const auto data = std::as_bytes(std::span(message.private_data.data, message.private_data.len));
    auto described =
        stock::describe(data, {static_cast<uint32_t>(kfd_.gpus.size()),
                               static_cast<uint32_t>(kfd_.bos.size()), kfd_.num_objects});
    if (!described.ok()) return std::move(described).error().within("image " + kfd_.name);
    kfd_.private_data.assign(data.begin(), data.end());
    return {};
  }

  // Used by old versions of ROCm's user mode. CRIU's own plugin would create it.
  Status check_shared_memory(const CriuAmdgpu__Pb__Kfd& message) {
    constexpr char kSharedMemory[] = "/dev/shm/hsakmt_shared_mem";
    std::error_code error;
    if (message.shared_memory_size == 0 || std::filesystem::exists(kSharedMemory, error)) return {};
    return Error::of(EOPNOTSUPP,
                     "image {}: the process used {} ({} bytes), which is not here; start any ROCm "
                     "program of its version, which makes it, and restore again",
                     kfd_.name, kSharedMemory, message.shared_memory_size);
  }

  int directory_;
  Kfd kfd_;
};

Result<Render> read_render(int directory, const std::string& name, uint32_t id) {
  const auto bytes = TRY(read_message(directory, name));
  const std::unique_ptr<CriuAmdgpu__Pb__RenderNode, void (*)(CriuAmdgpu__Pb__RenderNode*)> message(
      criu_amdgpu__pb__render_node__unpack(nullptr, bytes.size(),
                                           reinterpret_cast<const uint8_t*>(bytes.data())),
      [](CriuAmdgpu__Pb__RenderNode* one) {
        criu_amdgpu__pb__render_node__free_unpacked(one, nullptr);
      });
  if (!message) return bad(name, "cannot be decoded");
  if (!message->has_gpu_id) return bad(name, "is incomplete");
  if (message->num_bos != 0)
    return Error::of(
        EOPNOTSUPP,
        "image {} of CRIU's own amdgpu plugin: has {} buffer objects of a render node; "
        "of such images only the state of /dev/kfd can be restored",
        name, message->num_bos);
  return Render{name, id, message->gpu_id};
}

}  // namespace

Result<Fd> open_file(int directory, const std::string& name) {
  return Fd::openat(directory, name.c_str(), O_RDONLY | O_NONBLOCK);
}

Result<std::vector<std::string>> list_files(int directory) {
  return image::list_names(directory, is_one);
}

Result<Images> read(int directory) {
  Images images;
  for (const std::string& name : TRY(list_files(directory))) {
    if (const auto id = number_in(name, kKfd))
      images.kfds.push_back(TRY(KfdReader(directory, name, *id).read()));
    else if (const auto render_id = number_in(name, kRenderD))
      images.renders.push_back(TRY(read_render(directory, name, *render_id)));
    else if (!name.starts_with(kPages))
      return Error::of(EOPNOTSUPP,
                       "image {} of CRIU's own amdgpu plugin: is of a dma-buf or of a render "
                       "node's memory; of such images only the state of /dev/kfd can be restored",
                       name);
  }
  for (const Kfd& kfd : images.kfds)
    for (const Bo& bo : kfd.bos)
      if (bo.contents) images.contents_bytes += bo.size;
  return images;
}

}  // namespace amdgpu_criu::foreign
