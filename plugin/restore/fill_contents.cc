// SPDX-License-Identifier: GPL-2.0
#include "restore/fill_contents.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>

#include "gpu/ring_growth.h"
#include "restore/file_pages.h"
#include "restore/verify_contents.h"

namespace amdgpu_criu::restore {
namespace {

using pipeline::Encoding;

// Zeros need no staging memory, only packets.
constexpr uint64_t kMaxZeroPiece = 256ull << 20;
// Nor do pages of files, but they are taken from the system while a slot has them.
constexpr uint64_t kMaxPageBytes = 64ull << 20;

bool is_plain_in_memory(const image::ChunkFiles& files, const image::Chunk& chunk) {
  return chunk.encoding == Encoding::kPlain && files.in_memory(chunk) && !files.of(chunk).cipher;
}

bool has_pages(const image::ChunkFiles& files, const Objects& objects) {
  return std::ranges::any_of(objects, [&](const image::Object* object) {
    return std::ranges::any_of(object->chunks, [&](const image::Chunk& chunk) {
      return is_plain_in_memory(files, chunk);
    });
  });
}

class Filler {
 public:
  Filler(gpu::Engine& engine, pipeline::IoQueue& queue, const image::ChunkFiles& files,
         uint64_t bytes, const FillOptions& options)
      : engine_(engine),
        queue_(queue),
        files_(files),
        inline_workers_(0),
        workers_(options.workers ? *options.workers : inline_workers_),
        pages_(engine, workers_, files),
        slots_(engine.slots()),
        progress_(bytes, std::chrono::seconds(1)),
        growth_(engine, options.most_slots),
        options_(options) {}
  Filler(const Filler&) = delete;
  Filler& operator=(const Filler&) = delete;
  // BOs must not be unmapped while copies to them are under way, nor slots reused by others.
  ~Filler() {
    for (unsigned slot = 0; slot < slots_.size(); slot++) {
      (void)queue_.finish(slot);
      (void)workers_.wait(slots_[slot].batch);
      (void)engine_.wait(slot);
    }
  }

  Status add(const image::Object& object, const std::shared_ptr<gpu::Imported>& to) {
    uint64_t offset = 0;
    for (const image::Chunk& chunk : object.chunks) {
      if (!has_room(chunk)) TRY(launch());
      if (slots_[current_].state != State::kFilling) TRY(empty(current_));
      TRY(append(object, chunk, to, offset));
      offset += chunk.size;
    }
    counts_.bytes += object.size;
    return {};
  }

  Result<FillCounts> finish() {
    TRY(launch());
    for (size_t i = 0; i < slots_.size(); i++) TRY(empty((current_ + i) % slots_.size()));
    if (options_.progress) options_.progress(progress_);
    return counts_;
  }

 private:
  enum class State { kIdle, kFilling, kReading, kChecking, kCopying };
  struct Part {
    const image::Object* object;
    const image::Chunk* chunk;
    std::span<std::byte> bytes;   // in the slot
    std::span<std::byte> stored;  // as in the file: the same, or compressed
    Status result{};              // of check()
  };
  struct Slot {
    State state = State::kIdle;
    std::vector<std::shared_ptr<gpu::Imported>> to;
    std::vector<std::shared_ptr<const gpu::PageWindow>> windows;
    uint64_t page_bytes = 0;
    std::vector<gpu::Piece> pieces;
    std::vector<Part> parts;
    std::vector<pipeline::IoRequest> reads;  // for the queue
    size_t used = 0;
    size_t compressed_used = 0;
    uint64_t bytes = 0;  // zeros, too
    uint64_t packets = 0;
    pipeline::StoredRoom compressed;
    pipeline::Workers::Batch batch;
  };

