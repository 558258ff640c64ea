// SPDX-License-Identifier: GPL-2.0
#include "dump/object_saver.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/log.h"
#include "dump/room.h"
#include "host/run_directory.h"
#include "pipeline/memory_file.h"

namespace amdgpu_criu::dump {
namespace {

static_assert(std::is_trivially_copyable_v<SaveCounts>);

// The processes of a dump that was killed may still be ending.
constexpr std::chrono::milliseconds kPatienceForLock{2000};

// An earlier dump that cannot be used, or for which memory is short, costs space, but does not fail
// the dump.
Earlier read_earlier(const image::Directory& directory) {
  auto loaded = without_exceptions([&] { return Earlier::load(directory); });
  if (!loaded.ok()) {
    log_warning("{}: all GPU memory is written", loaded.error().message());
    return {};
  }
  if (!loaded->has_contents()) return *std::move(loaded);
  if (!loaded->has_hashes())
    log_warning(
        "the earlier dump has no hashes of GPU memory (it was made without option incremental=on): "
        "all of it is written");
  else
    log_info("the earlier dump has {} chunks of GPU memory", loaded->size());
  return *std::move(loaded);
}

}  // namespace

// By an open file of its own: CRIU keeps the directory open for longer than the dump.
Result<Fd> DumpContext::lock_images() const {
  Fd directory = TRY(Fd::openat(TRY(image_directory()), ".", O_RDONLY | O_DIRECTORY));
  const Status locked = host::take_lock(
      directory, kPatienceForLock,
      "another dump writes images to this directory: wait until it has ended, or choose another "
      "directory (criu -D)");
  if (!locked.ok() && locked.error().code() == ETIMEDOUT)
    return Error(EBUSY, locked.error().message());
  // A file system without locks is used as it is.
  return directory;
}

void ObjectSaver::add(const kernel::Bo& bo, const topology::Gpu& gpu) {
  if (!(bo.flags & AMDGPU_CRIU_BO_CONTENTS) || !known_.insert(bo.object_id).second) return;
  Batch& batch = pending_[gpu.gpu_id];
  batch.gpu = gpu;
  batch.bos.push_back(bo);
}

std::vector<topology::Gpu> ObjectSaver::gpus() const {
  std::vector<topology::Gpu> result;
  for (const auto& [gpu_id, batch] : pending_) result.push_back(batch.gpu);
  return result;
}

// The first process reads it.
void ObjectSaver::load_earlier(const image::Directory& directory) {
  if (lseek(earlier_index_.get(), 0, SEEK_END) > 0)
    if (auto kept = Earlier::kept_in(earlier_index_); kept.ok()) {
      earlier_ = *std::move(kept);
      return;
    }
  Earlier earlier = read_earlier(directory);
  if (const Status status = earlier.keep_in(earlier_index_); !status.ok())
    log_info("the index of the earlier dump is not kept, and may be read again: {}",
             status.error().message());
  earlier_ = std::move(earlier);
}

// The memory of the paused processes stays as it is.
Status ObjectSaver::start() {
  if (pending_.empty()) return {};
  TRY(check_indexes());
  const image::Directory directory = TRY(env_.images());
  if (!earlier_index_.valid()) earlier_index_ = Fd(memfd_create("amdgpu-criu-index", MFD_CLOEXEC));
  shared_counts_ =
      TRY(Mapping::map(sizeof(SaveCounts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS));
  // The processes continue when the last descriptor of the session is closed.
  TRY(writer_.start([&](const Background::Fail& fail) { save(directory, fail); },
                    [&] { close(session_.get()); }));
  pending_.clear();
  part_++;
  return {};
}

Status ObjectSaver::finish() {
  if (!writer_.process()) return {};
  TRY(writer_.finish());
  SaveCounts counts;
  memcpy(&counts, shared_counts_.data(), sizeof(counts));
  counts_ += counts;
  return {};
}

Status ObjectSaver::finish_if_possible() { return writer_.is_finished() ? finish() : Status(); }

// The first error ends the process.
void ObjectSaver::save(const image::Directory& directory, const OnError& on_error) {
  uint64_t bytes = 0;
  for (const auto& [gpu_id, batch] : pending_) bytes += bytes_of(batch);
  const auto check = [&](const Status& status) {
    if (!status.ok()) on_error(with_room(status.error(), directory.fd, bytes));
  };
  load_earlier(directory);
  std::vector<Outcome> outcomes(pending_.size());
  check(open_files(directory, bytes, outcomes));
  const auto numbers = this->threads();
  for (size_t i = 0; i < outcomes.size(); i++)
    outcomes[i].workers = std::make_unique<pipeline::Workers>(numbers[i]);
  std::vector<std::jthread> threads;
  threads.reserve(outcomes.size());
  auto outcome = outcomes.begin();
  for (const auto& [gpu_id, batch] : pending_) {
    const auto save_batch = [&check, &batch, &of = *outcome++, this] {
      check(without_exceptions([&] { return save(batch, of); }));
    };
    Status started = without_exceptions([&] {
      threads.emplace_back(save_batch);
      return Status();
    });
    // The threads of other GPUs copy for a long time, so they must not be waited for.
    if (!started.ok())
      on_error(std::move(started).error().within(
          formatted("no thread can save memory of GPU {:#x}", gpu_id)));
  }
  threads.clear();  // waits
  SaveCounts counts;
  outcome = outcomes.begin();
  for (const auto& [gpu_id, batch] : pending_) {
    log_saved(batch, *outcome);
    counts += outcome++->counts;
  }
  memcpy(shared_counts_.data(), &counts, sizeof(counts));
}

void ObjectSaver::log_saved(const Batch& batch, const Outcome& outcome) {
  const SaveCounts& counts = outcome.counts;
  if (outcome.gave_up_direct)
    log_warning(
        "the file system of the images has no direct I/O: GPU memory of {} was written through the "
        "page cache",
        batch.gpu.describe());
  log_info("saved {} BOs, {} bytes of {} in {} ms", batch.bos.size(), counts.bytes,
           batch.gpu.describe(), outcome.milliseconds);
  log_info(
      "GPU {:#x}: {} bytes stored, {} of zeros, {} in earlier dumps; {} hashed by the GPU, and {} "
      "copied to pages of the file; {} submissions, {} KiB of staging memory, files by {}; {}",
      batch.gpu.gpu_id, counts.stored_bytes, counts.zero_bytes, counts.earlier_bytes,
      counts.hashed_bytes, counts.page_bytes, counts.submissions, outcome.staging.total() >> 10,
      outcome.io, counts.times.text());
}

Status ObjectSaver::check_indexes() const {
  for (const auto& [gpu_id, batch] : pending_) TRY(check_index(batch));
  return {};
}

// Checked before anything is copied: readers would refuse a larger index.
Status ObjectSaver::check_index(const Batch& batch) const {
  uint64_t chunks = 0;
  for (const kernel::Bo& bo : batch.bos) chunks += bo.size / env_.options.chunk_bytes + 1;
  if (chunks <= image::kMaxMetadata / image::kMaxChunkBytes) return {};
  return Error::of(
      EFBIG,
      "the index of {} chunks of memory of {} is larger than an image can have: choose "
      "larger chunks by amdgpu.chunk-kib",
      chunks, batch.gpu.describe());
}

// Of each GPU in pending_, which share neither a thread nor a lock.
std::vector<unsigned> ObjectSaver::threads() const {
  const size_t each = pipeline::codec_bytes(env_.options.compression, env_.options.chunk_bytes);
  size_t most = pipeline::kMaxThreadsOfGpu;
  if (each > 0) most = std::min(most, pipeline::kMaxCodecBytes / each);
  std::vector<uint64_t> bytes;
  for (const auto& [gpu_id, batch] : pending_) bytes.push_back(bytes_of(batch));
  return pipeline::threads_by_bytes(bytes, std::thread::hardware_concurrency(),
                                    static_cast<unsigned>(most));
}

// Compressed data has its own buffers, as large as those of the plain data, besides those of the
// codecs.
gpu::StagingSize ObjectSaver::staging(unsigned threads) const {
  const pipeline::Compression& how = env_.options.compression;
  if (how.encoding == pipeline::Encoding::kPlain)
    return env_.options.staging.within(gpu::kMaxStaging);
  const size_t codecs = pipeline::codec_bytes(how, env_.options.chunk_bytes) * threads;
  return env_.options.staging.within(
      (gpu::kMaxStaging - std::min(codecs, pipeline::kMaxCodecBytes)) / 2);
}

Status ObjectSaver::save(const Batch& batch, Outcome& outcome) {
  const auto start = std::chrono::steady_clock::now();
  image::ContentsWriter& writer = *outcome.writer;
  if (env_.options.direct) (void)pipeline::set_direct(writer.fd(), true);
  auto saved = save_contents_of(batch, writer, outcome);
  if (!saved.ok()) return std::move(saved).error().within("writing " + writer.name());
  outcome.counts = saved->counts;
  outcome.gave_up_direct = env_.options.direct && !pipeline::is_direct(writer.fd());
  TRY(writer.finish(image::encode(image::Contents{id_, part_, batch.gpu, std::move(saved->objects),
                                                  std::move(saved->sources)})));
  const auto spent = std::chrono::steady_clock::now() - start;
  outcome.milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(spent).count();
  return {};
}

uint64_t ObjectSaver::bytes_of(const Batch& batch) {
  uint64_t bytes = 0;
  for (const kernel::Bo& bo : batch.bos) bytes += bo.size;
  return bytes;
}

// Before anything is copied: a copy of all memory takes long. How much will be compressed or left
// out is not known yet.
Status ObjectSaver::open_files(const image::Directory& directory, uint64_t bytes,
                               std::vector<Outcome>& outcomes) const {
  const bool plain =
      env_.options.compression.encoding == pipeline::Encoding::kPlain && !find_earlier();
  if (plain) TRY(check_room(directory.fd, bytes));
  size_t number = 0;
  for (const auto& [gpu_id, batch] : pending_) {
    auto& writer = outcomes[number++].writer;
    writer = std::make_unique<image::ContentsWriter>(TRY(image::ContentsWriter::create(
        directory, image::contents_file_name(part_, batch.gpu.gpu_id))));
    if (plain) TRY(writer->allocate(bytes_of(batch)));
  }
  return {};
}

Result<Saved> ObjectSaver::save_contents_of(const Batch& batch, image::ContentsWriter& writer,
                                            Outcome& outcome) {
  outcome.staging = staging(outcome.workers->threads());
  auto engine =
      TRY(env_.make_engine(TRY(env_.host.open_render(batch.gpu.render_minor)), outcome.staging));
  const auto queue = pipeline::make_io_queue(env_.options.io, outcome.staging.most_slots);
  outcome.io = pipeline::is_memory(writer.fd()) ? "copies" : queue->name();
  const kernel::Node node{engine->file(), kernel::Node::Kind::kRender};
  auto import = [&](uint64_t id, uint64_t size) -> Result<std::shared_ptr<gpu::Imported>> {
    const Fd dmabuf = TRY(env_.api.dmabuf(node, session_.get(), id));
    return std::shared_ptr<gpu::Imported>(TRY(engine->import(dmabuf, size)));
  };
  auto report = [&](const Progress& progress) {
    status_.progress("saving", batch.gpu.gpu_id, progress);
    if (progress.done() < progress.total())
      log_info("GPU {:#x}: {}", batch.gpu.gpu_id, progress.text());
  };
  const Earlier* earlier = find_earlier();
  const SaveOptions options{env_.options.chunk_bytes,
                            env_.options.compression,
                            env_.options.incremental || earlier,
                            earlier,
                            report,
                            outcome.workers.get(),
                            env_.options.gpu_hashes,
                            !env_.live,
                            {},
                            outcome.staging.most_slots};
  auto saved = save_contents(*engine, *queue, batch.bos, import, options, writer);
  outcome.staging.slots = engine->slots();
  return saved;
}

}  // namespace amdgpu_criu::dump
