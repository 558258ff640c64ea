// SPDX-License-Identifier: GPL-2.0
// The PM4 packets that access memory and registers.
#include <algorithm>

#include "engines/atomics.h"
#include "engines/bulk.h"
#include "engines/pm4.h"

namespace gpu {
namespace {

// WRITE_DATA and COPY_DATA destinations, COPY_DATA sources.
enum Select : uint32_t {
  kRegister = 0,
  kMemory = 1,
  kTcL2 = 2,
  kPerfcounter = 4,
  kMemoryAsync = 5,
  kRegisterDc = 6,
  kImmediate = 5,
  kGpuClock = 9,
};

bool is_memory(uint32_t select) {
  return select == kMemory || select == kTcL2 || select == kMemoryAsync;
}

uint32_t register_of(uint32_t word) { return bits(word, 17, 0); }
uint64_t address_of(std::span<const uint32_t> words, size_t at) {
  return join(words[at] & ~3u, words[at + 1]);
}

}  // namespace

// Registers belong to the driver: writes from user space are dropped, as by register protection.
void Pm4::write_register(Stream& stream, uint32_t dword, uint32_t value) {
  if (stream.privileged()) context_.registers.write(dword, value);
}

// COMPUTE_* registers belong to the queue.
void Pm4::set_register(Stream& stream, uint32_t dword, uint32_t value) {
  if (!launcher_.registers().write(dword, value)) write_register(stream, dword, value);
}

amdgpu_criu::Result<Step> Pm4::set_registers(uint32_t first, Words words, Stream& stream) {
  uint32_t dword = first + bits(words[0], 15, 0);
  for (const uint32_t value : words.subspan(1)) set_register(stream, dword++, value);
  return Step::kDone;
}

// Their number, which is even, and for every two registers: both offsets, the values.
amdgpu_criu::Result<Step> Pm4::set_packed_registers(uint32_t first, Words words, Stream& stream) {
  for (size_t i = 1; i + 2 < words.size(); i += 3) {
    set_register(stream, first + bits(words[i], 15, 0), words[i + 1]);
    set_register(stream, first + bits(words[i], 31, 16), words[i + 2]);
  }
  return Step::kDone;
}

amdgpu_criu::Result<Step> Pm4::set_config_reg(Words words, Stream& stream, Budget&) {
  return set_registers(pm4::kConfigRegs, words, stream);
}
amdgpu_criu::Result<Step> Pm4::set_context_reg(Words words, Stream& stream, Budget&) {
  return set_registers(pm4::kContextRegs, words, stream);
}
amdgpu_criu::Result<Step> Pm4::set_context_reg_pairs(Words words, Stream& stream, Budget&) {
  return set_packed_registers(pm4::kContextRegs, words, stream);
}
amdgpu_criu::Result<Step> Pm4::set_sh_reg(Words words, Stream& stream, Budget&) {
  return set_registers(pm4::kShRegs, words, stream);
}
amdgpu_criu::Result<Step> Pm4::set_sh_reg_pairs(Words words, Stream& stream, Budget&) {
  return set_packed_registers(pm4::kShRegs, words, stream);
}
// SCRATCH_REG0 to 7 are for everybody: 6.12 tests rings of MES by them, which have a VMID.
amdgpu_criu::Result<Step> Pm4::set_uconfig_reg(Words words, Stream& stream, Budget&) {
  constexpr uint32_t kScratch = pm4::kUconfigRegs + 0x40, kNum = 8;
  const uint32_t first = pm4::kUconfigRegs + bits(words[0], 15, 0);
  if (words.size() != 2 || first - kScratch >= kNum)
    return set_registers(pm4::kUconfigRegs, words, stream);
  context_.registers.write(first, words[1]);
  return Step::kDone;
}

amdgpu_criu::Result<Step> Pm4::write_data(Words words, Stream& stream, Budget& budget) {
  const uint32_t select = bits(words[0], 11, 8);
  const bool same_address = bits(words[0], 16, 16);
  const Words data = words.subspan(3);
  budget.use_bytes(data.size_bytes());
  if (select == kRegister) {
    uint32_t dword = register_of(words[1]);
    for (const uint32_t value : data) write_register(stream, same_address ? dword : dword++, value);
    return Step::kDone;
  }
  if (!is_memory(select)) {
    return amdgpu_criu::Error::of(EINVAL, "WRITE_DATA to destination {} is not modelled", select);
  }
  const Words last = same_address ? data.last(1) : data;
  TRY(context_.memory.write(stream.space(), address_of(words, 1), std::as_bytes(last)));
  return Step::kDone;
}

amdgpu_criu::Result<uint64_t> Pm4::copy_source(Words words, Stream& stream, bool wide) {
  const uint32_t select = bits(words[0], 3, 0);
  if (select == kImmediate) return join(words[1], wide ? words[2] : 0);
  if (select == kGpuClock) return Context::clock();
  if (select == kRegister || select == kPerfcounter) {
    const uint32_t dword = register_of(words[1]);
    const uint32_t low = context_.registers.read(dword);
    return join(low, wide ? context_.registers.read(dword + 1) : 0);
  }
  if (!is_memory(select)) {
    return amdgpu_criu::Error::of(EINVAL, "COPY_DATA from source {} is not modelled", select);
  }
  if (!wide) return TRY(context_.memory.load<uint32_t>(stream.space(), address_of(words, 1)));
  return context_.memory.load<uint64_t>(stream.space(), address_of(words, 1));
}

amdgpu_criu::Result<Step> Pm4::copy_data(Words words, Stream& stream, Budget&) {
  const bool wide = bits(words[0], 16, 16);
  const uint32_t select = bits(words[0], 11, 8);
  const uint64_t value = TRY(copy_source(words, stream, wide));
  if (select == kRegister || select == kRegisterDc || select == kPerfcounter) {
    write_register(stream, register_of(words[3]), low32(value));
    if (wide) write_register(stream, register_of(words[3]) + 1, high32(value));
    return Step::kDone;
  }
  if (!is_memory(select)) {
    return amdgpu_criu::Error::of(EINVAL, "COPY_DATA to destination {} is not modelled", select);
  }
  const uint64_t address = address_of(words, 3);
  TRY(wide ? context_.memory.store<uint64_t>(stream.space(), address, value)
           : context_.memory.store<uint32_t>(stream.space(), address, low32(value)));
  return Step::kDone;
}

amdgpu_criu::Result<Step> Pm4::wait_reg_mem(Words words, Stream& stream, Budget&) {
  const uint32_t function = bits(words[0], 2, 0);
  const bool in_memory = bits(words[0], 5, 4) == 1;
  const bool writes_first = bits(words[0], 7, 6) == 1;
  uint32_t reference = words[3];
  const uint32_t mask = words[4];
  uint32_t value;
  if (writes_first) {
    // Writes the reference to one register, once, then waits for the masked bits of it in the
    // other: a TLB invalidation request, and its acknowledgement of the VMID.
    if (!stream.progress()) write_register(stream, register_of(words[1]), reference);
    stream.progress() = 1;
    reference &= mask;
    value = context_.registers.read(register_of(words[2]));
  } else if (in_memory) {
    value = TRY(context_.memory.load<uint32_t>(stream.space(), address_of(words, 1)));
  } else {
    value = context_.registers.read(register_of(words[1]));
  }
  return poll_matches(function, value & mask, reference) ? Step::kDone : Step::kWait;
}

amdgpu_criu::Result<Step> Pm4::wait_reg_mem64(Words words, Stream& stream, Budget&) {
  const uint64_t reference = join(words[3], words[4]);
  const uint64_t mask = join(words[5], words[6]);
  uint64_t value;
  if (bits(words[0], 5, 4) == 1) {
    value = TRY(context_.memory.load<uint64_t>(stream.space(), join(words[1] & ~7u, words[2])));
  } else {
    const uint32_t dword = register_of(words[1]);
    value = join(context_.registers.read(dword), context_.registers.read(dword + 1));
  }
  return poll_matches(bits(words[0], 2, 0), value & mask, reference) ? Step::kDone : Step::kWait;
}

amdgpu_criu::Result<Step> Pm4::cond_exec(Words words, Stream& stream, Budget&) {
  const auto value = TRY(context_.memory.load<uint32_t>(stream.space(), address_of(words, 0)));
  if (!value) stream.skip(bits(words[3], 13, 0));
  return Step::kDone;
}

amdgpu_criu::Result<Step> Pm4::cond_write(Words words, Stream& stream, Budget&) {
  const bool polls_memory = bits(words[0], 4, 4);
  const bool writes_memory = bits(words[0], 8, 8);
  const uint32_t value =
      polls_memory ? TRY(context_.memory.load<uint32_t>(stream.space(), address_of(words, 1)))
                   : context_.registers.read(register_of(words[1]));
  if (!poll_matches(bits(words[0], 2, 0), value & words[4], words[3])) return Step::kDone;
  if (writes_memory) {
    TRY(context_.memory.store<uint32_t>(stream.space(), address_of(words, 5), words[7]));
  } else {
    write_register(stream, register_of(words[5]), words[7]);
  }
  return Step::kDone;
}

amdgpu_criu::Result<Step> Pm4::atomic_mem(Words words, Stream& stream, Budget&) {
  const uint32_t operation = bits(words[0], 6, 0);
  const bool loops = bits(words[0], 11, 8) == 1 && atomic_is_compare_swap(operation);
  const AtomicOperands operands = {.source = join(words[3], words[4]),
                                   .compare = join(words[5], words[6])};
  const uint64_t old =
      TRY(atomic(context_.memory, stream.space(), join(words[1], words[2]), operation, operands));
  const uint64_t mask = atomic_is_64(operation) ? ~uint64_t{0} : 0xffffffff;
  return loops && (old & mask) != (operands.compare & mask) ? Step::kWait : Step::kDone;
}

// Most do nothing. In a user queue, one that begins with kOccupy stands for a dispatch that takes
// some milliseconds. As after a dispatch, the queue goes on to the next packet at once.
amdgpu_criu::Result<Step> Pm4::nop(Words words, Stream&, Budget&) {
  if (words.size() == 2 && words[0] == pm4::kOccupy && setup_.fence) {
    const auto now = std::chrono::steady_clock::now();
    occupied_until_ = std::max(now, occupied_until_) + std::chrono::milliseconds(words[1]);
  }
  return Step::kDone;
}

// Data first, then the interrupt: the data may be the mailbox that KFD reads on the interrupt.
amdgpu_criu::Result<Step> Pm4::release_mem(Words words, Stream& stream, Budget&) {
  if (occupied()) return Step::kWait;
  const uint32_t data_select = bits(words[1], 31, 29);
  const uint32_t interrupt_select = bits(words[1], 26, 24);
  const uint64_t address = address_of(words, 2);
  const uint64_t data = join(words[4], words[5]);
  amdgpu_criu::Status stored;
  switch (data_select) {
    case 0:
      break;
    case 1:
      stored = context_.memory.store<uint32_t>(stream.space(), address, low32(data));
      break;
    case 2:
      stored = context_.memory.store<uint64_t>(stream.space(), address, data);
      break;
    case 3:
    case 4:
      stored = context_.memory.store<uint64_t>(stream.space(), address, Context::clock());
      break;
    default:
      return amdgpu_criu::Error::of(EINVAL, "RELEASE_MEM of data {} is not modelled", data_select);
  }
  if (!stored.ok() && stored.error().code() != EFAULT) return std::move(stored).error();
  const bool only_data = interrupt_select == 0 || interrupt_select == 3;
  if (!only_data) interrupt(words.size() > 6 ? words[6] : 0, ih::kSourceEndOfPipe);
  return Step::kDone;
}

// The fence of a user queue: memory that only the driver's address space can write. Its value is
// the position behind the packet. The interrupt carries the doorbell, in doublewords.
amdgpu_criu::Result<Step> Pm4::signal_fence(Words words, Stream& stream, Budget&) {
  if (!setup_.fence) return amdgpu_criu::Error::of(EINVAL, "a fence of a queue that has none");
  if (occupied()) return Step::kWait;
  const uint64_t value = stream.rptr() + 1 + words.size();
  TRY(context_.memory.store<uint64_t>(kKernelSpace, setup_.fence, value));
  interrupt(setup_.doorbell / 4, ih::kSourceEndOfPipe);
  return Step::kDone;
}

amdgpu_criu::Result<Step> Pm4::dma_data(Words words, Stream& stream, Budget& budget) {
  enum { kFromL2 = 3, kFromData = 2, kToL2 = 3, kToNowhere = 2 };
  const uint32_t source_select = bits(words[0], 30, 29);
  const uint32_t target_select = bits(words[0], 21, 20);
  const uint32_t command = words[5];
  const uint64_t size = bits(command, 25, 0);
  const bool in_registers = bits(command, 26, 26) || bits(command, 27, 27);
  const bool fixed_address = bits(command, 28, 28) || bits(command, 29, 29);
  const bool from_memory = source_select == 0 || source_select == kFromL2;
  const bool to_memory = target_select == 0 || target_select == kToL2;
  // RADV prefetches shaders into the L2 cache.
  if (target_select == kToNowhere && from_memory) return Step::kDone;
  if (!to_memory || (!from_memory && source_select != kFromData) || in_registers || fixed_address) {
    return amdgpu_criu::Error::of(EINVAL, "DMA_DATA {:#x} with command {:#x} is not modelled",
                                  words[0], command);
  }
  const uint64_t target = join(words[3], words[4]);
  if (source_select == kFromData) {
    return fill(context_.memory, stream.space(), target, size, words[1], 4, stream.progress(),
                budget);
  }
  return copy(context_.memory, stream.space(), join(words[1], words[2]), target, size,
              stream.progress(), budget);
}

}  // namespace gpu
