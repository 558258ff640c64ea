// SPDX-License-Identifier: GPL-2.0
// State of a process that a checkpoint does not carry; each is to be refused by its name, but for a
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
  // Makes the state; what it gives lets go of it again.
  base::Result<std::function<base::Status()>> (*make)(const RenderDevice& device,
                                                      const SharedBlocks& blocks);
};

std::span<const Uncarried> all_uncarried();

}  // namespace e2e
