// SPDX-License-Identifier: GPL-2.0
#include "foreign/foreign_api.h"

#include <algorithm>
#include <map>

#include "base/log.h"
#include "image/container.h"

namespace amdgpu_criu::foreign {
namespace {

// Reads contents into the ring of staging buffers, and copies from there, BO after BO.
class Filler {
 public:
  Filler(gpu::Engine& engine, int directory)
      : engine_(engine), directory_(directory), ring_(engine.slots()) {}
  Filler(const Filler&) = delete;
  Filler& operator=(const Filler&) = delete;
  // BOs must not be unmapped while copies to them are under way.
  ~Filler() {
    for (unsigned slot = 0; slot < ring_.size(); slot++) (void)engine_.wait(slot);
  }

  Status add(const FileRange& contents, uint64_t size, const std::shared_ptr<gpu::Imported>& to) {
    const Fd& file = *TRY(open(contents.file));
    for (uint64_t done = 0; done < size;) {
      TRY(retire(next_));
      const auto bytes = engine_.staging(next_).first(
          std::min<uint64_t>(size - done, engine_.staging(next_).size()));
      TRY(image::read_at(file, contents.file, contents.offset + done, bytes));
      const gpu::Piece piece{to.get(), done, bytes.size()};
      TRY(engine_.start_write(next_, {&piece, 1}));
      ring_[next_] = to;
      next_ = (next_ + 1) % ring_.size();
      done += bytes.size();
    }
    return {};
  }

  Status finish() {
    for (unsigned slot = 0; slot < ring_.size(); slot++) TRY(retire(slot));
    return {};
  }

 private:
  Result<const Fd*> open(const std::string& name) {
    auto file = files_.find(name);
    if (file == files_.end()) file = files_.emplace(name, TRY(open_file(directory_, name))).first;
    return &file->second;
  }

  Status retire(unsigned slot) {
    const auto done = std::exchange(ring_[slot], nullptr);
    return done ? engine_.wait(slot) : Status();
  }

  gpu::Engine& engine_;
  int directory_;
  std::map<std::string, Fd> files_;
  std::vector<std::shared_ptr<gpu::Imported>> ring_;  // null: the slot is idle
  unsigned next_ = 0;
};

}  // namespace

Status ForeignApi::restore(kernel::Node node, int, std::span<const kernel::RestoreDevice> devices,
                           std::span<kernel::Bo> bos, std::span<const std::byte> blob) {
  if (node.kind == kernel::Node::Kind::kRender)
    return Error(EOPNOTSUPP, "images of CRIU's own amdgpu plugin hold no state of render nodes");
  stock::State state = TRY(restore_state(node.fd, devices, bos, blob));
  for (const kernel::RestoreDevice& device : devices) TRY(fill(device, bos, state));
  return {};
}

Status ForeignApi::fill(const kernel::RestoreDevice& device, std::span<const kernel::Bo> bos,
                        stock::State& state) const {
  const auto gpu = std::ranges::find(gpus(), device.actual_gpu_id, &topology::Gpu::gpu_id);
  if (gpu == gpus().end())
    return Error::of(ENODEV, "GPU {:#x} is not in the topology in sysfs", device.actual_gpu_id);
  auto engine = TRY(tools_.make_engine(TRY(host().open_render(gpu->render_minor)), tools_.staging));
  Filler filler(*engine, TRY(tools_.image_directory()));
  uint64_t bytes = 0;
  for (size_t i = 0; i < bos.size(); i++) {
    if (bos[i].gpu_id != device.gpu_id) continue;
    const Bo* bo = find_object(images_, bos[i].object_id);
    if (!bo || bo->size != bos[i].size)
      return Error::of(EPROTO, "object {} is not of the images", uint64_t{bos[i].object_id});
    if (!bo->contents) continue;
    const Fd dmabuf = std::move(state.bos[i].dmabuf);
    TRY(filler.add(*bo->contents, bo->size, TRY(engine->import(dmabuf, bo->size))));
    bytes += bo->size;
  }
  TRY(filler.finish());
  log_info("filled {} bytes of {} from images of CRIU's own plugin, which have no checksums", bytes,
           gpu->describe());
  return {};
}

}  // namespace amdgpu_criu::foreign
