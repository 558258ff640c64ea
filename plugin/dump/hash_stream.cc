// SPDX-License-Identifier: GPL-2.0
#include "dump/hash_stream.h"

#include <system_error>

#include "base/numbers.h"

namespace amdgpu_criu::dump {

HashStream::HashStream(gpu::Engine& engine, std::span<const gpu::Hashed> bos,
                       uint32_t chunk_bytes) {
  try {
    thread_ = start_helper_thread<std::jthread>([this, &engine, bos, chunk_bytes] {
      end(without_exceptions(
          [&] { return engine.hash(bos, chunk_bytes, [this](auto some) { return add(some); }); }));
    });
  } catch (const std::system_error& error) {
    end(Error::of(error.code().value(), "cannot create a thread: {}", error.what()));
  }
}

HashStream::~HashStream() {
  const std::lock_guard guard(lock_);
  stop_ = true;
}

Result<gpu::ChunkHash> HashStream::next() {
  std::unique_lock guard(lock_);
  changed_.wait(guard, [&] { return next_ < hashes_.size() || ended_; });
  if (next_ < hashes_.size()) return hashes_[next_++];
  if (ended_ && !ended_->ok()) return ended_->error();
  return Error(EPROTO, "a chunk has no hash");
}

bool HashStream::add(std::span<const gpu::ChunkHash> some) {
  const std::lock_guard guard(lock_);
  hashes_.insert(hashes_.end(), some.begin(), some.end());
  changed_.notify_all();
  return !stop_;
}

void HashStream::end(Status status) {
  const std::lock_guard guard(lock_);
  ended_ = std::move(status);
  changed_.notify_all();
}

}  // namespace amdgpu_criu::dump
