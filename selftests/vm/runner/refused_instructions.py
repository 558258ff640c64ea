# SPDX-License-Identifier: GPL-2.0
"""Ranks the instructions that the GPU models refuse by the number of tests that each of them blocks."""

from __future__ import annotations

import re

# If the queue has no trap handler, the text begins with the name of the queue.
_REFUSAL = re.compile(r"model fault: .*\ba wave stops at 0x[0-9a-f]+: (?P<what>.+)")


class RefusedInstructions:
    def __init__(self) -> None:
        # By command and instruction: the names of the tests, in order.
        self._tests: dict[tuple[int | None, str], list[str]] = {}

    def repeats(self, text: str, command: int | None, test: str) -> bool:
        """Notes a complaint. True if it is a refusal that the command had before."""
        refusal = _REFUSAL.search(text)
        if not refusal:
            return False
        key = command, refusal["what"]
        known = key in self._tests
        tests = self._tests.setdefault(key, [])
        if test and test not in tests:
            tests.append(test)
        return known

    def table(self, command: int) -> list[str]:
        """The instructions that a command was refused, the one that blocks most tests first."""
        rows = [(tests, what) for (one, what), tests in self._tests.items() if one == command]
        rows.sort(key=lambda row: -len(row[0]))
        lines = [f"{len(tests):6}  {what}" + (f", first in {tests[0]}" if tests else "") for tests, what in rows]
        return ["instructions that the GPU models refused, and how many tests each blocks:", *lines] if lines else []
