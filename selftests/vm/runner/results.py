# SPDX-License-Identifier: GPL-2.0
"""build/results/SUITE.tap: one line a test, as `make check` collects them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from . import lab
from .ktap import FAIL, TestResult


def append_results(suite: str, results: Iterable[TestResult], problems: Iterable[str],
                   root: Path | None = None) -> Path:
    """Adds the results; each problem of the run as a whole is one more failed test."""
    directory = root or lab.results_root()
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{suite}.tap"
    lines = [result.line(suite) for result in results]
    lines += [TestResult("run", FAIL, problem.splitlines()[0]).line(suite) for problem in problems]
    with file.open("a") as out:
        out.write("".join(line + "\n" for line in lines))
    return file
