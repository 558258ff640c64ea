// SPDX-License-Identifier: GPL-2.0
#include "tool/gpu_check.h"

#include <algorithm>

#include "host/host.h"
#include "restore/fill_contents.h"
#include "restore/verify_contents.h"

namespace amdgpu_criu::tool {
namespace {

constexpr uint64_t kBytesAtATime = 64u << 20;
constexpr size_t kPartsAtATime = 256;
static_assert(image::kMaxChunk <= kBytesAtATime);

// The chunks from `first` on that fit into that many bytes.
image::Object part_of(const image::Object& object, size_t first, uint64_t bytes) {
  image::Object part{object.object_id, 0, {}, {}};
  for (size_t i = first; i < object.chunks.size(); i++) {
    if (part.size > 0 && part.size + object.chunks[i].size > bytes) break;
    part.size += object.chunks[i].size;
    part.chunks.push_back(object.chunks[i]);
    part.hashes.push_back(object.hashes[i]);
  }
  return part;
}

}  // namespace

bool is_named(const topology::Gpu& gpu, size_t index, const std::string& name) {
  return name == std::to_string(index) || name == formatted("{:#x}", gpu.gpu_id) ||
         name == gpu.pci_address;
}

GpuCheck::GpuCheck(Fd render, std::string name, GpuCheckTools tools)
    : render_(std::move(render)),
      name_(std::move(name)),
      tools_(tools),
      workers_(std::make_unique<pipeline::Workers>(
          pipeline::worker_threads(pipeline::kMaxThreadsOfGpu))) {}

Result<GpuCheck> GpuCheck::create(const std::string& gpu) {
  const host::Host host = host::Host::create();
  const auto all = TRY(host.gpus());
  for (size_t index = 0; index < all.size(); index++) {
    if (!is_named(all[index], index, gpu)) continue;
    return GpuCheck(TRY(host.open_render(all[index].render_minor)),
                    formatted("GPU {:#x} ({})", all[index].gpu_id, all[index].pci_address));
  }
  return Error::of(ENODEV, "there is no GPU {}", gpu);
}

Result<uint64_t> GpuCheck::compare(const image::ChunkFiles& files, const image::Contents& contents,
                                   const std::function<void(uint64_t)>& done) {
  // The parts that an error has left are of another file.
  parts_.clear();
  part_bytes_ = 0;
  const auto engine =
      TRY(tools_.make_engine(TRY(render_.duplicate()), restore::staging_for(contents, {})));
  const uint64_t before = compared_;
  for (const image::Object& object : contents.objects) {
    if (object.hashes.empty()) continue;
    TRY(add(*engine, files, object));
    done(object.size);
  }
  TRY(flush(*engine, files));
  return compared_ - before;
}

Status GpuCheck::add(gpu::Engine& engine, const image::ChunkFiles& files,
                     const image::Object& object) {
  for (size_t first = 0; first < object.chunks.size(); first += parts_.back().chunks.size()) {
    if (first > 0) TRY(flush(engine, files));
    image::Object part = part_of(object, first, kBytesAtATime);
    if (parts_.size() == kPartsAtATime || part_bytes_ + part.size > kBytesAtATime)
      TRY(flush(engine, files));
    part_bytes_ += part.size;
    parts_.push_back(std::move(part));
  }
  return {};
}

Status GpuCheck::flush(gpu::Engine& engine, const image::ChunkFiles& files) {
  if (parts_.empty()) return {};
  std::map<uint64_t, Fd> memory;
  restore::Objects objects;
  for (const image::Object& part : parts_) {
    memory[part.object_id] = TRY(tools_.allocate(render_, part.size));
    objects.push_back(&part);
  }
  const auto import = [&](uint64_t id, uint64_t size) -> Result<std::shared_ptr<gpu::Imported>> {
    return std::shared_ptr<gpu::Imported>(TRY(engine.import(memory.at(id), size)));
  };
  const auto queue = pipeline::make_io_queue(pipeline::IoKind::kUring, engine.slots());
  TRY(restore::fill_contents(engine, *queue, files, objects, import, {{}, workers_.get()}));
  const uint64_t compared = TRY(restore::verify_contents(engine, objects, import));
  if (compared != part_bytes_)
    return Error::of(ENOTSUP, "{} cannot compute the hashes of these images", name_);
  compared_ += compared;
  part_bytes_ = 0;
  parts_.clear();
  return {};
}

}  // namespace amdgpu_criu::tool
