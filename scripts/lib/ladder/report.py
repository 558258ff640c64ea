# SPDX-License-Identifier: GPL-2.0
"""The end of a check: where the time went, what was skipped, what failed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from .results import Results

SLOWEST = 10


@dataclass(frozen=True)
class Spent:
    """What a rung took."""

    name: str
    wall: float
    cpu: float
    passed: bool


def time_table(rungs: Iterable[Spent], wall: float) -> list[str]:
    rungs = list(rungs)
    cpu = sum(rung.cpu for rung in rungs)
    lines = [f"{'rung':<22}{'wall':>9}{'CPU':>9}"]
    for rung in sorted(rungs, key=lambda one: -one.cpu):
        failed = "" if rung.passed else "  FAILED"
        lines.append(f"{rung.name:<22}{rung.wall:>7.0f} s{rung.cpu:>7.0f} s{failed}")
    lines.append(f"{'all':<22}{wall:>7.0f} s{cpu:>7.0f} s  on {os.cpu_count()} processors")
    return lines


def slowest_tests(results: Results, count: int = SLOWEST) -> list[str]:
    return [f"{seconds:>7.1f} s  {name}"
            for seconds, name in sorted(results.times, reverse=True)[:count]]


def report(rungs: Iterable[Spent], results: Results, wall: float) -> str:
    slow = slowest_tests(results)
    lines = ["", *time_table(rungs, wall), ""]
    if slow:
        lines += ["slowest tests:", *slow, ""]
    lines += [f"skipped  {skip}" for skip in results.skips]
    lines += [f"FAILED   {failure}" for failure in results.failures]
    return "\n".join([*lines, results.closing_line()])
