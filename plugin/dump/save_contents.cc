// SPDX-License-Identifier: GPL-2.0
#include "dump/save_contents.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "base/log.h"
#include "base/progress.h"
#include "dump/hash_stream.h"
#include "dump/page_windows.h"
#include "gpu/ring_growth.h"
#include "pipeline/memory_file.h"

namespace amdgpu_criu::dump {
namespace {

using pipeline::Encoding;

// Chunks in a slot: those that are not copied take no room in it.
constexpr size_t kMaxChunks = 4096;

class Saver {
 public:
  Saver(gpu::Engine& engine, pipeline::IoQueue& queue, const SaveOptions& options,
        image::ContentsWriter& to, uint64_t bytes)
      : engine_(engine),
        queue_(queue),
        options_(options),
        to_(to),
        inline_workers_(0),
        workers_(options.workers ? *options.workers : inline_workers_),
        slots_(engine.slots()),
        chunk_bytes_(static_cast<uint32_t>(
            std::min<uint64_t>(options.chunk_bytes, engine.staging(0).size()))),
        progress_(bytes, std::chrono::seconds(1)),
        growth_(engine, options.most_slots) {
    if (!pipeline::is_memory(to.fd())) return;
    const unsigned needed = pipeline::MemoryFile::kFewestMappingThreads;
    const unsigned threads = options.write ? 0 : workers_.threads();
    memory_.emplace(to.fd(), to.end() + bytes, may_use_pages() ? needed : threads);
    if (may_use_pages() && memory_->is_mapped())
      windows_.emplace(engine_, workers_, memory_->bytes());
  }
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;
  // BOs must not be unmapped while copies from them are under way, nor slots reused by others.
  ~Saver() {
    for (unsigned slot = 0; slot < slots_.size(); slot++) {
      (void)engine_.wait(slot);
      (void)workers_.wait(slots_[slot].batch);
      (void)queue_.finish(slot);
    }
  }

  // False: the GPU need not hash, or has failed to.
  bool gpu_hashes() const { return options_.hashes && options_.gpu_hashes && !cannot_hash_; }

  uint32_t chunk_bytes() const { return chunk_bytes_; }

  // A chunk is never in two slots, and begins at the same place in its object as in any other dump.
  // hashes: of this object and of those that are added next; null: none.
  Status add(const kernel::Bo& bo, const std::shared_ptr<gpu::Imported>& from, HashStream* hashes) {
    const size_t object = saved_.objects.size();
    image::Object& index =
        saved_.objects.emplace_back(image::Object{bo.object_id, bo.size, {}, {}});
    const size_t chunks = gpu::chunks_of(bo.size, chunk_bytes_);
    index.chunks.reserve(chunks);
    if (options_.hashes) index.hashes.reserve(chunks);
    for (uint64_t offset = 0; offset < bo.size;) {
      const auto size = static_cast<uint32_t>(std::min<uint64_t>(bo.size - offset, chunk_bytes_));
      Part part{object, 0, size};
      part.is_known = hashes && recognise(part, *hashes);
      if (!has_room(part.is_known ? 0 : size)) TRY(launch());
      if (slots_[current_].state != State::kFilling) TRY(empty(current_));
      if (!hashes || cannot_hash_) windows_.reset();
      append(from, part, offset);
      offset += size;
    }
    return {};
  }

  Result<Saved> finish() {
    TRY(launch());
    // Oldest first: chunks are written in the order of the index.
    for (size_t i = 0; i < slots_.size(); i++) TRY(empty((current_ + i) % slots_.size()));
    if (options_.progress) options_.progress(progress_);
    return std::move(saved_);
  }

 private:
  // In this order.
  enum class State { kIdle, kFilling, kCopying, kPreparing, kWriting };
  struct Part {
    size_t object;
    size_t at;  // in the slot
    uint32_t size;
    bool is_known = false;  // by a hash of the GPU, and not copied
    bool in_pages = false;  // copied to its place in the file
    bool is_hashed = false;
    // The results of recognise() or of prepare().
    image::Chunk chunk{};
    image::Hash hash{};
    std::span<std::byte> stored{};  // empty: nothing must be written
    Status written{};               // of a file in memory
  };
  struct Slot {
    State state = State::kIdle;
    std::vector<std::shared_ptr<gpu::Imported>> from;
    std::vector<std::shared_ptr<const gpu::PageWindow>> windows;
    std::vector<gpu::Piece> pieces;
    std::vector<Part> chunks;
    size_t used = 0;
    uint64_t packets = 0;
    uint64_t bytes = 0;  // of all chunks, copied or not
    pipeline::StoredRoom compressed;
    pipeline::Workers::Batch batch;
  };

