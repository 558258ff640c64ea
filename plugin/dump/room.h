// SPDX-License-Identifier: GPL-2.0
// What a user needs to know when the disk of the images is full.
#pragma once

#include <string>

#include "base/result.h"

namespace amdgpu_criu::dump {

// If the error is that of a full disk, adds the free room and the remedy. bytes: of GPU memory to
// be saved; 0: none.
Error with_room(const Error& error, int directory, uint64_t bytes = 0);
Status with_room(Status status, int directory);

// Fails if the disk has no room for that much.
Status check_room(int directory, uint64_t bytes);

// For a dump that failed outside of the plugin: whether its disk is full, with the remedy. Empty:
// it has room.
std::string full_disk(int directory);

}  // namespace amdgpu_criu::dump