  bool has_room(const image::Chunk& chunk) const {
    const Slot& slot = slots_[current_];
    if (slot.state != State::kFilling) return true;
    const size_t bytes = engine_.staging(current_).size();
    // A chunk in two windows needs one packet more.
    if (slot.packets + gpu::packets_for(chunk.size) + 1 >= gpu::kMaxPackets) return false;
    if (is_read_by_gpu(chunk)) return slot.page_bytes + chunk.size <= kMaxPageBytes;
    return chunk.encoding == Encoding::kZeros ||
           (slot.used + chunk.size <= bytes && slot.compressed_used + chunk.stored() <= bytes);
  }

  bool is_read_by_gpu(const image::Chunk& chunk) const {
    return options_.pages && is_plain_in_memory(files_, chunk);
  }

  Status append(const image::Object& object, const image::Chunk& chunk,
                const std::shared_ptr<gpu::Imported>& to, uint64_t offset) {
    Slot& slot = slots_[current_];
    slot.state = State::kFilling;
    if (slot.to.empty() || slot.to.back() != to) slot.to.push_back(to);
    slot.packets += gpu::packets_for(chunk.size);
    slot.bytes += chunk.size;
    if (is_read_by_gpu(chunk)) return append_pages(slot, chunk, to, offset);
    const bool zeros = chunk.encoding == Encoding::kZeros;
    add_piece(slot, {to.get(), offset, chunk.size, slot.used, zeros});
    if (zeros) {
      counts_.zero_bytes += chunk.size;
      return {};
    }
    const auto bytes = engine_.staging(current_).subspan(slot.used, chunk.size);
    auto stored = bytes;
    if (chunk.encoding != Encoding::kPlain) {
      stored = slot.compressed.get(engine_.staging(current_).size())
                   .subspan(slot.compressed_used, chunk.stored());
      slot.compressed_used += stored.size();
    }
    slot.parts.push_back({&object, &chunk, bytes, stored});
    if (!files_.in_memory(chunk)) add_read(slot, chunk, stored);
    slot.used += bytes.size();
    return {};
  }

  Status append_pages(Slot& slot, const image::Chunk& chunk,
                      const std::shared_ptr<gpu::Imported>& to, uint64_t offset) {
    for (uint64_t done = 0; done < chunk.size;) {
      const uint64_t place = chunk.offset + done;
      auto window = TRY(pages_.at(chunk, place));
      const uint64_t size = std::min(chunk.size - done, window->end - place);
      add_piece(slot,
                {to.get(), offset + done, size, place - window->start, false, window->pages.get()});
      if (slot.windows.empty() || slot.windows.back() != window)
        slot.windows.push_back(std::move(window));
      done += size;
    }
    slot.packets++;
    slot.page_bytes += chunk.size;
    counts_.page_bytes += chunk.size;
    return {};
  }

  static void add_piece(Slot& slot, const gpu::Piece& piece) {
    if (!slot.pieces.empty()) {
      gpu::Piece& last = slot.pieces.back();
      const bool follows = last.bo == piece.bo && last.offset + last.size == piece.offset &&
                           last.zero == piece.zero && last.pages == piece.pages;
      const bool fits =
          piece.zero ? last.size + piece.size <= kMaxZeroPiece : last.at + last.size == piece.at;
      if (follows && fits) {
        last.size += piece.size;
        return;
      }
    }
    slot.pieces.push_back(piece);
  }

  // Adjacent chunks of a file are read together.
  void add_read(Slot& slot, const image::Chunk& chunk, std::span<std::byte> to) {
    const image::Opened& file = files_.of(chunk);
    if (!slot.reads.empty()) {
      pipeline::IoRequest& last = slot.reads.back();
      uint64_t end = last.offset;
      for (const iovec& part : last.parts) end += part.iov_len;
      if (last.fd == file.file.get() && end == chunk.offset) {
        last.add(to);
        return;
      }
    }
    slot.reads.push_back(
        {file.file.get(), false, chunk.offset, {{to.data(), to.size()}}, &file.name});
  }

