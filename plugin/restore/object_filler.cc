// SPDX-License-Identifier: GPL-2.0
#include "restore/object_filler.h"

#include <chrono>

#include "base/log.h"
#include "restore/contents.h"

namespace restore {

using base::Error;

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

Status ObjectFiller::fill(const Fd& session, const std::set<uint64_t>& object_ids) {
  for (const auto& file : images_.contents()) {
    std::vector<image::Object> mine;
    for (const image::Object& object : file.contents.objects)
      if (object_ids.contains(object.object_id) &&
          shared_.try_begin(layout_.job_of_object(object.object_id)))
        mine.push_back(object);
    if (mine.empty()) continue;
    Status status;
    if (env_.options.test_skip_contents)
      base::log_warning("TEST SWITCH: {} is NOT restored", file.name);
    else
      status = fill_from(session, file, mine);
    for (const image::Object& object : mine)
      shared_.end(layout_.job_of_object(object.object_id), status.ok());
    TRY(std::move(status));
  }
  return {};
}

Status ObjectFiller::fill_from(const Fd& session, const image::Set::ContentsFile& file,
                               std::span<const image::Object> objects) {
  const FillTools tools{env_.api, env_.make_engine, env_.options.staging};
  const FillReport report = TRY(
      fill_objects(tools, session, TRY(machine_.open_render(env_.host, file.contents.gpu.gpu_id)),
                   TRY(env_.image_directory()), file, objects));
  base::log_info("filled {} BOs, {} bytes in {} ms", report.objects, report.bytes,
                 report.milliseconds);
  return {};
}

Status ObjectFiller::check_all_filled() const {
  for (const auto& file : images_.contents())
    for (const image::Object& object : file.contents.objects)
      if (!shared_.is_done(layout_.job_of_object(object.object_id)))
        return Error::of(EPROTO,
                         "contents of object {} in {} were not restored: no restored process "
                         "opened a file that knows it",
                         object.object_id, file.name);
  return {};
}

}  // namespace restore
