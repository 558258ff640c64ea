# SPDX-License-Identifier: GPL-2.0
"""Runs scenarios one after the other, each in its own process with a time limit; prints KTAP."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from . import catalog, usage

SKIPPED = 4
# The time that a scenario has to clean up after its time limit.
CLEAN_UP_SECONDS = 20
# The time to wait for the end of its output, which a process that it left may hold open.
OUTPUT_SECONDS = 5


@dataclass(frozen=True)
class Outcome:
    status: int | None  # None: it exceeded its time limit
    reason: str = ""    # why it was skipped or has failed


@dataclass
class Runner:
    directory: Path                  # of the shell files
    scratch: Path
    environment: Mapping[str, str]
    say: Callable[[str], None]
    mark: Callable[[str], None]      # writes to the kernel's log
    clean_up_seconds: float = CLEAN_UP_SECONDS
    limit: Callable[[str, Mapping[str, str]], float] = field(default=catalog.limit)
    measure: Callable[[], usage.Usage] = field(default=usage.measure)
    _in_use: usage.Usage | None = field(default=None, init=False)

    def run_all(self, names: Sequence[str]) -> bool:
        """True if none failed."""
        self.say("KTAP version 1")
        self.say(f"1..{len(names)}")
        return all([self._run(number, name) for number, name in enumerate(names, 1)])

    def _run(self, number: int, name: str) -> bool:
        limit = self.limit(name, self.environment)
        self.mark(f"vm: test {name}")
        # Resources in use after one scenario are in use before the next one.
        before = self._in_use or self.measure()
        outcome = self._outcome(name, limit)
        self._in_use, left = usage.settled(
            name, before, self.measure, usage.SETTLE_SECONDS * catalog.patience(self.environment))
        self.mark(f"vm: tested {name}")
        good = outcome.status in (0, SKIPPED) and not left
        if good:
            skip = f" # SKIP {outcome.reason or 'no reason given'}" if outcome.status else ""
            self.say(f"ok {number} {name}{skip}")
            return True
        reasons = [f"in use: {difference}" for difference in left]
        if outcome.status is None:
            reasons.insert(0, f"time limit of {limit:.0f} s")
        elif outcome.status != SKIPPED and outcome.reason:
            reasons.insert(0, outcome.reason)
        reason = "; ".join(reasons) or f"it ended with status {outcome.status}"
        self.say(f"not ok {number} {name} # {reason}")
        return False

    def _outcome(self, name: str, limit: float) -> Outcome:
        reason = self.scratch / f"{name}.reason"
        reason.parent.mkdir(parents=True, exist_ok=True)
        reason.unlink(missing_ok=True)
        # In a process group of its own, so that programs that it waits for end with it.
        process = subprocess.Popen(
            [self.directory / "one", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            process_group=0, env={**self.environment, "REASON": str(reason)})
        assert process.stdout
        reader = threading.Thread(target=self._diagnose, args=(name, process.stdout), daemon=True)
        reader.start()
        in_time = self._wait(process, limit)
        reader.join(OUTPUT_SECONDS)
        if not reader.is_alive():
            process.stdout.close()
        if not in_time:
            return Outcome(None)
        text = reason.read_text() if reason.exists() else ""
        return Outcome(process.returncode, " ".join(text.split()))

    def _diagnose(self, name: str, output: BinaryIO) -> None:
        for line in output:
            text = line.decode(errors="replace").rstrip("\r\n")
            self.say(f"# {name}: {text}")

    def _wait(self, process: subprocess.Popen[bytes], limit: float) -> bool:
        """False if its time was over before it ended."""
        try:
            process.wait(limit)
            return True
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(self.clean_up_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return False
