// SPDX-License-Identifier: GPL-2.0
// An engine that hands each call to another one, for tests that replace some calls.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "gpu/engine.h"

namespace amdgpu_criu::testing_support {

class EngineProxy : public gpu::Engine {
 public:
  explicit EngineProxy(std::unique_ptr<gpu::Engine> engine) : engine_(std::move(engine)) {}

  int file() const override { return engine_->file(); }
  unsigned slots() const override { return engine_->slots(); }
  Status add_slots(unsigned count) override { return engine_->add_slots(count); }
  std::span<std::byte> staging(unsigned slot) override { return engine_->staging(slot); }
  Result<std::unique_ptr<gpu::Imported>> import(const Fd& dmabuf, uint64_t size) override {
    return engine_->import(dmabuf, size);
  }
  Result<std::unique_ptr<gpu::Imported>> import_pages(std::span<const std::byte> pages,
                                                      gpu::PageUse use) override {
    return engine_->import_pages(pages, use);
  }
  Status start_read(unsigned slot, std::span<const gpu::Piece> pieces) override {
    return engine_->start_read(slot, pieces);
  }
  Status start_write(unsigned slot, std::span<const gpu::Piece> pieces) override {
    return engine_->start_write(slot, pieces);
  }
  Status wait(unsigned slot) override { return engine_->wait(slot); }
  Status hash(std::span<const gpu::Hashed> bos, uint32_t chunk_bytes,
              const gpu::TakeHashes& take) override {
    return engine_->hash(bos, chunk_bytes, take);
  }

 private:
  std::unique_ptr<gpu::Engine> engine_;
};

}  // namespace amdgpu_criu::testing_support
