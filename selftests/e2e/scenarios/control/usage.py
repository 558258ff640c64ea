# SPDX-License-Identifier: GPL-2.0
"""The use of the GPUs, which must be the same after a scenario as before it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .catalog import GROUPS

# The driver frees some things in work queues.
SETTLE_SECONDS = 8.0
# Scenarios after which one value may differ, with the reason.
EXPLAINED = {
    "reloaded_driver": ("memory", "another instance of the driver has its own buffers"),
    "packages_stock": ("memory", "likewise"),
    **{name: ("memory", "that of the stock driver, which the last one of the group unloads")
       for name in GROUPS["stock"]},
}
# Scenarios after which the driver may have fewer buffers of its own than before, with the reason.
FREED = {"packages_full": "hundreds of tests, some of which fill the memory of the GPU"}

Usage = dict[str, str]


def holders() -> Iterator[str]:
    """Processes that have a GPU device open."""
    # pathlib would take four times as long, for hundreds of processes after every scenario.
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            files = f"/proc/{pid}/fd"
            links = {os.readlink(f"{files}/{fd}") for fd in os.listdir(files)}
            if any(link == "/dev/kfd" or link.startswith("/dev/dri/") for link in links):
                yield f"{pid} {Path(f'/proc/{pid}/comm').read_text().strip()}"
        except OSError:
            continue  # the process has just ended


def measure() -> Usage:
    if os.environ.get("SHARED_GPU"):  # others use the GPUs meanwhile
        return {}
    usage = {"device files": ", ".join(sorted(holders())),
             "KFD processes": str(len(list(Path("/sys/class/kfd/kfd/proc").glob("*"))))}
    for device in sorted(Path("/sys/bus/pci/drivers/amdgpu").glob("0*")):
        # The sum of both, because under pressure the driver's own buffers move from VRAM to GTT and
        # stay there.
        used = sum(int((device / f"mem_info_{heap}_used").read_text()) for heap in ("vram", "gtt"))
        usage[f"{device.name} memory"] = str(used)
        info = Path(f"/sys/kernel/debug/dri/{device.name}/amdgpu_gem_info")
        lines = info.read_text().splitlines() if info.exists() else []
        usage[f"{device.name} BOs of clients"] = str(
            sum(line.lstrip().startswith("0x") for line in lines))
    return usage


def differences(name: str, before: Usage, after: Usage) -> list[str]:
    explained, _ = EXPLAINED.get(name, ("nothing", ""))

    def is_fault(what: str) -> bool:
        if before.get(what) == after.get(what) or what.endswith(f" {explained}"):
            return False
        freed = name in FREED and what.endswith(" memory")
        return not freed or int(after.get(what, 0)) > int(before.get(what, 0))

    return [f"{what}: {before.get(what, 'none') or 'none'} before, "
            f"{after.get(what, 'none') or 'none'} after"
            for what in sorted(before.keys() | after.keys()) if is_fault(what)]


def settled(name: str, before: Usage, measure_now: Callable[[], Usage] = measure,
            settle: float = SETTLE_SECONDS,
            sleep: Callable[[float], None] = time.sleep) -> tuple[Usage, list[str]]:
    """The use after the driver had time to free things, and the differences."""
    left = settle
    while (found := differences(name, before, now := measure_now())) and left > 0:
        sleep(0.25)
        left -= 0.25
    return now, found
