// SPDX-License-Identifier: GPL-2.0
// The kinds of IoQueue, each made by itself: for make_io_queue() and tests.
#pragma once

#include "pipeline/io_queue.h"

namespace amdgpu_criu::pipeline {

// An error where the kernel, or who set it up, does not allow it.
Result<std::unique_ptr<IoQueue>> make_uring_queue(unsigned depth);
Result<std::unique_ptr<IoQueue>> make_thread_queue(unsigned depth);
std::unique_ptr<IoQueue> make_inline_queue();

}  // namespace amdgpu_criu::pipeline
