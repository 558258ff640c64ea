// SPDX-License-Identifier: GPL-2.0
// The code object whose path is CODE_OBJECT, embedded. One source file of a program includes it.
#pragma once

#include <span>

asm(".section .rodata\n"
    ".balign 4096\n"
    "code_object_begin: .incbin \"" CODE_OBJECT
    "\"\n"
    "code_object_end:\n"
    ".previous\n");
extern const char code_object_begin[];
extern const char code_object_end[];

namespace e2e {

inline std::span<const char> code_object() { return {code_object_begin, code_object_end}; }

}  // namespace e2e
