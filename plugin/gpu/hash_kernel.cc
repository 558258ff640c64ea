// SPDX-License-Identifier: GPL-2.0
// Registers and packets: gc_*_offset.h, soc15d.h and nvd.h of the amdgpu driver. Kernel descriptors
// and code objects: LLVM's user guide for the AMDGPU backend.
#include "gpu/hash_kernel.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#ifdef HASH_KERNELS
#define EMBEDDED(isa)                                                                        \
  asm(".section .rodata\n.balign 8\namdgpu_criu_hash_" #isa                                  \
      ":\n"                                                                                  \
      ".incbin \"" HASH_KERNELS "/" #isa ".co\"\namdgpu_criu_hash_" #isa                     \
      "_end:\n"                                                                              \
      ".previous\n");                                                                        \
  extern "C" __attribute__((visibility("hidden"))) const std::byte amdgpu_criu_hash_##isa[], \
      amdgpu_criu_hash_##isa##_end[];
EMBEDDED(gfx90a)
EMBEDDED(gfx942)
EMBEDDED(gfx1100)
EMBEDDED(gfx1101)
EMBEDDED(gfx1102)
EMBEDDED(gfx1103)
#endif

namespace amdgpu_criu::gpu {
namespace {

// As dwords from PACKET3_SET_SH_REG_START.
namespace reg {
constexpr uint32_t kStartX = 0x204;      // Y and Z follow
constexpr uint32_t kNumThreadX = 0x207;  // Y and Z follow
constexpr uint32_t kPgmLo = 0x20c;       // PGM_HI follows
constexpr uint32_t kRsrc1 = 0x212;       // RSRC2 follows
constexpr uint32_t kResourceLimits = 0x215;
constexpr uint32_t kUnitsSe0 = 0x216;  // SE1 follows
constexpr uint32_t kTmpringSize = 0x218;
constexpr uint32_t kUnitsSe2 = 0x219;  // SE3 follows
constexpr uint32_t kRsrc3OfGfx11 = 0x228;
constexpr uint32_t kRsrc3OfGfx9 = 0x22d;
constexpr uint32_t kUserData0 = 0x240;
}  // namespace reg

constexpr uint32_t kSetShReg = 0x76;
constexpr uint32_t kDispatchDirect = 0x15;
// COMPUTE_DISPATCH_INITIATOR: COMPUTE_SHADER_EN, FORCE_START_AT_000, and CS_W32_EN.
constexpr uint32_t kInitiator = 1 | 1 << 2;
constexpr uint32_t kWave32 = 1 << 15;
constexpr uint32_t kGroup = 256;  // of kernels/blake3.cl
// LDS_SIZE of COMPUTE_PGM_RSRC2, in units of 512 bytes: the code object leaves it to who
// dispatches.
constexpr uint32_t kLdsShift = 15;
constexpr uint32_t kLdsUnit = 512;

void packet(std::vector<uint32_t>& pm4, uint32_t opcode, std::initializer_list<uint32_t> body) {
  constexpr uint32_t kType3 = 3u << 30, kForCompute = 1 << 1;
  pm4.push_back(kType3 | static_cast<uint32_t>(body.size() - 1) << 16 | opcode << 8 | kForCompute);
  pm4.insert(pm4.end(), body);
}

struct Descriptor {
  uint32_t group_segment_bytes, private_segment_bytes, kernarg_bytes, reserved0;
  int64_t entry;  // from the descriptor
  uint8_t reserved1[20];
  uint32_t rsrc3, rsrc1, rsrc2;
  uint16_t properties, preload;
  uint32_t reserved2;
};
static_assert(sizeof(Descriptor) == 64);

enum Property : uint16_t {
  kPrivateSegmentBuffer = 1 << 0,  // four user SGPRs
  kDispatchPtr = 1 << 1,           // two, as have the next ones
  kQueuePtr = 1 << 2,
  kKernargSegmentPtr = 1 << 3,
  kWavefrontSize32 = 1 << 10,
};

struct Chip {
  uint32_t ip_version;
  std::span<const std::byte> object;
};

constexpr uint32_t ip(uint32_t major, uint32_t minor, uint32_t revision) {
  return major << 16 | minor << 8 | revision;
}

std::vector<Chip> chips() {
#ifdef HASH_KERNELS
#define OBJECT(isa) std::span(amdgpu_criu_hash_##isa, amdgpu_criu_hash_##isa##_end)
  return {{ip(9, 4, 2), OBJECT(gfx90a)},   {ip(9, 4, 3), OBJECT(gfx942)},
          {ip(9, 4, 4), OBJECT(gfx942)},   {ip(11, 0, 0), OBJECT(gfx1100)},
          {ip(11, 0, 1), OBJECT(gfx1103)}, {ip(11, 0, 2), OBJECT(gfx1102)},
          {ip(11, 0, 3), OBJECT(gfx1101)}, {ip(11, 0, 4), OBJECT(gfx1103)}};
#else
  return {};
#endif
}

}  // namespace

// The objects are parts of the program, so they are not checked.
struct HashKernelLoader {
  std::span<const std::byte> object;
  HashKernel kernel{};

