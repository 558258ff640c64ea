// SPDX-License-Identifier: GPL-2.0
// The code object CODE_OBJECT of each instruction set in the folder KERNELS, embedded. One source
// file of a program includes it.
#pragma once

#include "rocr/hsa.h"

asm(".section .rodata\n"
    ".balign 4096\n"
    "gfx90a_begin: .incbin \"" KERNELS "/gfx90a/" CODE_OBJECT
    "\"\n"
    "gfx90a_end:\n"
    ".balign 4096\n"
    "gfx942_begin: .incbin \"" KERNELS "/gfx942/" CODE_OBJECT
    "\"\n"
    "gfx942_end:\n"
    ".previous\n");
extern const char gfx90a_begin[], gfx90a_end[], gfx942_begin[], gfx942_end[];

namespace e2e {

inline CodeObjects code_objects() {
  return {{"gfx90a", {gfx90a_begin, gfx90a_end}}, {"gfx942", {gfx942_begin, gfx942_end}}};
}

}  // namespace e2e
