// SPDX-License-Identifier: GPL-2.0
#include "dump/contents.h"

#include <algorithm>

namespace dump {
namespace {

using base::Result;
using base::Status;

class Saver {
 public:
  Saver(gpu::Engine& engine, image::ContentsWriter& to)
      : engine_(engine), to_(to), ring_(engine.slots()) {}
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;
  // BOs must not be unmapped while copies from them are under way.
  ~Saver() {
    for (unsigned slot = 0; slot < ring_.size(); slot++) (void)engine_.wait(slot);
  }

  Status add(const kernel::Bo& bo, const std::shared_ptr<gpu::Imported>& imported) {
    const size_t object = objects_.size();
    objects_.push_back({bo.object_id, bo.size, {}});
    for (uint64_t offset = 0; offset < bo.size;) {
      const size_t size = std::min<uint64_t>(bo.size - offset, engine_.staging(next_).size());
      TRY(retire(next_));
      TRY(engine_.start_read(next_, *imported, offset, size));
      ring_[next_] = {imported, object, size};
      next_ = (next_ + 1) % ring_.size();
      offset += size;
    }
    return {};
  }

  Result<std::vector<image::Object>> finish() {
    // Oldest first: chunks of an object must be in order.
    for (size_t i = 0; i < ring_.size(); i++) TRY(retire((next_ + i) % ring_.size()));
    return std::move(objects_);
  }

 private:
  struct Pending {
    std::shared_ptr<gpu::Imported> from;  // null: the slot is idle
    size_t object = 0;
    size_t size = 0;
  };

  Status retire(unsigned slot) {
    if (!ring_[slot].from) return {};
    TRY(engine_.wait(slot));
    const Pending done = std::exchange(ring_[slot], {});
    const auto bytes = engine_.staging(slot).first(done.size);
    const image::Sum sum = image::checksum(bytes);
    const uint64_t offset = TRY(to_.append(bytes));
    objects_[done.object].chunks.push_back({offset, static_cast<uint32_t>(done.size), sum});
    return {};
  }

  gpu::Engine& engine_;
  image::ContentsWriter& to_;
  std::vector<Pending> ring_;
  unsigned next_ = 0;
  std::vector<image::Object> objects_;
};

}  // namespace

Result<std::vector<image::Object>> save_contents(gpu::Engine& engine,
                                                 std::span<const kernel::Bo> bos,
                                                 const DmabufSource& dmabuf,
                                                 image::ContentsWriter& to) {
  Saver saver(engine, to);
  for (const kernel::Bo& bo : bos) {
    const base::Fd fd = TRY(dmabuf(bo.object_id));
    TRY(saver.add(bo, TRY(engine.import(fd, bo.size))));
  }
  return saver.finish();
}

}  // namespace dump
