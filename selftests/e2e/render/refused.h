// SPDX-License-Identifier: GPL-2.0
// State of a process that cannot be carried. A dump refuses each by its name, except for a dma-buf
// descriptor in a socket.
#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"
#include "render/stepper.h"

namespace e2e {

struct Uncarried {
  std::string_view name;
  const char* what;
  // Creates the state; the returned function releases it.
  amdgpu_criu::Result<std::function<amdgpu_criu::Status()>> (*make)(const RenderDevice& device,
                                                                    const SharedBlocks& blocks);
};

std::span<const Uncarried> all_uncarried();

}  // namespace e2e
