// SPDX-License-Identifier: GPL-2.0
// The JPEG engine of VCN 4.0: a ring of register writes, indirect buffers, fences and traps. It
// decodes nothing.
#pragma once

#include <array>
#include <map>
#include <mutex>

#include "engines/context.h"

namespace gpu {

class JpegEngine final : public RegisterBlock {
 public:
  // context.asic has such an engine.
  explicit JpegEngine(Context& context);

  amdgpu_criu::Status claim();
  std::string_view name() const override { return "JPEG"; }
  uint32_t read(uint32_t dword) override;
  void write(uint32_t dword, uint32_t value) override;

  // The thread of the video engines. Executes the ring up to the write pointer if the doorbell is
  // the engine's.
  void doorbell(uint32_t offset, uint64_t value);
  void reset();

 private:
  void power_on();
  uint32_t word(uint32_t dword);
  // Packets are pairs of doublewords.
  amdgpu_criu::Status execute_ring(uint32_t wptr);
  amdgpu_criu::Status execute_buffer();
  amdgpu_criu::Status execute(uint32_t header, uint32_t value, bool in_ring);
  amdgpu_criu::Status set(uint32_t target, uint32_t value, bool in_ring);
  amdgpu_criu::Status wait(uint32_t target, uint32_t mask);

  Context& context_;
  const JpegRegisters& at_;
  std::mutex mutex_;  // words_
  std::map<uint32_t, uint32_t> words_;
  uint32_t external_ = 0;  // by that thread: the register that kExternalValue means, in bytes
};

}  // namespace gpu
