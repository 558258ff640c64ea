// SPDX-License-Identifier: GPL-2.0
// Blocks whose registers have constant values: a ready bit, an identity.
#pragma once

#include <string>
#include <vector>

#include "asic/asic.h"
#include "core/interfaces.h"

namespace gpu {

class FixedRegisters final : public RegisterBlock {
 public:
  using Register = ConstantBlock::Register;

  // offset is added to the registers.
  explicit FixedRegisters(const ConstantBlock& block, uint32_t offset = 0)
      : name_(block.name), registers_(block.registers) {
    for (Register& one : registers_) one.dword += offset;
  }

  amdgpu_criu::Status claim(Registers& registers) {
    for (const Register& one : registers_) TRY(registers.claim(*this, one.dword, one.dword));
    return {};
  }

  std::string_view name() const override { return name_; }
  uint32_t read(uint32_t dword) override {
    for (const Register& one : registers_)
      if (one.dword == dword) return one.value;
    return 0;
  }
  void write(uint32_t, uint32_t) override {}

 private:
  std::string name_;
  std::vector<Register> registers_;
};

}  // namespace gpu