  // While the chunks of this slot and of the previous ones are read, those of an earlier one are
  // checked and copied: all slots but two are read at a time.
  Status launch() {
    Slot& slot = slots_[current_];
    if (slot.state != State::kFilling) return {};
    const bool by_queue = !slot.reads.empty();
    for (pipeline::IoRequest& read : slot.reads) queue_.submit(current_, std::move(read));
    slot.reads.clear();
    slot.state = State::kReading;
    if (!by_queue) start_check(current_);
    const unsigned ahead = slots_.size() > 2 ? slots_.size() - 2 : 1;
    const unsigned before = (current_ + slots_.size() - ahead) % slots_.size();
    if (before != current_ && is_under_way(before)) TRY(copy(before));
    growth_.add(slots_[current_].used);
    return growth_.go_on(slots_, current_, progress_.total() - progress_.done(),
                         [this](unsigned index) { return empty(index); });
  }

  bool is_under_way(unsigned index) const {
    return slots_[index].state == State::kReading || slots_[index].state == State::kChecking;
  }

  Status empty(unsigned index) {
    Slot& slot = slots_[index];
    if (is_under_way(index)) TRY(copy(index));
    if (slot.state == State::kCopying) {
      const pipeline::Stopwatch watch(counts_.times.copies);
      TRY(engine_.wait(index));
    }
    slot.to.clear();
    slot.windows.clear();
    slot.state = State::kIdle;
    return {};
  }

  Status copy(unsigned index) {
    Slot& slot = slots_[index];
    if (slot.state == State::kReading) {
      const pipeline::Stopwatch watch(counts_.times.files);
      TRY(queue_.finish(index));
      start_check(index);
    }
    {
      const pipeline::Stopwatch watch(counts_.times.bytes);
      TRY(workers_.wait(slot.batch));
      for (Part& part : slot.parts) TRY(std::move(part.result));
    }
    TRY(engine_.start_write(index, slot.pieces));
    counts_.submissions++;
    if (progress_.add(std::exchange(slot.bytes, 0)) && options_.progress)
      options_.progress(progress_);
    slot.pieces.clear();
    slot.parts.clear();
    slot.used = 0;
    slot.compressed_used = 0;
    slot.packets = 0;
    slot.page_bytes = 0;
    slot.state = State::kCopying;
    return {};
  }

  void start_check(unsigned index) {
    Slot& slot = slots_[index];
    slot.state = State::kChecking;
    workers_.start(slot.batch, slot.parts.size(),
                   [this, &parts = slot.parts](size_t i, pipeline::Codec& codec) {
                     parts[i].result = check(parts[i], codec);
                   });
  }

  // Called by any thread.
  Status read(const image::Chunk& chunk, std::span<std::byte> to) const {
    const image::Opened& file = files_.of(chunk);
    return pipeline::transfer_now(
        {file.file.get(), false, chunk.offset, {{to.data(), to.size()}}, &file.name},
        options_.read);
  }

  // Called by any thread. Checks bytes of files in memory while they are in the CPU's cache.
  Status check(const Part& part, pipeline::Codec& codec) const {
    const image::Chunk& chunk = *part.chunk;
    if (files_.in_memory(chunk)) TRY(read(chunk, part.stored));
    TRY(files_.decrypt(*part.object, chunk, part.stored));
    if (chunk.encoding != Encoding::kPlain) {
      const Status status = codec.decompress(chunk.encoding, part.stored, part.bytes);
      if (!status.ok()) return files_.damaged(*part.object, chunk, status.error().message());
    }
    return files_.check(*part.object, chunk, part.bytes);
  }

