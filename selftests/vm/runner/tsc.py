# SPDX-License-Identifier: GPL-2.0
"""The rate of the time stamp counter. QEMU without KVM passes the counter of the machine on.

A guest that measures the rate itself on a busy machine can get a tenth of it. Its clocks are then ten
times too fast, and every time limit in it is ten times too short.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import time

# rdtsc; shl rdx, 32; or rax, rdx; ret
_READ = bytes.fromhex("0f31 48c1e220 4809d0 c3")
_SECONDS = 0.05
_TRIES = 5


@functools.cache
def rate_khz() -> int | None:
    """None on a machine that has no such counter."""
    if platform.machine() != "x86_64":
        return None
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as code:
        code.write(_READ)
        address = ctypes.c_char.from_buffer(code)
        read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(address))
        first = _sample(read)
        time.sleep(_SECONDS)
        last = _sample(read)
        del address
    return round((last[1] - first[1]) * 1_000_000 / (last[0] - first[0]))


def _sample(read) -> tuple[int, int]:
    """A time in ns and the counter, read with the least interruption in between."""
    samples = []
    for _ in range(_TRIES):
        before = time.monotonic_ns()
        counter = read()
        after = time.monotonic_ns()
        samples.append((after - before, (before + after) // 2, counter))
    _, now, counter = min(samples)
    return now, counter
