# SPDX-License-Identifier: GPL-2.0
"""Runs the steps of a plan, each with a time limit, and reads their results and the kernel's log."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runner.kernel_log import Watcher
from runner.ktap import FAIL, PASS, SKIP, Parser, TestResult

from .plan import KSELFTEST, Step

# Longer than a scenario has to clean up after its own limit.
CLEAN_UP_SECONDS = 40
# For processes that are about to end.
LEFT_SECONDS = 3
# More of a log is not kept.
LOG_BYTES = 8 << 20
# run_kselftest.sh prints the output of a program behind this.
_PREFIX = "# "
_HEADER = "# selftests: "
# "*ERROR*" of other graphics drivers.
_OTHER_DRIVER = re.compile(r"\[drm:\w+ \[(?!amdgpu|drm)\w+\]\] \*ERROR\*|^(?!amdgpu)\w+ [\da-f:.]+: .*\*ERROR\*")


@dataclass
class StepResult:
    step: Step
    seconds: float
    tests: list[TestResult]
    log: str                    # the name of its file in the report
    complaints: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        outcomes = {test.outcome for test in self.tests}
        if FAIL in outcomes or not outcomes:
            return FAIL
        return PASS if PASS in outcomes else SKIP


def unprefixed(lines: Iterable[str]) -> Iterator[str]:
    """KTAP of run_kselftest.sh with the output of programs as nested tests, named by the program."""
    inside = False
    for line in lines:
        if line.startswith(_HEADER):
            inside = True
        elif inside and line.startswith(_PREFIX):
            yield f"  {line[len(_PREFIX):]}"
            continue
        elif re.match(r"(not )?ok ", line):
            inside = False
            line = re.sub(r"selftests: \S+: ", "", line)
        yield line


def message_of(record: bytes) -> str:
    """The first line of a record of /dev/kmsg, which has a backslash and what cannot be printed as \\xNN."""
    text = re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), record.partition(b";")[2])
    return text.decode(errors="replace").partition("\n")[0]


class KernelLog:
    """The kernel's messages since it was made. Without permission there are none."""

    def __init__(self, path: str = "/dev/kmsg") -> None:
        self.messages: list[str] = []
        self._path = path
        self._watcher = Watcher()
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            self._fd = -1

    @property
    def readable(self) -> bool:
        return self._fd >= 0

    def mark(self, text: str) -> None:
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            os.write(fd, f"vm: {text}\n".encode())
        finally:
            os.close(fd)

    def complaints(self) -> list[str]:
        """What the kernel has complained about since the last call, and no test has announced."""
        for message in self._read():
            self.messages.append(message)
            self._watcher.line(message)
        found = [f"{one.text} (during {one.test})" if one.test else one.text
                 for one in self._watcher.complaints if not _OTHER_DRIVER.search(one.text)]
        self._watcher.complaints.clear()
        return found

    def _read(self) -> Iterator[str]:
        while self._fd >= 0:
            try:
                yield message_of(os.read(self._fd, 8192))
            except BlockingIOError:
                return
            except BrokenPipeError:
                yield "amdgpu-criu-selftest: messages of the kernel were lost"


def session_of(stat: str) -> int:
    """The session in /proc/PID/stat."""
    return int(stat.rpartition(")")[2].split()[3])


def members(session: int) -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if session_of(Path("/proc", pid, "stat").read_text()) == session:
                found.append(int(pid))
        except (OSError, ValueError, IndexError):
            continue  # the process has just ended
    return found