  bool has_room(uint64_t size) const {
    const Slot& slot = slots_[current_];
    if (slot.state != State::kFilling) return true;
    if (slot.chunks.size() >= kMaxChunks) return false;
    // The last piece may grow within its packet, or by one packet; a chunk in two windows has two
    // pieces.
    return slot.used + size <= engine_.staging(current_).size() &&
           slot.packets + gpu::packets_for(size) + 1 < gpu::kMaxPackets;
  }

  // What has to be stored must be known before it is copied, because a file has no gaps.
  bool may_use_pages() const {
    return gpu_hashes() && options_.compression.encoding == Encoding::kPlain && !to_.cipher();
  }

  // True if the GPU has hashed the chunk, and it is known, so that it need not be copied. In a
  // pre-dump, what is copied is hashed again: the process may have changed it meanwhile.
  bool recognise(Part& part, HashStream& hashes) {
    if (cannot_hash_) return false;
    const auto next = hashes.next();
    if (!next.ok()) {
      cannot_hash_ = true;
      log_info("the CPU hashes GPU memory: {}", next.error().message());
      return false;
    }
    const image::Hash& hash = *next;
    saved_.counts.hashed_bytes += part.size;
    if (hash == zeros_.of(part.size)) {
      part.chunk.size = part.size;
      part.chunk.encoding = Encoding::kZeros;
      return true;
    }
    const image::Chunk* const earlier =
        options_.earlier ? options_.earlier->find(hash, part.size) : nullptr;
    part.hash = hash;
    part.is_hashed = options_.paused;
    if (earlier) part.chunk = *earlier;
    return earlier != nullptr;
  }

  void append(const std::shared_ptr<gpu::Imported>& from, Part& part, uint64_t offset) {
    Slot& slot = slots_[current_];
    slot.state = State::kFilling;
    part.at = slot.used;
    slot.bytes += part.size;
    if (!part.is_known) {
      if (slot.from.empty() || slot.from.back() != from) slot.from.push_back(from);
      const gpu::Piece piece{from.get(), offset, part.size, slot.used};
      if (windows_) place_in_pages(*windows_, slot, part, piece);
      if (!part.in_pages) add_piece(slot, piece);
      slot.used += part.size;
    }
    slot.chunks.push_back(part);
  }

  // If the GPU cannot have the pages, what follows is copied to slots. Nothing is placed after it
  // before these are written.
  void place_in_pages(PageWindows& file, Slot& slot, Part& part, gpu::Piece piece) {
    const uint64_t place = to_.end();
    std::vector<std::shared_ptr<const gpu::PageWindow>> windows;
    for (uint64_t at = place; at < place + part.size; at = windows.back()->end) {
      auto window = file.at(at);
      if (!window.ok()) {
        log_info("threads write what follows to {}: {}", to_.name(), window.error().message());
        return windows_.reset();
      }
      windows.push_back(std::move(*window));
    }
    part.in_pages = true;
    part.chunk.offset = to_.reserve(part.size);
    for (auto& window : windows) {
      const uint64_t from = std::max(place, window->start);
      piece.size = std::min(place + part.size, window->end) - from;
      piece.at = from - window->start;
      piece.pages = window->pages.get();
      add_piece(slot, piece);
      piece.offset += piece.size;
      if (slot.windows.empty() || slot.windows.back() != window)
        slot.windows.push_back(std::move(window));
    }
  }

  static void add_piece(Slot& slot, const gpu::Piece& piece) {
    slot.packets += gpu::packets_for(piece.size);
    if (!slot.pieces.empty()) {
      gpu::Piece& last = slot.pieces.back();
      if (last.bo == piece.bo && last.offset + last.size == piece.offset &&
          last.pages == piece.pages && last.at + last.size == piece.at) {
        last.size += piece.size;
        return;
      }
    }
    slot.pieces.push_back(piece);
  }

  // While this slot is copied, the workers process the previous one, and the one before that, which
  // they have finished, is written. With few slots these are the same slot.
  Status launch() {
    Slot& slot = slots_[current_];
    if (slot.state != State::kFilling) return {};
    if (!slot.pieces.empty()) {
      TRY(engine_.start_read(current_, slot.pieces));
      saved_.counts.submissions++;
    }
    slot.state = State::kCopying;
    const auto before = [&](size_t count) {
      return static_cast<unsigned>((current_ + slots_.size() - count) % slots_.size());
    };
    const unsigned copied = before(1), prepared = before(slots_.size() >= 4 ? 2 : 1);
    if (copied != current_ && slots_[copied].state == State::kCopying) TRY(start_prepare(copied));
    if (slots_[prepared].state == State::kPreparing) TRY(write(prepared));
    if (!windows_) growth_.add(slots_[current_].used);
    return growth_.go_on(slots_, current_, progress_.total() - progress_.done(),
                         [this](unsigned index) { return empty(index); });
  }

