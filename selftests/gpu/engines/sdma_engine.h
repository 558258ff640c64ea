// SPDX-License-Identifier: GPL-2.0
// The registers of an SDMA engine and its kernel ring.
#pragma once

#include <array>
#include <functional>
#include <mutex>
#include <string>

#include "engines/queue_table.h"
#include "engines/sdma_queue.h"

namespace gpu {

class SdmaEngine : public RegisterBlock {
 public:
  // changed: the ring may have to start or stop; called without locks held, from any thread.
  SdmaEngine(Context& context, unsigned index, std::function<void()> changed);

  std::string_view name() const override { return name_; }
  unsigned index() const { return index_; }
  uint32_t first() const { return base_; }
  uint32_t last() const { return base_ + reg::kSdmaGfxLast; }
  uint32_t read(uint32_t dword) override;
  void write(uint32_t dword, uint32_t value) override;

  // The engine's thread. Starts or stops the kernel ring as the registers say.
  void update(QueueTable& table);
  void doorbell(uint32_t offset, uint64_t value);
  void reset();
  // Any thread. Whether the doorbell is that of the kernel ring.
  bool has_doorbell(uint32_t offset);

 private:
  using Words = std::array<uint32_t, reg::kSdmaGfxLast + 1>;

  struct Change {
    Words words;
    bool moved;    // the write pointer was written
    bool stopped;  // the ring was disabled, although it may be enabled again
  };

  bool owns(uint32_t doorbell) const;
  bool wanted(std::span<const uint32_t> words) const;
  Change take_change();
  void show(uint64_t rptr, uint64_t wptr);
  amdgpu_criu::Result<std::unique_ptr<SdmaQueue>> start(const Words& words);
  void power_on();

  Context& context_;
  const unsigned index_;
  const uint32_t base_;
  const std::optional<uint32_t> halt_;  // F32_CNTL
  const std::string name_;
  const std::function<void()> changed_;
  std::mutex mutex_;  // words_, wptr_written_, stopped_
  Words words_ = {};
  bool stopped_ = false;
  bool wptr_written_ = false;
  uint32_t running_doorbell_ = 0;  // the engine's thread
  bool running_ = false;           // the same
};

}  // namespace gpu