  gpu::Engine& engine_;
  pipeline::IoQueue& queue_;
  const image::ChunkFiles& files_;
  pipeline::Workers inline_workers_;
  pipeline::Workers& workers_;
  FilePages pages_;
  std::deque<Slot> slots_;  // which stay where they are
  unsigned current_ = 0;
  Progress progress_;
  gpu::RingGrowth growth_;
  const FillOptions& options_;
  FillCounts counts_;
};

}  // namespace

gpu::StagingSize staging_for(const image::Contents& contents, gpu::StagingSize wanted) {
  bool compressed = false;
  for (const image::Object& object : contents.objects)
    for (const image::Chunk& chunk : object.chunks) {
      if (chunk.encoding == Encoding::kZeros) continue;
      compressed |= chunk.encoding != Encoding::kPlain;
      wanted.bytes = std::max<size_t>(wanted.bytes, chunk.size);
    }
  static_assert(image::kMaxChunk <= gpu::kMaxStaging);
  return wanted.within(compressed ? gpu::kMaxStaging / 2 : gpu::kMaxStaging);
}

Result<FillCounts> fill_contents(gpu::Engine& engine, pipeline::IoQueue& queue,
                                 const image::ChunkFiles& files, const Objects& objects,
                                 const gpu::ImportObject& import, const FillOptions& options) {
  const uint64_t bytes =
      std::accumulate(objects.begin(), objects.end(), uint64_t{0},
                      [](uint64_t sum, const image::Object* one) { return sum + one->size; });
  Filler filler(engine, queue, files, bytes, options);
  for (const image::Object* object : objects)
    TRY(filler.add(*object, TRY(import(object->object_id, object->size))));
  return filler.finish();
}

Objects all_of(const image::Contents& contents) {
  Objects result;
  for (const image::Object& object : contents.objects) result.push_back(&object);
  return result;
}

Result<FillReport> fill_objects(const FillTools& tools, const Fd& session, Fd render_node,
                                const image::Directory& images,
                                const image::Set::ContentsFile& file, const Objects& objects) {
  const auto start = std::chrono::steady_clock::now();
  FillReport report;
  report.staging = staging_for(file.contents, tools.staging);
  auto engine = TRY(tools.make_engine(std::move(render_node), report.staging));
  report.io = tools.queue.name();
  const kernel::Node node{engine->file(), kernel::Node::Kind::kRender};
  auto import = [&](uint64_t id, uint64_t size) -> Result<std::shared_ptr<gpu::Imported>> {
    const Fd dmabuf = TRY(tools.api.dmabuf(node, session.get(), id));
    return std::shared_ptr<gpu::Imported>(TRY(engine->import(dmabuf, size)));
  };
  auto files = TRY(image::ChunkFiles::open(images, file));
  if (tools.direct) files.use_direct();
  const auto fill_and_compare = [&](bool pages) -> Result<FillCounts> {
    FillOptions options = tools.options;
    options.pages = pages;
    if (options.workers) options.most_slots = report.staging.most_slots;
    const FillCounts counts =
        TRY(fill_contents(*engine, tools.queue, files, objects, import, options));
    if (tools.gpu_hashes) report.compared_bytes = TRY(verify_contents(*engine, objects, import));
    if (pages && report.compared_bytes != counts.bytes)
      return Error(ENOTSUP, "the GPU could not compare all of it");
    return counts;
  };
  // What the GPU has copied from pages is compared afterwards. Without that, or if anything fails,
  // all is filled with bytes that are checked first.
  const bool pages = tools.gpu_hashes && has_pages(files, objects) && can_compare(*engine, objects);
  auto filled = fill_and_compare(pages);
  if (!filled.ok() && pages) {
    report.not_pages = filled.error().message();
    filled = fill_and_compare(false);
  }
  if (!filled.ok()) return std::move(filled).error().within("restoring " + file.name);
  if (const std::string* name = files.find_given_up_direct()) report.not_direct = *name;
  report.staging.slots = engine->slots();
  report.objects = objects.size();
  static_cast<FillCounts&>(report) = *filled;
  const auto spent = std::chrono::steady_clock::now() - start;
  report.milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(spent).count();
  return report;
}

}  // namespace amdgpu_criu::restore
