#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes C++ of the headers of register offsets of amdgpu.

    register_header.py DIRECTORY HEADER...

Each HEADER is asic_reg/*/IP_offset.h. DIRECTORY/regs/IP.h declares its registers, as members of the
IP version. DIRECTORY/registers.cc has their names for messages.
"""

import re
import sys
from pathlib import Path

# Older headers have the prefix mm.
_LINE = re.compile(r"#define\s+(?:reg|mm)(\w+?)(_BASE_IDX)?\s+(0x[0-9a-fA-F]+|\d+)\s*$")

_HEADER = """\
// Made from {file} of amdgpu.
#pragma once

#include "regs/ip_registers.h"

namespace gpu::reg {{

struct {ip} {{
  static std::span<const NamedRegister> names();
{registers}}};

}}  // namespace gpu::reg
"""

_SOURCE = """
namespace gpu::reg {{

std::span<const NamedRegister> {ip}::names() {{
  // Sorted.
  static const NamedRegister kNames[] = {{
{names}  }};
  return kNames;
}}

}}  // namespace gpu::reg
"""


def read(text: str) -> dict[str, tuple[int, int]]:
    """Segment and offset of each register."""
    offsets: dict[str, int] = {}
    segments: dict[str, int] = {}
    for line in text.splitlines():
        if found := _LINE.match(line):
            (segments if found[2] else offsets)[found[1]] = int(found[3], 0)
    return {name: (segments[name], offset) for name, offset in offsets.items() if name in segments}


def _shortest_first(register: tuple[tuple[int, int], str]) -> tuple[tuple[int, int], int, str]:
    """Of several names for one place, the first is used."""
    place, name = register
    return place, len(name), name


def ip_of(header: Path) -> str:
    return header.name.removesuffix("_offset.h")


def write_header(header: Path, directory: Path) -> str:
    """Returns the source of the names."""
    ip = ip_of(header)
    registers = read(header.read_text(errors="replace"))
    if not registers:
        sys.exit(f"register_header.py: {header} declares no register")
    constants = "".join(f"  static constexpr Register {name}{{{segment}, {offset:#x}}};\n"
                        for name, (segment, offset) in registers.items())
    (directory / f"{ip}.h").write_text(_HEADER.format(file=header.name, ip=ip, registers=constants))
    names = "".join(f'    {{{{{segment}, {offset:#x}}}, "{name}"}},\n' for (segment, offset), name in
                    sorted(((place, name) for name, place in registers.items()), key=_shortest_first))
    return _SOURCE.format(ip=ip, names=names)


def main(directory: Path, headers: list[Path]) -> None:
    (directory / "regs").mkdir(parents=True, exist_ok=True)
    sources = [write_header(header, directory / "regs") for header in headers]
    includes = "".join(f'#include "regs/{ip_of(header)}.h"\n' for header in headers)
    (directory / "registers.cc").write_text(includes + "".join(sources))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
