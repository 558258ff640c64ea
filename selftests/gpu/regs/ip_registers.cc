// SPDX-License-Identifier: GPL-2.0
#include "regs/ip_registers.h"

#include <algorithm>

#include "base/result.h"

namespace gpu {
namespace {

const char* find(const IpRegisters& ip, uint32_t dword) {
  for (uint8_t segment = 0; segment < ip.bases.size(); ++segment) {
    const reg::Register place = {segment, dword - ip.bases[segment]};
    const auto it = std::ranges::lower_bound(ip.names, place, {}, &reg::NamedRegister::place);
    if (it != ip.names.end() && it->place == place) return it->name;
  }
  return nullptr;
}

}  // namespace

std::string register_name(std::span<const IpRegisters> ips, uint32_t dword) {
  for (const IpRegisters& ip : ips)
    if (const char* name = find(ip, dword))
      return amdgpu_criu::formatted("{} {} ({:#07x})", ip.name, name, dword);
  return amdgpu_criu::formatted("{:#07x}", dword);
}

}  // namespace gpu
