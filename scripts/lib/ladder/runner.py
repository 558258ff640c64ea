# SPDX-License-Identifier: GPL-2.0
"""Runs rungs, four at a time, and adds up their results."""

from __future__ import annotations

import contextlib
import fcntl
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import place, report, results
from .job import Job
from .rungs import ALL, Rung
from .schedule import Schedule


class Ended(Exception):
    """A signal requested the end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def _raise_ended(number: int, _frame: object) -> None:
    for other in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    raise Ended(number)


@contextlib.contextmanager
def locked(file: Path, message: str) -> Iterator[None]:
    """Held by one check at a time; children do not inherit it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(message, file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Runner:
    """Everything that belongs to one check."""

    def __init__(self, rungs: Sequence[Rung], top: Path = place.TOP,
                 known: Sequence[str] = tuple(ALL)) -> None:
        self._top = top
        self._results = top / "build" / "results"
        self._logs = top / "build" / "log"
        self._known = [*known, *(rung.name for rung in rungs)]
        self._rungs = rungs
        self._schedule = Schedule(rungs)
        self._finished: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._jobs: dict[str, Job] = {}
        self._spent: list[report.Spent] = []
        self._speaking = threading.Lock()

    def run(self) -> int:
        """The exit status: 0 when something passed and nothing failed."""
        start = time.monotonic()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _raise_ended)
        self._results.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        with locked(self._results / ".lock", "another check is running; waiting for it"):
            for old in self._results.glob("*.tap"):
                old.unlink()
            try:
                self._run_all()
            except Ended as end:
                self._stop(end)
                return 128 + end.number
            # Not what others write there meanwhile, such as `scripts/unit NAME`.
            total = results.read(file for rung in self._rungs for file in
                                 results.files_of(rung.name, self._known, self._results))
            for spent in self._spent:
                log = self._log(spent.name).read_text(errors="replace")
                total.add_printed_times(log.splitlines(), spent.name)
        print(report.report(self._spent, total, time.monotonic() - start), flush=True)
        return 0 if total.passed and not total.failures else 1

    def _run_all(self) -> None:
        while True:
            while rung := self._schedule.take():
                self._start(rung)
            if self._schedule.is_over():
                return
            self._end(self._next_finished())

    def _next_finished(self) -> Job:
        # Python notes a signal that arrives just before get() blocks, but calls the handler only when
        # get() returns.
        while True:
            with contextlib.suppress(queue.Empty):
                return self._finished.get(timeout=1)

    def _say(self, text: str) -> None:
        with self._speaking:
            print(text, flush=True)

    def _log(self, name: str) -> Path:
        return self._logs / f"check-{name}.log"

    def _start(self, rung: Rung) -> None:
        self._say(f"== {rung.name}")
        say = self._say if len(self._rungs) == 1 else (
            lambda line: self._say(f"{rung.name:<11} | {line}"))
        job = Job(rung, self._top, self._log(rung.name), say, self._finished.put)
        self._jobs[rung.name] = job
        job.start()

    def _end(self, job: Job) -> None:
        job.join()
        del self._jobs[job.rung.name]
        passed = self._note_results(job)
        self._spent.append(report.Spent(job.rung.name, job.wall, job.cpu, passed))
        self._say(f"== {job.rung.name}: {'passed' if passed else 'FAILED'}, "
                  f"{job.wall:.1f} s, CPU {job.cpu:.1f} s")
        for rung, reason in self._schedule.ended(job.rung.name, passed):
            results.append(self._results, rung.name, f"not ok {rung.name} # not run: {reason} failed")
            self._say(f"== {rung.name}: FAILED, not run: {reason} failed")

    def _note_results(self, job: Job) -> bool:
        """Completes the results of a rung: whatever happens in it, a failure is counted."""
        name = job.rung.name
        if job.rung.builds:
            word = "ok" if job.succeeded else "not ok"
            time_taken = f" # {job.wall:.1f} s" if job.succeeded else ""
            results.append(self._results, name, f"{word} {name} builds{time_taken}")
        own = results.read(results.files_of(name, self._known, self._results))
        if own.good() and job.succeeded:
            return True
        if not own.failures:
            reason = "ended early" if not job.succeeded else "has no results"
            results.append(self._results, name, f"not ok {name} # {reason}")
        return False

    def _stop(self, end: Ended) -> None:
        names = " and ".join(self._jobs) or "nothing"
        self._say(f"ended by {end}: stopping {names}")
        for job in self._jobs.values():
            job.signal(signal.SIGTERM)
        for job in self._jobs.values():
            job.stop()
