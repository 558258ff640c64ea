// SPDX-License-Identifier: GPL-2.0
// The mailbox of the SMU: every message succeeds at once, with 0 as its answer. There is no power
// management behind it.
#pragma once

#include <atomic>

#include "asic/asic.h"
#include "core/interfaces.h"

namespace gpu {

class SmuMailboxBlock final : public RegisterBlock {
 public:
  explicit SmuMailboxBlock(const SmuMailbox& at) : at_(at) {}

  amdgpu_criu::Status claim(Registers& registers) {
    for (const uint32_t one : {at_.message, at_.argument, at_.response})
      TRY(registers.claim(*this, one, one));
    return {};
  }
  void reset() { message_ = argument_ = response_ = 0; }

  std::string_view name() const override { return "SMU mailbox"; }
  uint32_t read(uint32_t dword) override {
    if (dword == at_.response) return response_;
    return dword == at_.argument ? argument_ : message_;
  }
  // The driver clears the response, writes the argument, then the message.
  void write(uint32_t dword, uint32_t value) override {
    constexpr uint32_t kOk = 1;
    if (dword == at_.response) {
      response_ = value;
    } else if (dword == at_.argument) {
      argument_ = value;
    } else {
      message_ = value;
      argument_ = 0;
      response_ = kOk;
    }
  }

 private:
  const SmuMailbox at_;
  std::atomic<uint32_t> message_ = 0;
  std::atomic<uint32_t> argument_ = 0;
  std::atomic<uint32_t> response_ = 0;
};

}  // namespace gpu
