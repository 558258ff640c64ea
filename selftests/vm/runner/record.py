# SPDX-License-Identifier: GPL-2.0
"""The output of one step of a suite: results as they arrive, and the step's verdict."""

from __future__ import annotations

import sys
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

from .ktap import FAIL, PASS, SKIP, Parser, TestResult
from .skips import SkipList

WORDS = {PASS: "pass", FAIL: "FAIL", SKIP: "skip"}
LINES_SHOWN = 25


def show(title: str, result: TestResult, seconds: float | None = None) -> None:
    name = f"{title}/{result.name}" if result.name else title
    took = "" if seconds is None else f"  ({seconds:.1f} s)"
    reason = f"  # {result.reason}" if result.reason else ""
    print(f"  {WORDS[result.outcome]}  {name}{took}{reason}", flush=True)


def show_at_length(title: str, result: TestResult, seconds: float | None = None) -> None:
    """Shows a result whose reason has several lines."""
    first, *rest = result.reason.splitlines() or [""]
    show(title, replace(result, reason=first), seconds)
    for line in rest:
        print(f"        {line}", flush=True)


class Record:
    """Takes the output of a step as `Guest.sink`."""

    def __init__(self, title: str, ktap: bool, log: Path, verbose: bool, skips: SkipList,
                 repeat: str = "") -> None:
        self.title = title
        self.skips = skips
        self._repeat = repeat  # the environment that repeats random choices; failures name it
        self.results: list[TestResult] = []
        self._parser = Parser() if ktap else None
        self._log = log.open("wb")
        self._verbose = verbose
        self._partial = b""
        self._recent: deque[str] = deque(maxlen=LINES_SHOWN)
        self._mark = self._start = time.monotonic()

    def __call__(self, data: bytes) -> None:
        self._log.write(data)
        self._log.flush()
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._line(line.decode(errors="replace").rstrip("\r"))

    def _line(self, line: str) -> None:
        if self._verbose:
            print(f"    {line}", flush=True)
        self._recent.append(line)
        result = self._parser.line(line) if self._parser else None
        if not result:
            return
        result = self._judge(result)
        now = time.monotonic()
        show(self.title, result, now - self._mark)
        if result.outcome == FAIL:
            self._show_recent()
        self._mark = now
        self._recent.clear()

    def _judge(self, result: TestResult) -> TestResult:
        return self._repeatable(self.skips.judge(result))

    def _repeatable(self, result: TestResult) -> TestResult:
        if result.outcome != FAIL or not self._repeat:
            return result
        first, *rest = result.reason.splitlines() or [""]
        return replace(result, reason="\n".join([f"{first} (with {self._repeat})".lstrip(), *rest]))

    def _show_recent(self) -> None:
        if not self._verbose:
            for line in self._recent:
                print(f"        {line}", flush=True)

    def note(self, lines: list[str]) -> None:
        """Adds lines of the runner to the output, as comments."""
        for line in lines:
            self._log.write(f"# {line}\n".encode())
            print(f"  {line}", flush=True)

    def finish(self, status: int | None, problems: list[str]) -> list[TestResult]:
        """Ends the step with this exit status (None: it did not end); returns all results."""
        if self._partial:
            self._line(self._partial.decode(errors="replace"))
        self._log.close()
        took = time.monotonic() - self._start
        if self._parser:
            self.results = [self._judge(result) for result in self._parser.finish()]
            problems = self._parser.problems + problems
            if status is not None:
                problems = self.skips.missing({result.name for result in self.results}) + problems
            if status and not any(result.outcome == FAIL for result in self.results):
                problems = [f"exit status {status} although no test failed"] + problems
        else:
            outcome = PASS if status == 0 else FAIL
            reason = "" if status == 0 else f"exit status {status}" if status else "did not end"
            self._add(TestResult("", outcome, reason), took)
        for problem in problems:
            self._add(TestResult("run", FAIL, problem))
        if problems or status:
            self._show_recent()
        sys.stdout.flush()
        return self.results

    def _add(self, result: TestResult, seconds: float | None = None) -> None:
        result = self._repeatable(result)
        self.results.append(result)
        show_at_length(self.title, result, seconds)
