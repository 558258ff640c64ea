# SPDX-License-Identifier: GPL-2.0
"""Time limits."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]


class Deadline:
    """A point in time; `None` seconds means never."""

    def __init__(self, seconds: float | None, clock: Clock = time.monotonic) -> None:
        if seconds is not None and seconds < 0:
            raise ValueError(f"a time limit cannot be negative: {seconds}")
        self._clock = clock
        self.seconds = seconds
        self._end = None if seconds is None else clock() + seconds

    def left(self) -> float | None:
        """Seconds left, never negative; None without a limit, as select() expects."""
        return None if self._end is None else max(0.0, self._end - self._clock())

    def passed(self) -> bool:
        return self._end is not None and self._clock() >= self._end

    def earlier(self, other: Deadline) -> Deadline:
        if self._end is None:
            return other
        if other._end is None or self._end <= other._end:
            return self
        return other
