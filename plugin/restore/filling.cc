// SPDX-License-Identifier: GPL-2.0
#include "restore/filling.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include "base/log.h"
#include "base/numbers.h"

namespace amdgpu_criu::restore {

Filling::Filling(const RestoreContext& environment, const image::Set& images,
                 const TargetGpus& machine, const Layout& layout, SharedState& shared,
                 const StatusLines& status)
    : env_(environment), gpus_(machine), layout_(layout), shared_(shared), status_(status) {
  for (const File& file : images.contents()) files_[file.contents.gpu.gpu_id].push_back(&file);
}

// In a task, one GPU after the other: a thread would take a number that another task needs.
Status Filling::added(const std::set<uint64_t>& object_ids) {
  for (const auto& [gpu_id, files] : files_) {
    for (const File* file : files)
      for (const image::Object& object : file->contents.objects)
        if (object_ids.contains(object.object_id))
          shared_.give(layout_.job_of_object(object.object_id));
    if (!in_background_) TRY(fill(take(gpu_id)));
  }
  return {};
}

// GPUs share no thread and no lock.
void Filling::create_threads() {
  std::vector<uint64_t> bytes;
  for (const auto& [gpu_id, files] : files_)
    bytes.push_back(
        std::accumulate(files.begin(), files.end(), uint64_t{0},
                        [](uint64_t sum, const File* file) { return sum + file->bytes(); }));
  const auto threads = pipeline::threads_by_bytes(bytes, std::thread::hardware_concurrency());
  size_t number = 0;
  for (const auto& entry : files_)
    threads_[entry.first] = {
        std::make_unique<pipeline::Workers>(threads[number++]),
        pipeline::make_io_queue(pipeline::IoKind::kThreads, env_.options.staging.most_slots)};
}

// After on_ready() no thread is created: it would have a number that a task may need. So files are
// not read by io_uring, for which the kernel creates threads.
void Filling::fill_added(const OnError& on_error, const OnReady& on_ready) {
  create_threads();
  std::vector<std::jthread> threads;
  threads.reserve(files_.size());
  for (const auto& entry : files_) {
    const uint32_t gpu_id = entry.first;
    const auto fill_gpu = [this, &on_error, gpu_id] {
      const Status status = without_exceptions([&] { return fill_while_added(gpu_id); });
      if (!status.ok()) on_error(status.error());
    };
    Status started = without_exceptions([&] {
      threads.push_back(start_helper_thread<std::jthread>(fill_gpu));
      return Status();
    });
    // The threads of other GPUs wait for tasks, so they must not be waited for.
    if (!started.ok())
      on_error(
          std::move(started).error().within(formatted("no thread can fill GPU {:#x}", gpu_id)));
  }
  on_ready();
  threads.clear();  // waits
  threads_.clear();
}

Status Filling::fill_while_added(uint32_t gpu_id) {
  while (true) {
    const uint32_t seen = shared_.changes();
    const bool last = shared_.is_closed();
    const auto batches = take(gpu_id);
    TRY(fill(batches));
    if (!batches.empty()) continue;
    if (last || is_filled(gpu_id)) return {};
    shared_.wait_for_change(seen);
  }
}

std::vector<Filling::Batch> Filling::take(uint32_t gpu_id) {
  std::vector<Batch> result;
  for (const File* file : files_.at(gpu_id)) {
    Batch batch{file, {}};
    for (const image::Object& object : file->contents.objects)
      if (shared_.take(layout_.job_of_object(object.object_id))) batch.objects.push_back(&object);
    if (!batch.objects.empty()) result.push_back(std::move(batch));
  }
  return result;
}

bool Filling::is_filled(uint32_t gpu_id) const {
  return std::ranges::all_of(files_.at(gpu_id), [&](const File* file) {
    return std::ranges::all_of(file->contents.objects, [&](const image::Object& object) {
      return shared_.is_done(layout_.job_of_object(object.object_id));
    });
  });
}

Status Filling::fill(const std::vector<Batch>& batches) {
  for (const Batch& batch : batches) {
    Status status = fill(batch);
    for (const image::Object* object : batch.objects)
      shared_.end(layout_.job_of_object(object->object_id), status.ok());
    TRY(std::move(status));
  }
  return {};
}

// Tasks have no descriptor of the status.
void Filling::report(uint32_t gpu_id, const Progress& progress) const {
  if (in_background_) status_.progress("filling", gpu_id, progress);
  if (progress.done() < progress.total()) log_info("GPU {:#x}: {}", gpu_id, progress.text());
}

Status Filling::fill(const Batch& batch) {
  TRY(env_.faults.at("fill", batch.file->name));
  const uint32_t gpu_id = batch.file->contents.gpu.gpu_id;
  const auto own_io = pipeline::make_inline_queue();
  const FillTools tools{env_.api,
                        env_.make_engine,
                        env_.options.staging,
                        in_background_ ? *threads_.at(gpu_id).io : *own_io,
                        env_.options.direct && !env_.options.replicas,
                        env_.options.gpu_hashes,
                        {[&](const Progress& progress) { report(gpu_id, progress); },
                         in_background_ ? threads_.at(gpu_id).workers.get() : nullptr}};
  const Fd session = TRY(env_.store.get(shared_.session_id()));
  const FillReport report = TRY(fill_objects(tools, session, TRY(gpus_.open_render(gpu_id)),
                                             TRY(env_.images()), *batch.file, batch.objects));
  shared_.count({report.bytes, report.zero_bytes, report.submissions});
  if (!report.not_direct.empty())
    log_warning("the file system of {} has no direct I/O: it is read through the page cache",
                report.not_direct);
  if (!report.not_pages.empty())
    log_info("GPU {:#x} was filled again, by the CPU: {}", gpu_id, report.not_pages);
  log_info(
      "filled {} BOs, {} bytes of GPU {:#x} in {} ms{}; {} copied from pages of files and {} "
      "compared by it; {}",
      report.objects, report.bytes, gpu_id, report.milliseconds,
      in_background_ ? ", in the background" : "", report.page_bytes, report.compared_bytes,
      report.times.text());
  return {};
}

Status Filling::check_all_filled() const {
  for (const auto& [gpu_id, files] : files_)
    for (const File* file : files)
      for (const image::Object& object : file->contents.objects)
        if (!shared_.is_done(layout_.job_of_object(object.object_id)))
          return Error::of(EPROTO,
                           "contents of object {} in {} were not restored: no restored process "
                           "opened a file that has it",
                           object.object_id, file->name);
  return {};
}

}  // namespace amdgpu_criu::restore