  Status empty(unsigned index) {
    Slot& slot = slots_[index];
    if (slot.state == State::kCopying) TRY(start_prepare(index));
    if (slot.state == State::kPreparing) TRY(write(index));
    if (slot.state == State::kWriting) {
      const pipeline::Stopwatch watch(saved_.counts.times.files);
      TRY(memory_ ? finish_write(slot) : queue_.finish(index));
    }
    slot.chunks.clear();
    slot.state = State::kIdle;
    return {};
  }

  Status start_prepare(unsigned index) {
    Slot& slot = slots_[index];
    {
      const pipeline::Stopwatch watch(saved_.counts.times.copies);
      TRY(engine_.wait(index));
    }
    slot.from.clear();
    slot.pieces.clear();
    const std::span<std::byte> bytes = engine_.staging(index);
    std::span<std::byte> room;
    if (options_.compression.encoding != Encoding::kPlain) room = slot.compressed.get(bytes.size());
    const pipeline::Stopwatch watch(saved_.counts.times.bytes);
    // They also unmap the windows, which takes time.
    workers_.start(slot.batch, slot.chunks.size(),
                   [this, &slot, bytes, room](size_t i, pipeline::Codec& codec) {
                     Part& part = slot.chunks[i];
                     if (i == 0) slot.windows.clear();
                     if (memory_ && part.in_pages)
                       return sum_up(part, memory_->bytes().subspan(part.chunk.offset, part.size));
                     prepare(part, bytes.subspan(part.at, part.size),
                             room.empty() ? room : room.subspan(part.at, part.size), codec);
                   });
    slot.state = State::kPreparing;
    return {};
  }

  // Called by any thread. The file may have been truncated: the caller gets SIGBUS then.
  void sum_up(Part& part, std::span<const std::byte> bytes) const {
    part.chunk.size = part.size;
    part.chunk.sum = image::checksum(bytes);
    if (!part.is_hashed) part.hash = image::strong_hash(bytes);
  }

  // Called by any thread: determines what the chunk is, and which bytes of it must be written.
  void prepare(Part& part, std::span<std::byte> bytes, std::span<std::byte> room,
               pipeline::Codec& codec) const {
    if (part.is_known) return;
    part.chunk.size = part.size;
    if (pipeline::is_zero(bytes)) {
      part.chunk.encoding = Encoding::kZeros;
      return;
    }
    if (options_.hashes && !part.is_hashed) part.hash = image::strong_hash(bytes);
    if (options_.earlier)
      if (const image::Chunk* earlier = options_.earlier->find(part.hash, part.size)) {
        part.chunk = *earlier;
        return;
      }
    if (!to_.cipher()) part.chunk.sum = image::checksum(bytes);
    part.stored = bytes;
    if (room.empty()) return;
    if (const auto size = codec.compress(options_.compression, bytes, room)) {
      part.stored = room.first(*size);
      part.chunk.encoding = options_.compression.encoding;
      part.chunk.compressed = static_cast<uint32_t>(*size);
    }
  }

  Status write(unsigned index) {
    Slot& slot = slots_[index];
    {
      const pipeline::Stopwatch watch(saved_.counts.times.bytes);
      TRY(workers_.wait(slot.batch));
      for (Part& part : slot.chunks)
        if (!part.stored.empty()) part.chunk.offset = to_.reserve(part.stored.size());
      if (to_.cipher()) TRY(encrypt(slot));
    }
    pipeline::IoRequest request{to_.fd(), true, 0, {}, &to_.name()};
    for (const Part& part : slot.chunks) place(part, request);
    if (progress_.add(slot.bytes) && options_.progress) options_.progress(progress_);
    if (memory_)
      start_write(slot, *memory_);
    else if (!request.parts.empty())
      queue_.submit(index, std::move(request));
    slot.used = 0;
    slot.packets = 0;
    slot.bytes = 0;
    slot.state = State::kWriting;
    return {};
  }

