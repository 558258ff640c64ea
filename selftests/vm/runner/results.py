# SPDX-License-Identifier: GPL-2.0
"""build/results/*.tap: one line a test, as `make check` adds them up."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from . import lab
from .ktap import TestResult


def append_results(file_name: str, suite: str, results: Iterable[TestResult],
                   root: Path | None = None) -> None:
    directory = root or lab.results_root()
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f"{file_name}.tap").open("a") as out:
        out.write("".join(result.line(suite) + "\n" for result in results))
