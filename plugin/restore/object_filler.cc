// SPDX-License-Identifier: GPL-2.0
#include "restore/object_filler.h"

#include <chrono>

#include "restore/contents.h"

namespace amdgpu_criu::restore {

Result<FillReport> fill_objects(const FillTools& tools, const Fd& session, Fd render_node,
                                int image_directory, const image::Set::ContentsFile& file,
                                std::span<const image::Object> objects) {
  const auto start = std::chrono::steady_clock::now();
  FillReport report;
  report.staging = staging_for(file.contents, tools.staging);
  auto engine = TRY(tools.make_engine(std::move(render_node), report.staging));
  const auto queue = pipeline::make_io_queue(tools.io, engine->slots());
  report.io = queue->name();
  const kernel::Node node{engine->file(), kernel::Node::Kind::kRender};
  auto import = [&](uint64_t id, uint64_t size) -> Result<std::shared_ptr<gpu::Imported>> {
    const Fd dmabuf = TRY(tools.api.dmabuf(node, session.get(), id));
    return std::shared_ptr<gpu::Imported>(TRY(engine->import(dmabuf, size)));
  };
  const auto files = TRY(image::ChunkFiles::open(image_directory, file));
  if (tools.direct) files.use_direct();
  auto filled = fill_contents(*engine, *queue, files, objects, import);
  if (!filled.ok()) return std::move(filled).error().within("restoring " + file.name);
  report.objects = objects.size();
  report.bytes = filled->bytes;
  report.zero_bytes = filled->zero_bytes;
  report.submissions = filled->submissions;
  report.times = filled->times;
  const auto spent = std::chrono::steady_clock::now() - start;
  report.milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(spent).count();
  return report;
}

}  // namespace amdgpu_criu::restore