  // A file in memory is written by the workers.
  void start_write(Slot& slot, const pipeline::MemoryFile& file) {
    workers_.start(slot.batch, slot.chunks.size(),
                   [this, &slot, &file](size_t i, pipeline::Codec&) {
                     Part& part = slot.chunks[i];
                     if (!part.stored.empty()) part.written = write_to(file, part);
                   });
  }
  // Called by any thread.
  Status write_to(const pipeline::MemoryFile& file, const Part& part) const {
    const std::span<std::byte> bytes = part.stored;
    if (!options_.write) return file.write(part.chunk.offset, bytes, to_.name());
    return pipeline::transfer_now(
        {to_.fd(), true, part.chunk.offset, {{bytes.data(), bytes.size()}}, &to_.name()},
        options_.write);
  }
  Status finish_write(Slot& slot) {
    TRY(workers_.wait(slot.batch));
    for (Part& part : slot.chunks) TRY(std::move(part.written));
    return {};
  }

  // Chunks have their places, on which the encrypted bytes depend.
  Status encrypt(Slot& slot) {
    workers_.start(slot.batch, slot.chunks.size(), [&](size_t i, pipeline::Codec&) {
      Part& part = slot.chunks[i];
      if (!part.stored.empty())
        part.chunk.sum = to_.cipher()->encrypt(part.chunk.offset, part.stored);
    });
    return workers_.wait(slot.batch);
  }

  // Adds the chunk to the index, and the bytes that must be written to the request.
  void place(const Part& part, pipeline::IoRequest& request) {
    image::Object& object = saved_.objects[part.object];
    image::Chunk chunk = part.chunk;
    saved_.counts.bytes += part.size;
    if (part.in_pages) {
      saved_.counts.stored_bytes += part.size;
      saved_.counts.page_bytes += part.size;
    } else if (!part.stored.empty()) {
      saved_.counts.stored_bytes += part.stored.size();
      if (request.parts.empty()) request.offset = chunk.offset;
      request.add(part.stored);
    } else if (chunk.encoding == Encoding::kZeros) {
      saved_.counts.zero_bytes += part.size;
    } else {
      chunk.source = number_of(chunk.source);
      saved_.counts.earlier_bytes += part.size;
    }
    object.chunks.push_back(chunk);
    if (options_.hashes) object.hashes.push_back(part.hash);
  }

  // Lists only the files that are needed.
  uint32_t number_of(uint32_t source) {
    uint32_t& number = source_numbers_[source];
    if (number == 0) {
      saved_.sources.push_back(options_.earlier->sources()[source - 1]);
      number = static_cast<uint32_t>(saved_.sources.size());
    }
    return number;
  }

  gpu::Engine& engine_;
  pipeline::IoQueue& queue_;
  const SaveOptions& options_;
  image::ContentsWriter& to_;
  pipeline::Workers inline_workers_;
  pipeline::Workers& workers_;
  std::optional<pipeline::MemoryFile> memory_;  // the file, if it is in memory
  std::optional<PageWindows> windows_;          // null: the GPU does not copy to the file
  std::deque<Slot> slots_;                      // which stay where they are
  uint32_t chunk_bytes_;
  Progress progress_;
  gpu::RingGrowth growth_;
  unsigned current_ = 0;
  bool cannot_hash_ = false;
  image::HashesOfZeros zeros_;
  std::map<uint32_t, uint32_t> source_numbers_;  // number in the file, by number in Earlier
  Saved saved_;
};

}  // namespace

Result<Saved> save_contents(gpu::Engine& engine, pipeline::IoQueue& queue,
                            std::span<const kernel::Bo> bos, const gpu::ImportObject& import,
                            const SaveOptions& options, image::ContentsWriter& to) {
  uint64_t bytes = 0;
  for (const kernel::Bo& bo : bos) bytes += bo.size;
  Saver saver(engine, queue, options, to, bytes);
  while (!bos.empty()) {
    gpu::HashBatch batch(saver.chunk_bytes());
    do {
      const kernel::Bo& bo = bos[batch.size()];
      batch.add(TRY(import(bo.object_id, bo.size)), bo.size);
    } while (batch.size() < bos.size() && saver.gpu_hashes() && batch.has_room());
    std::optional<HashStream> hashes;
    if (saver.gpu_hashes()) hashes.emplace(engine, batch.bos(), saver.chunk_bytes());
    for (size_t i = 0; i < batch.size(); i++)
      TRY(saver.add(bos[i], batch.take(i), hashes ? &*hashes : nullptr));
    bos = bos.subspan(batch.size());
  }
  return saver.finish();
}

}  // namespace amdgpu_criu::dump
