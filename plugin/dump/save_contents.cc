// SPDX-License-Identifier: GPL-2.0
#include "dump/save_contents.h"

#include <algorithm>
#include <map>

#include "base/progress.h"

namespace amdgpu_criu::dump {
namespace {

using pipeline::Encoding;

class Saver {
 public:
  Saver(gpu::Engine& engine, pipeline::IoQueue& queue, const SaveOptions& options,
        image::ContentsWriter& to, uint64_t bytes)
      : engine_(engine),
        queue_(queue),
        options_(options),
        to_(to),
        slots_(engine.slots()),
        chunk_bytes_(std::min<uint64_t>(options.chunk_bytes, engine.staging(0).size())),
        progress_(bytes, std::chrono::seconds(1)) {}
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;
  // BOs must not be unmapped while copies from them are under way, nor slots reused by others.
  ~Saver() {
    for (unsigned slot = 0; slot < slots_.size(); slot++) {
      (void)engine_.wait(slot);
      (void)queue_.finish(slot);
    }
  }

  // A chunk is never in two slots, and begins in its object where it would in any other dump.
  Status add(const kernel::Bo& bo, const std::shared_ptr<gpu::Imported>& from) {
    const size_t object = saved_.objects.size();
    saved_.objects.push_back({bo.object_id, bo.size, {}, {}});
    for (uint64_t offset = 0; offset < bo.size;) {
      const uint64_t size = std::min<uint64_t>(bo.size - offset, chunk_bytes_);
      if (!has_room(size)) TRY(launch());
      if (slots_[current_].state != State::kFilling) TRY(empty(current_));
      append(from, object, offset, size);
      offset += size;
    }
    return {};
  }

  Result<Saved> finish() {
    TRY(launch());
    // Oldest first: chunks are written in the order of the index.
    for (size_t i = 0; i < slots_.size(); i++) TRY(empty((current_ + i) % slots_.size()));
    return std::move(saved_);
  }

 private:
  enum class State { kIdle, kFilling, kCopying, kWriting };
  struct Part {
    size_t object;
    size_t at;  // in the slot
    uint32_t size;
  };
  struct Slot {
    State state = State::kIdle;
    std::vector<std::shared_ptr<gpu::Imported>> from;
    std::vector<gpu::Piece> pieces;
    std::vector<Part> chunks;
    size_t used = 0;
    uint64_t packets = 0;
    pipeline::StoredRoom compressed;
  };

  bool has_room(uint64_t size) const {
    const Slot& slot = slots_[current_];
    if (slot.state != State::kFilling) return true;
    // The last piece may grow by less than a packet, or by one more.
    return slot.used + size <= engine_.staging(current_).size() &&
           slot.packets + gpu::packets_for(size) < gpu::kMaxPackets;
  }

  void append(const std::shared_ptr<gpu::Imported>& from, size_t object, uint64_t offset,
              uint64_t size) {
    Slot& slot = slots_[current_];
    slot.state = State::kFilling;
    if (slot.from.empty() || slot.from.back() != from) slot.from.push_back(from);
    slot.packets += gpu::packets_for(size);
    const bool goes_on = !slot.pieces.empty() && slot.pieces.back().bo == from.get() &&
                         slot.pieces.back().offset + slot.pieces.back().size == offset;
    if (goes_on)
      slot.pieces.back().size += size;
    else
      slot.pieces.push_back({from.get(), offset, size, slot.used});
    slot.chunks.push_back({object, slot.used, static_cast<uint32_t>(size)});
    slot.used += size;
  }

  // While the slot is copied, the one before it is summed and written.
  Status launch() {
    Slot& slot = slots_[current_];
    if (slot.state != State::kFilling) return {};
    if (options_.interruption) TRY(options_.interruption->check());
    TRY(engine_.start_read(current_, slot.pieces));
    slot.state = State::kCopying;
    saved_.counts.submissions++;
    const unsigned before = (current_ + slots_.size() - 1) % slots_.size();
    current_ = (current_ + 1) % slots_.size();
    if (slots_.size() > 1 && slots_[before].state == State::kCopying) TRY(write(before));
    return {};
  }

  Status empty(unsigned index) {
    Slot& slot = slots_[index];
    if (options_.interruption) TRY(options_.interruption->check());
    if (slot.state == State::kCopying) TRY(write(index));
    if (slot.state == State::kWriting) {
      const pipeline::Stopwatch watch(saved_.counts.times.files);
      TRY(queue_.finish(index));
    }
    slot.state = State::kIdle;
    return {};
  }