def end_session(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Ends a process and what it started; scenarios clean up at SIGTERM."""
    for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, 5)):
        for pid in members(process.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + patience
        while process.poll() is None or members(process.pid):
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        else:
            return


def running_below(root: Path) -> dict[int, str]:
    """Processes whose program is in the directory, and their names. Restored ones have other sessions."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            program = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            continue  # it has ended, or is the kernel's
        if program.startswith(f"{root}/"):
            found[int(pid)] = Path(program).name
    return found


def end_left_processes(root: Path) -> list[str]:
    """Ends what a step has left, which would take the queues and the memory of the next. Returns names."""
    left: dict[int, str] = {}
    deadline = time.monotonic() + LEFT_SECONDS
    while running := running_below(root):
        if time.monotonic() > deadline + LEFT_SECONDS:
            break
        if time.monotonic() > deadline:
            left |= running
            for pid in running:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        time.sleep(0.1)
    return [f"{pid} {name}" for pid, name in left.items()]


@dataclass
class Executor:
    root: Path                  # of the installed tests
    scratch: Path
    logs: Path
    kernel: KernelLog
    environment: dict[str, str]
    measure: Callable[[], float] = time.monotonic

    def command(self, step: Step) -> list[str]:
        if step.kind == KSELFTEST:
            program = f"amdgpu_criu:{step.test}"
            if step.test in self._unlisted(step):
                return ["sh", "-c", f"cd '{self.root}/kselftest/amdgpu_criu' && exec ./{step.test}"]
            return [str(self.root / "kselftest/run_kselftest.sh"), "-t", program, "-o", str(step.limit)]
        return [str(self.root / "e2e/run"), step.test]

    def _unlisted(self, step: Step) -> set[str]:
        listed = (self.root / "kselftest/kselftest-list.txt").read_text().split()
        return set() if f"amdgpu_criu:{step.test}" in listed else {step.test}

    def run(self, step: Step, number: int) -> StepResult:
        log = self.logs / f"{number:03}-{step.test}.log"
        self.kernel.complaints()
        if step.kind == KSELFTEST:
            self.kernel.mark(f"test {step.test}")
        start = self.measure()
        in_time, status = self._run(step, log)
        seconds = self.measure() - start
        if step.kind == KSELFTEST:
            self.kernel.mark(f"tested {step.test}")
        tests = results_of(log.read_text(errors="replace"))
        if not in_time:
            tests.append(TestResult(step.test, FAIL, f"time limit of {step.limit} s"))
        elif not tests:
            tests.append(TestResult(step.test, FAIL, f"it ended with status {status} and no result"))
        elif status not in (0, 4) and all(test.outcome != FAIL for test in tests):
            tests.append(TestResult(step.test, FAIL, f"it ended with status {status}"))
        if left := end_left_processes(self.root.resolve()):
            tests.append(TestResult("processes", FAIL, f"left, and ended now: {', '.join(left)}"))
        complaints = self.kernel.complaints()
        if complaints:
            tests.append(TestResult("kernel log", FAIL, complaints[0]))
        return StepResult(step, seconds, tests, f"logs/{log.name}", complaints)

    def _run(self, step: Step, log: Path) -> tuple[bool, int | None]:
        environment = {**self.environment, **step.environment}
        log.unlink(missing_ok=True)
        # run_kselftest.sh opens its own output a second time.
        with log.open("ab") as out:
            process = subprocess.Popen(self.command(step), stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT, env=environment,
                                       start_new_session=True, cwd="/")
            try:
                process.wait(step.limit + CLEAN_UP_SECONDS)
                in_time = True
            except subprocess.TimeoutExpired:
                in_time = False
                end_session(process, CLEAN_UP_SECONDS)
            except BaseException:  # an interrupt, too
                end_session(process, CLEAN_UP_SECONDS)
                raise
        if log.stat().st_size > LOG_BYTES:
            os.truncate(log, LOG_BYTES)
        return in_time, process.returncode


def results_of(text: str) -> list[TestResult]:
    parser = Parser()
    parser.feed(unprefixed(text.splitlines()))
    results = parser.finish()
    problems = [problem for problem in parser.problems if problem != "no test ran"]
    if problems and all(one.outcome != FAIL for one in results):
        results.append(TestResult("output", FAIL, problems[0]))
    return results
