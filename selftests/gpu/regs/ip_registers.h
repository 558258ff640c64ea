// SPDX-License-Identifier: GPL-2.0
// Registers of IP blocks, as the driver's headers declare them: an offset in a segment, whose base
// depends on the chip. The headers regs/IP_VERSION.h are made by register_header.py.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpu {

namespace reg {

struct Register {
  uint8_t segment;
  uint32_t offset;  // in doublewords
  auto operator<=>(const Register&) const = default;
};

struct NamedRegister {
  Register place;
  const char* name;
};

// Segments that all chips have at these bases: classes that do not depend on the chip use them.
constexpr uint32_t kGcSegment1 = 0xa000;
constexpr uint32_t kOsssysSegment0 = 0x10a0;
constexpr std::array<uint32_t, 3> kNbioSegments = {0, 0x14, 0xd20};

}  // namespace reg

// An IP block of a chip.
struct IpRegisters {
  std::string name;  // for messages
  std::span<const reg::NamedRegister> names;
  std::vector<uint32_t> bases;  // of the segments, in doublewords

  uint32_t at(reg::Register place) const { return bases.at(place.segment) + place.offset; }
};

// "IP REGISTER (0x12345)", or the offset alone if no block has such a register.
std::string register_name(std::span<const IpRegisters> ips, uint32_t dword);

}  // namespace gpu
