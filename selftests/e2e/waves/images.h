// SPDX-License-Identifier: GPL-2.0
// The saved waves in the images of a dump: control stacks of GFX9 in the driver's blobs, save areas
// and control stacks of GFX11 in CRIU's pages.
#pragma once

#include <string>

#include "waves/stack.h"

namespace amdgpu_criu {

// What is removed from the images, with valid checksums: a process that is restored from such
// images must not produce the right result.
enum class Part : uint8_t { kNone, kStack, kMqd, kArea };

struct ImageOptions {
  Part withheld = Part::kNone;
  std::string changed;     // the register whose lowest bit changes, in the last wave of a group
  bool registers = false;  // prints those of each wave
  std::string core;        // the path of a Core to write
};

// Prints the waves; returns how many. EBADMSG: an image is damaged, or a control stack does not
// describe its save area.
Result<size_t> read_images(const std::string& directory, const ImageOptions& options);

}  // namespace amdgpu_criu
