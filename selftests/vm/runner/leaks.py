# SPDX-License-Identifier: GPL-2.0
"""Compares what is in use in the guest before and after a command."""

from __future__ import annotations

import time
from collections.abc import Callable

SETTLE_SECONDS = 8.0


def compare(before: dict[str, str], after: dict[str, str]) -> list[str]:
    lines = []
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name, "nothing"), after.get(name, "nothing")
        if was.isdigit() and now.isdigit():
            changed = int(now) > int(was)  # less than before is not a leak
        else:
            changed = was != now
        if changed:
            lines.append(f"{name}: {was.strip()} before, {now.strip()} after")
    return lines


def differences(measure: Callable[[], dict[str, str]], before: dict[str, str],
                settle: float = SETTLE_SECONDS,
                sleep: Callable[[float], None] = time.sleep) -> list[str]:
    """Differences that remain after the driver had time to free things (in work queues)."""
    left = settle
    while True:
        lines = compare(before, measure())
        if not lines or left <= 0:
            return lines
        sleep(0.5)
        left -= 0.5
