// SPDX-License-Identifier: GPL-2.0
#include "restore/contents.h"

#include <algorithm>

namespace restore {
namespace {

using base::Error;
using base::Status;

class Filler {
 public:
  Filler(gpu::Engine& engine, const image::Opened& file)
      : engine_(engine), file_(file), ring_(engine.slots()) {}
  Filler(const Filler&) = delete;
  Filler& operator=(const Filler&) = delete;
  // BOs must not be unmapped while copies to them are under way.
  ~Filler() {
    for (unsigned slot = 0; slot < ring_.size(); slot++) (void)engine_.wait(slot);
  }

  Status add(const image::Object& object, const std::shared_ptr<gpu::Imported>& to) {
    uint64_t offset = 0;
    for (const image::Chunk& chunk : object.chunks) {
      TRY(retire(next_));
      const auto bytes = engine_.staging(next_).first(chunk.size);
      TRY(file_.read(chunk.offset, bytes));
      if (image::checksum(bytes) != chunk.sum)
        return Error::of(
            EBADMSG,
            "image {}: contents of object {} are damaged (chunk at {:#x}, {:#x} bytes: "
            "checksum does not match)",
            file_.name, object.object_id, chunk.offset, chunk.size);
      TRY(engine_.start_write(next_, *to, offset, chunk.size));
      ring_[next_] = to;
      next_ = (next_ + 1) % ring_.size();
      offset += chunk.size;
    }
    return {};
  }

  Status finish() {
    for (unsigned slot = 0; slot < ring_.size(); slot++) TRY(retire(slot));
    return {};
  }

 private:
  Status retire(unsigned slot) {
    const auto done = std::exchange(ring_[slot], nullptr);
    return done ? engine_.wait(slot) : Status();
  }

  gpu::Engine& engine_;
  const image::Opened& file_;
  std::vector<std::shared_ptr<gpu::Imported>> ring_;  // null: the slot is idle
  unsigned next_ = 0;
};

}  // namespace

gpu::StagingSize staging_for(const image::Contents& contents, gpu::StagingSize wanted) {
  for (const image::Object& object : contents.objects)
    for (const image::Chunk& chunk : object.chunks)
      wanted.bytes = std::max<size_t>(wanted.bytes, chunk.size);
  return wanted;
}

Status fill_contents(gpu::Engine& engine, const image::Opened& file,
                     std::span<const image::Object> objects, const DmabufSource& dmabuf) {
  Filler filler(engine, file);
  for (const image::Object& object : objects) {
    const base::Fd fd = TRY(dmabuf(object.object_id));
    TRY(filler.add(object, TRY(engine.import(fd, object.size))));
  }
  return filler.finish();
}

}  // namespace restore
