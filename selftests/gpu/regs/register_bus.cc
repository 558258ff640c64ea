// SPDX-License-Identifier: GPL-2.0
#include "regs/register_bus.h"

#include <algorithm>
#include <iterator>

#include "base/result.h"
#include "core/log.h"

namespace gpu {

amdgpu_criu::Result<std::unique_ptr<RegisterBus>> RegisterBus::create(const Spec& spec) {
  File trace(nullptr, &fclose);
  if (!spec.trace.empty()) {
    trace.reset(fopen(spec.trace.c_str(), "we"));
    if (!trace) return amdgpu_criu::Error::system("cannot write the trace {}", spec.trace);
  }
  return std::unique_ptr<RegisterBus>(new RegisterBus(spec, std::move(trace)));
}

amdgpu_criu::Status RegisterBus::claim(RegisterBlock& block, uint32_t first, uint32_t last) {
  if (first > last || last >= words_)
    return amdgpu_criu::Error::of(EINVAL, "{}: registers {:#x}..{:#x} are outside of the MMIO BAR",
                                  block.name(), first, last);
  for (uint32_t dword = first; dword <= last; ++dword)
    if (const RegisterBlock* other = claims_[dword])
      return amdgpu_criu::Error::of(EEXIST, "register {:#x} is claimed by {} and by {}", dword,
                                    other->name(), block.name());
  std::fill(claims_.begin() + first, claims_.begin() + last + 1, &block);
  return {};
}

uint32_t RegisterBus::read(uint32_t dword) {
  if (dword >= words_) return ~0u;
  uint32_t value;
  if (RegisterBlock* block = claims_[dword]) {
    value = block->read(dword);
  } else {
    Plain& plain = plain_[dword];
    plain.reads.fetch_add(1, std::memory_order_relaxed);
    value = plain.value.load();
  }
  if (trace_) trace('R', dword, value);
  return value;
}

void RegisterBus::write(uint32_t dword, uint32_t value) {
  if (dword >= words_) return;
  if (trace_) trace('W', dword, value);
  if (RegisterBlock* block = claims_[dword]) return block->write(dword, value);
  plain_[dword].value.store(value);
  plain_[dword].written.store(true, std::memory_order_relaxed);
}

uint32_t RegisterBus::driver_read(uint32_t dword) {
  const uint32_t value = read(dword);
  watch(dword, value);
  return value;
}

void RegisterBus::driver_write(uint32_t dword, uint32_t value) {
  last_dword_ = words_;
  write(dword, value);
}

void RegisterBus::watch(uint32_t dword, uint32_t value) {
  if (dword != last_dword_ || value != last_value_) {
    last_dword_ = dword;
    last_value_ = value;
    repeats_ = 0;
    return;
  }
  if (++repeats_ != kSpinLimit) return;
  model_fault(
      "the driver has read register {} {} times in a row and got {:#x} each time: it waits "
      "for something this model does not do",
      register_name(ips_, dword), kSpinLimit, value);
}

void RegisterBus::trace(char what, uint32_t dword, uint32_t value) {
  const std::lock_guard lock(trace_mutex_);
  fprintf(trace_.get(), "%c %05x %08x %s\n", what, dword, value,
          register_name(ips_, dword).c_str());
}

void RegisterBus::reset() {
  for (Plain& plain : plain_) plain.value = 0;
}

std::string RegisterBus::report() const {
  struct Row {
    uint32_t dword;
    uint32_t reads;
    bool written;
  };
  std::vector<Row> rows;
  for (uint32_t dword = 0; dword < words_; ++dword)
    if (const uint32_t reads = plain_[dword].reads)
      rows.push_back({dword, reads, plain_[dword].written});
  std::ranges::sort(rows, [](const Row& a, const Row& b) {
    return std::tuple(a.written, b.reads, a.dword) < std::tuple(b.written, a.reads, b.dword);
  });
  std::string text =
      amdgpu_criu::formatted("{} registers without a model were read\n", rows.size());
  for (const Row& row : rows)
    text += amdgpu_criu::formatted("{:8} reads  {:#07x} {}{}\n", row.reads, row.dword,
                                   register_name(ips_, row.dword),
                                   row.written ? " (storage)" : " (never written)");
  return text;
}

}  // namespace gpu
