// SPDX-License-Identifier: GPL-2.0
// The code object CODE_OBJECT of each instruction set in the folder KERNELS, embedded. One source
// file of a program includes it.
#pragma once

#include "rocr/hsa.h"

#define OBJECT_OF(isa) KERNELS "/" #isa "/" CODE_OBJECT
#define EMBEDDED(isa) \
  ".balign 4096\n" #isa "_begin: .incbin \"" OBJECT_OF(isa) "\"\n" #isa "_end:\n"

asm(".section .rodata\n" EMBEDDED(gfx90a) EMBEDDED(gfx942) EMBEDDED(gfx1100) ".previous\n");
extern const char gfx90a_begin[], gfx90a_end[], gfx942_begin[], gfx942_end[], gfx1100_begin[],
    gfx1100_end[];

namespace e2e {

inline CodeObjects code_objects() {
  return {{"gfx90a", {gfx90a_begin, gfx90a_end}},
          {"gfx942", {gfx942_begin, gfx942_end}},
          {"gfx1100", {gfx1100_begin, gfx1100_end}}};
}

}  // namespace e2e
