// SPDX-License-Identifier: GPL-2.0
// Register names, for messages only.
#pragma once

#include <cstdint>
#include <string>

namespace gpu {

// For a chip with GC 9.4.2: "NAME (0x12345)", or the offset alone if the name is unknown.
std::string register_name(uint32_t dword);
// The offset alone.
std::string register_number(uint32_t dword);

}  // namespace gpu