  template <typename T>
  T at(std::span<const std::byte> bytes, uint64_t offset) const {
    T value;
    memcpy(&value, bytes.data() + offset, sizeof(value));
    return value;
  }

  void load_segments(const Elf64_Ehdr& header) {
    for (unsigned i = 0; i < header.e_phnum; i++) {
      const auto segment = at<Elf64_Phdr>(object, header.e_phoff + i * sizeof(Elf64_Phdr));
      if (segment.p_type != PT_LOAD) continue;
      const auto bytes = object.subspan(segment.p_offset, segment.p_filesz);
      kernel.image_.resize(
          std::max<size_t>(kernel.image_.size(), segment.p_vaddr + segment.p_memsz));
      std::ranges::copy(bytes, kernel.image_.begin() + static_cast<ptrdiff_t>(segment.p_vaddr));
    }
  }

  // Returns the address of a symbol in the image.
  uint64_t find(const Elf64_Ehdr& header, std::string_view name) const {
    for (unsigned i = 0; i < header.e_shnum; i++) {
      const auto table = at<Elf64_Shdr>(object, header.e_shoff + i * sizeof(Elf64_Shdr));
      if (table.sh_type != SHT_DYNSYM) continue;
      const auto names =
          at<Elf64_Shdr>(object, header.e_shoff + table.sh_link * sizeof(Elf64_Shdr));
      const char* const text = reinterpret_cast<const char*>(object.data()) + names.sh_offset;
      for (uint64_t at_ = 0; at_ < table.sh_size; at_ += sizeof(Elf64_Sym)) {
        const auto symbol = at<Elf64_Sym>(object, table.sh_offset + at_);
        if (text + symbol.st_name == name) return symbol.st_value;
      }
    }
    return 0;
  }

  HashKernel load(uint32_t ip_version) {
    const auto header = at<Elf64_Ehdr>(object, 0);
    load_segments(header);
    const uint64_t place = find(header, "hash_chunks.kd");
    const auto descriptor = at<Descriptor>(kernel.image_, place);
    kernel.entry_ = place + static_cast<uint64_t>(descriptor.entry);
    kernel.rsrc1_ = descriptor.rsrc1;
    kernel.rsrc2_ = descriptor.rsrc2 | (descriptor.group_segment_bytes + kLdsUnit - 1) / kLdsUnit
                                           << kLdsShift;
    kernel.rsrc3_ = descriptor.rsrc3;
    kernel.rsrc3_register_ = ip_version >= ip(10, 0, 0) ? reg::kRsrc3OfGfx11 : reg::kRsrc3OfGfx9;
    kernel.arguments_at_ = (descriptor.properties & kPrivateSegmentBuffer ? 4 : 0) +
                           (descriptor.properties & kDispatchPtr ? 2 : 0) +
                           (descriptor.properties & kQueuePtr ? 2 : 0);
    kernel.wave32_ = descriptor.properties & kWavefrontSize32;
    return std::move(kernel);
  }
};

Result<HashKernel> HashKernel::find(uint32_t ip_version) {
  for (const Chip& chip : chips())
    if (chip.ip_version == ip_version) return HashKernelLoader{chip.object}.load(ip_version);
  return Error::of(ENOTSUP, "there is no compute kernel for GC {}.{}.{}", ip_version >> 16,
                   ip_version >> 8 & 0xff, ip_version & 0xff);
}

void HashKernel::setup(uint64_t image_address, std::vector<uint32_t>& pm4) const {
  const uint64_t code = (image_address + entry_) >> 8;
  constexpr uint32_t kAll = ~0u;
  packet(pm4, kSetShReg, {reg::kStartX, 0, 0, 0});
  packet(pm4, kSetShReg, {reg::kNumThreadX, kGroup, 1, 1});
  packet(pm4, kSetShReg,
         {reg::kPgmLo, static_cast<uint32_t>(code), static_cast<uint32_t>(code >> 32)});
  packet(pm4, kSetShReg, {reg::kRsrc1, rsrc1_, rsrc2_});
  packet(pm4, kSetShReg, {rsrc3_register_, rsrc3_});
  packet(pm4, kSetShReg, {reg::kResourceLimits, 0});
  packet(pm4, kSetShReg, {reg::kUnitsSe0, kAll, kAll});
  packet(pm4, kSetShReg, {reg::kTmpringSize, 0});
  packet(pm4, kSetShReg, {reg::kUnitsSe2, kAll, kAll});
}

void HashKernel::dispatch(uint32_t groups, uint64_t arguments, std::vector<uint32_t>& pm4) const {
  packet(pm4, kSetShReg,
         {reg::kUserData0 + arguments_at_, static_cast<uint32_t>(arguments),
          static_cast<uint32_t>(arguments >> 32)});
  packet(pm4, kDispatchDirect, {groups, 1, 1, kInitiator | (wave32_ ? kWave32 : 0)});
}

}  // namespace amdgpu_criu::gpu
