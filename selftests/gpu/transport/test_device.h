// SPDX-License-Identifier: GPL-2.0
// A real device without engines, for tests of the transport.
#pragma once

#include "device.h"
#include "test_support/guest_ram.h"

namespace gpu::test {

inline std::unique_ptr<Device> make_device() {
  return expect(Device::create({.vram_size = 256 << 20},
                               [](const Asic&, Memory&, Registers&, InterruptSink&)
                                   -> amdgpu_criu::Result<std::vector<std::unique_ptr<Engine>>> {
                                 return std::vector<std::unique_ptr<Engine>>();
                               }));
}

}  // namespace gpu::test
