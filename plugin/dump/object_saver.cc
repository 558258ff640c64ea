// SPDX-License-Identifier: GPL-2.0
#include "dump/object_saver.h"

#include <chrono>

#include "base/log.h"
#include "dump/contents.h"

namespace dump {

void ObjectSaver::add(const kernel::Bo& bo, const topology::Gpu& gpu) {
  if (!(bo.flags & AMDGPU_CRIU_BO_CONTENTS) || !known_.insert(bo.object_id).second) return;
  Batch& batch = pending_[gpu.gpu_id];
  batch.gpu = gpu;
  batch.bos.push_back(bo);
}

Status ObjectSaver::save() {
  if (pending_.empty()) return {};
  for (const auto& [gpu_id, batch] : std::exchange(pending_, {})) TRY(save(batch));
  part_++;
  return {};
}

Status ObjectSaver::save(const Batch& batch) {
  const auto start = std::chrono::steady_clock::now();
  const std::string name = image::contents_file_name(part_, batch.gpu.gpu_id);
  auto engine = TRY(
      env_.make_engine(TRY(env_.host.open_render(batch.gpu.render_minor)), env_.options.staging));
  auto writer = TRY(image::ContentsWriter::create(TRY(env_.image_directory()), name));
  const kernel::Node node{engine->file(), kernel::Node::Kind::kRender};
  auto dmabuf = [&](uint64_t id) { return env_.api.dmabuf(node, tree_.session(), id); };
  auto objects = save_contents(*engine, batch.bos, dmabuf, writer);
  if (!objects.ok()) return std::move(objects).error().within("writing " + name);
  uint64_t bytes = 0;
  for (const image::Object& object : *objects) bytes += object.size;
  TRY(writer.finish(image::encode(image::Contents{id_, part_, batch.gpu, std::move(*objects)})));
  const auto spent = std::chrono::steady_clock::now() - start;
  base::log_info("saved {} BOs, {} bytes of {} in {} ms", batch.bos.size(), bytes,
                 batch.gpu.describe(),
                 std::chrono::duration_cast<std::chrono::milliseconds>(spent).count());
  return {};
}

}  // namespace dump
