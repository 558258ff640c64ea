// SPDX-License-Identifier: GPL-2.0
// All registers of the MMIO BAR: claimed registers go to their block, the rest is storage.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/interfaces.h"
#include "regs/ip_registers.h"

namespace gpu {

class RegisterBus final : public Registers {
 public:
  // Half of the driver's own number of polls. On a busy machine an engine may not run for thousands
  // of polls.
  static constexpr uint32_t kSpinLimit = 50000;

  struct Spec {
    uint32_t words = 0x20000;           // of the MMIO BAR
    std::vector<IpRegisters> ips = {};  // for messages
    std::string trace = {};             // file that gets one line an access; empty: none
  };
  static amdgpu_criu::Result<std::unique_ptr<RegisterBus>> create(const Spec& spec);

  // For engines, from any thread. An offset outside of the BAR reads as ~0.
  uint32_t read(uint32_t dword) override;
  void write(uint32_t dword, uint32_t value) override;
  // Only while the device is created, before anything is read or written.
  amdgpu_criu::Status claim(RegisterBlock& block, uint32_t first, uint32_t last) override;

  // The same for accesses of the driver, which detect a driver that spins on a register.
  uint32_t driver_read(uint32_t dword);
  void driver_write(uint32_t dword, uint32_t value);

  // Reset values of unclaimed registers.
  void reset();
  // Reads of unclaimed registers, most frequent first; registers never written come before those
  // that are plain storage.
  std::string report() const;

 private:
  using File = std::unique_ptr<FILE, int (*)(FILE*)>;
  struct Plain {
    std::atomic<uint32_t> value = 0;
    std::atomic<uint32_t> reads = 0;
    std::atomic<bool> written = false;
  };

  RegisterBus(const Spec& spec, File trace)
      : words_(spec.words),
        ips_(spec.ips),
        trace_(std::move(trace)),
        plain_(words_),
        claims_(words_),
        last_dword_(words_) {}
  void trace(char what, uint32_t dword, uint32_t value);
  void watch(uint32_t dword, uint32_t value);

  const uint32_t words_;
  const std::vector<IpRegisters> ips_;
  File trace_;
  std::mutex trace_mutex_;
  std::vector<Plain> plain_;
  std::vector<RegisterBlock*> claims_;
  // The driver's last read, and how often it was repeated; transport thread only.
  uint32_t last_dword_;  // words_: none
  uint32_t last_value_ = 0;
  uint32_t repeats_ = 0;
};

}  // namespace gpu
