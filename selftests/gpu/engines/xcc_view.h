// SPDX-License-Identifier: GPL-2.0
// The chip as the engines of one XCC see it: register offsets, the GC hub and interrupts look like
// those of XCC 0, for every XCC.
#pragma once

#include <memory>
#include <vector>

#include "core/interfaces.h"

namespace gpu {

class XccMemory final : public Memory {
 public:
  XccMemory(Memory& memory, unsigned xcc) : memory_(memory), xcc_(xcc) {}

  Hold hold() override { return memory_.hold(); }
  amdgpu_criu::Status read(Space space, uint64_t address, std::span<std::byte> out) override {
    return memory_.read(own(space), address, out);
  }
  amdgpu_criu::Status write(Space space, uint64_t address,
                            std::span<const std::byte> data) override {
    return memory_.write(own(space), address, data);
  }
  amdgpu_criu::Result<std::span<std::byte>> window(Space space, uint64_t address, size_t size,
                                                   bool for_write) override {
    return memory_.window(own(space), address, size, for_write);
  }
  amdgpu_criu::Result<std::span<std::byte>> code(Space space, uint64_t address,
                                                 size_t size) override {
    return memory_.code(own(space), address, size);
  }
  // For any hub, because one XCC binds a process on all XCCs of its partition.
  void bind_vmid(Space space, uint32_t pasid, uint64_t page_table_base, bool retries) override {
    memory_.bind_vmid(space, pasid, page_table_base, retries);
  }
  void invalidate_pasid(Space hub, uint32_t pasid) override {
    memory_.invalidate_pasid(own(hub), pasid);
  }

 private:
  Space own(Space space) const {
    if (space.hub == Hub::kGfx) space.instance = xcc_;
    return space;
  }

  Memory& memory_;
  const unsigned xcc_;
};

class XccRegisters final : public Registers {
 public:
  XccRegisters(Registers& registers, unsigned xcc) : registers_(registers), xcc_(xcc) {}

  uint32_t read(uint32_t dword) override { return registers_.read(global(dword)); }
  void write(uint32_t dword, uint32_t value) override { registers_.write(global(dword), value); }
  amdgpu_criu::Status claim(RegisterBlock& block, uint32_t first, uint32_t last) override;

 private:
  // A block at its place in another XCC.
  class Moved final : public RegisterBlock {
   public:
    Moved(RegisterBlock& block, uint32_t offset) : block_(block), offset_(offset) {}
    std::string_view name() const override { return block_.name(); }
    uint32_t read(uint32_t dword) override { return block_.read(dword - offset_); }
    void write(uint32_t dword, uint32_t value) override { block_.write(dword - offset_, value); }

   private:
    RegisterBlock& block_;
    const uint32_t offset_;
  };

  uint32_t global(uint32_t dword) const;

  Registers& registers_;
  const unsigned xcc_;
  std::vector<std::unique_ptr<Moved>> moved_;
};

class XccInterrupts final : public InterruptSink {
 public:
  XccInterrupts(InterruptSink& interrupts, unsigned xcc) : interrupts_(interrupts), xcc_(xcc) {}

  void raise(const Interrupt& interrupt) override {
    Interrupt own = interrupt;
    if (!own.from_mmhub) own.instance = xcc_;
    interrupts_.raise(own);
  }

 private:
  InterruptSink& interrupts_;
  const unsigned xcc_;
};

}  // namespace gpu
