# SPDX-License-Identifier: GPL-2.0
"""Which rung starts next."""

from __future__ import annotations

from collections.abc import Iterable

from .rungs import Rung

# A guest waits for its disk and for timers a third of the time: four rungs keep two processors busy.
PLACES = 4


class Schedule:
    """Starts rungs whose needs have passed, those first that the most work depends on."""

    def __init__(self, rungs: Iterable[Rung], places: int = PLACES) -> None:
        self._waiting = {rung.name: rung for rung in rungs}
        self._lengths = {name: self._length(name) for name in self._waiting}
        self._running: set[str] = set()
        self._places = places
        self._bad: set[str] = set()

    def _length(self, name: str) -> int:
        """The work of a rung and of the longest chain of rungs that need it."""
        after = (self._length(other.name) for other in self._waiting.values() if name in other.needs)
        return self._waiting[name].seconds + max(after, default=0)

    def take(self) -> Rung | None:
        """The next rung to start, or None while nothing can start."""
        if len(self._running) >= self._places:
            return None
        ready = [rung for rung in self._waiting.values()
                 if not any(self._is_open(need) or need in self._bad for need in rung.needs)]
        if not ready:
            return None
        rung = max(ready, key=lambda one: self._lengths[one.name])
        del self._waiting[rung.name]
        self._running.add(rung.name)
        return rung

    def _is_open(self, name: str) -> bool:
        return name in self._waiting or name in self._running

    def ended(self, name: str, passed: bool) -> list[tuple[Rung, str]]:
        """Notes the end of a rung. Returns the rungs that can never start now, and why."""
        self._running.remove(name)
        if not passed:
            self._bad.add(name)
        refused: list[tuple[Rung, str]] = []
        while lost := next((rung for rung in self._waiting.values()
                            if self._bad.intersection(rung.needs)), None):
            del self._waiting[lost.name]
            self._bad.add(lost.name)
            refused.append((lost, next(need for need in lost.needs if need in self._bad)))
        return refused

    def is_over(self) -> bool:
        return not self._waiting and not self._running