  Status write(unsigned index) {
    Slot& slot = slots_[index];
    {
      const pipeline::Stopwatch watch(saved_.counts.times.copies);
      TRY(engine_.wait(index));
    }
    slot.from.clear();
    slot.pieces.clear();
    pipeline::IoRequest request{to_.fd(), true, 0, {}, &to_.name()};
    size_t compressed = 0;
    {
      const pipeline::Stopwatch watch(saved_.counts.times.bytes);
      for (const Part& part : slot.chunks) store(index, part, request, compressed);
    }
    const auto text = progress_.add(slot.used);
    if (text && options_.progress) options_.progress(*text);
    if (!request.parts.empty()) queue_.submit(index, std::move(request));
    slot.chunks.clear();
    slot.used = 0;
    slot.packets = 0;
    slot.state = State::kWriting;
    return {};
  }

  // Puts the chunk into the index, and what must be written of it into the request.
  void store(unsigned index, const Part& part, pipeline::IoRequest& request, size_t& compressed) {
    const auto bytes = engine_.staging(index).subspan(part.at, part.size);
    image::Object& object = saved_.objects[part.object];
    image::Chunk chunk{0, part.size};
    saved_.counts.bytes += part.size;
    image::Hash hash{};
    if (pipeline::is_zero(bytes)) {
      chunk.encoding = Encoding::kZeros;
      saved_.counts.zero_bytes += part.size;
    } else {
      if (options_.hashes) hash = image::strong_hash(bytes);
      const image::Chunk* earlier =
          options_.earlier ? options_.earlier->find(hash, part.size) : nullptr;
      if (earlier) {
        chunk = *earlier;
        chunk.source = number_of(chunk.source);
        saved_.counts.earlier_bytes += part.size;
      } else {
        chunk.sum = image::checksum(bytes);
        put_into_file(index, bytes, chunk, request, compressed);
      }
    }
    object.chunks.push_back(chunk);
    if (options_.hashes) object.hashes.push_back(hash);
  }

  // Files are named that are needed, and no others.
  uint32_t number_of(uint32_t source) {
    uint32_t& number = source_numbers_[source];
    if (number == 0) {
      saved_.sources.push_back(options_.earlier->sources()[source - 1]);
      number = static_cast<uint32_t>(saved_.sources.size());
    }
    return number;
  }

  void put_into_file(unsigned index, std::span<std::byte> bytes, image::Chunk& chunk,
                     pipeline::IoRequest& request, size_t& compressed) {
    Slot& slot = slots_[index];
    std::span<std::byte> stored = bytes;
    if (options_.compression.encoding != Encoding::kPlain) {
      const auto room = slot.compressed.get(engine_.staging(index).size()).subspan(compressed);
      if (const auto size = codec_.compress(options_.compression, bytes, room)) {
        stored = room.first(*size);
        compressed += *size;
        chunk.encoding = options_.compression.encoding;
        chunk.compressed = static_cast<uint32_t>(*size);
      }
    }
    chunk.offset = to_.reserve(stored.size());
    saved_.counts.stored_bytes += stored.size();
    if (request.parts.empty()) request.offset = chunk.offset;
    request.add(stored);
  }

  gpu::Engine& engine_;
  pipeline::IoQueue& queue_;
  const SaveOptions& options_;
  image::ContentsWriter& to_;
  std::vector<Slot> slots_;
  uint64_t chunk_bytes_;
  Progress progress_;
  unsigned current_ = 0;
  pipeline::Codec codec_;
  std::map<uint32_t, uint32_t> source_numbers_;  // in the file, by that in Earlier
  Saved saved_;
};

}  // namespace

Result<Saved> save_contents(gpu::Engine& engine, pipeline::IoQueue& queue,
                            std::span<const kernel::Bo> bos, const gpu::ImportObject& import,
                            const SaveOptions& options, image::ContentsWriter& to) {
  uint64_t bytes = 0;
  for (const kernel::Bo& bo : bos) bytes += bo.size;
  Saver saver(engine, queue, options, to, bytes);
  for (const kernel::Bo& bo : bos) TRY(saver.add(bo, TRY(import(bo.object_id, bo.size))));
  return saver.finish();
}

}  // namespace amdgpu_criu::dump
