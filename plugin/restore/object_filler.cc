// SPDX-License-Identifier: GPL-2.0
#include "restore/object_filler.h"

#include <chrono>

#include "restore/contents.h"

namespace restore {

using base::Status;

Result<FillReport> fill_objects(const FillTools& tools, const Fd& session, Fd render_node,
                                int image_directory, const image::Set::ContentsFile& file,
                                std::span<const image::Object> objects) {
  const auto start = std::chrono::steady_clock::now();
  auto engine =
      TRY(tools.make_engine(std::move(render_node), staging_for(file.contents, tools.staging)));
  const kernel::Node node{engine->file(), kernel::Node::Kind::kRender};
  auto dmabuf = [&](uint64_t id) { return tools.api.dmabuf(node, session.get(), id); };
  const image::Opened opened = TRY(file.open(image_directory));
  Status status = fill_contents(*engine, opened, objects, dmabuf);
  if (!status.ok()) return std::move(status).error().within("restoring " + file.name);
  FillReport report{objects.size(), 0, 0};
  for (const image::Object& object : objects) report.bytes += object.size;
  const auto spent = std::chrono::steady_clock::now() - start;
  report.milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(spent).count();
  return report;
}

}  // namespace restore
