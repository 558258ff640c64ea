// SPDX-License-Identifier: GPL-2.0
// A wave in flight, with the state that its dispatch needs.
#pragma once

#include <memory>
#include <optional>

#include "shader/dispatch.h"
#include "shader/units.h"

namespace gpu::shader {

struct Dispatch::Resident {
  std::unique_ptr<Wave> wave;
  std::optional<WaveId> id;
  std::shared_ptr<WorkGroup> group;
  unsigned slot = 0;
  bool at_barrier = false;
  unsigned short_turns = 0;  // that are left after a barrier
  bool at_gws = false;
  bool awaits_page = false;    // until the next run
  bool awaits_record = false;  // gfx11: the message that asks for it has an answer
};

}  // namespace gpu::shader
