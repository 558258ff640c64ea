# SPDX-License-Identifier: GPL-2.0
"""Tests the runner with real guests: it detects failures, and leaves nothing behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .lab import VM
from .ktap import FAIL, PASS, TestResult

BOOT_SECONDS = 240


@dataclass
class Outcome:
    status: int
    output: str
    messages: str

    def must(self, status: int, output: str = "", message: str = "") -> str:
        """Empty, or the difference from the expected outcome."""
        if self.status != status:
            last = (self.messages.splitlines() or [""])[-1]
            return (f"exit status {self.status} instead of {status}: {last}\n"
                    f"{self.output[-500:]}{self.messages[-2000:]}")
        if output not in self.output:
            return f"no '{output}' in the output: {self.output[-500:]}"
        if message not in self.messages:
            return f"no '{message}' in the messages: {self.messages[-2000:]}"
        return ""


class Run:
    """`run`, or `pair`, as a user starts it, with separate results and names."""

    def __init__(self, name: str, arguments: list[str], program: str = "run") -> None:
        self.name = f"self-{name}"
        self.guests = [f"{self.name}{end}" for end in ("", "-node1", "-node2")]
        self._results = tempfile.TemporaryDirectory(prefix="vm-self-")
        self._errors = Path(self._results.name) / "messages"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [str(VM / program), "--name", self.name, *arguments], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=errors, process_group=0,
                env={**os.environ, "VM_RESULTS": self._results.name})

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._process.communicate()
        self._results.cleanup()

    def finish(self) -> Outcome:
        output, _ = self._process.communicate(timeout=BOOT_SECONDS)
        return Outcome(self._process.returncode, output.decode(errors="replace"),
                       self._errors.read_text(errors="replace"))

    def wait_for_output(self) -> bool:
        """Waits until the command has printed its first line."""
        assert self._process.stdout
        return bool(self._process.stdout.readline())

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def children(self) -> Iterator[tuple[int, str]]:
        """QEMU and the GPU models of this run: (pid, command line)."""
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                words = (directory / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # it has just ended
            program = Path(words[0]).name
            mine = any(word == guest or f"/{guest}/" in word for word in words
                       for guest in self.guests)
            if program in ("qemu-system-x86_64", "softgpu") and mine:
                yield int(directory.name), program

    def left_behind(self, seconds: float = 10) -> str:
        end = time.monotonic() + seconds
        while left := list(self.children()):
            if time.monotonic() > end:
                return f"still running: {left}"
            time.sleep(0.1)
        return ""


def _simple(name: str, arguments: list[str], program: str = "run", **expected: int | str) -> str:
    with Run(name, arguments, program) as run:
        problem = run.finish().must(**expected)  # type: ignore[arg-type]
        return problem or run.left_behind()


def _without_driver(command: str, *options: str) -> list[str]:
    return ["--module", "none", "--smp", "1", *options, "--", command]


def returns_output_and_status(_: list[str]) -> str:
    return _simple("status", _without_driver("echo out; exit 7"), status=7, output="out\n")


def fails_for_a_kernel_warning(_: list[str]) -> str:
    return _simple("warning", _without_driver("echo WARNING: a made-up one >/dev/kmsg"), status=1,
                   message="WARNING: a made-up one")


def fails_when_no_test_ran(_: list[str]) -> str:
    return _simple("no-test", _without_driver("echo hello", "--ktap", "none"), status=1,
                   message="no test ran")


def kills_the_guest_at_the_time_limit(_: list[str]) -> str:
    return _simple("limit", _without_driver("sleep 1000", "--timeout", "2"), status=124,
                   message="time limit of 2 s")


def reports_a_panic(_: list[str]) -> str:
    return _simple("panic", _without_driver("echo c >/proc/sysrq-trigger"), status=125,
                   message="the kernel panicked")


# Node 2 reaches node 1 by the network, and asks it for its name, and then to reset itself.
ASK = """set -e
busybox ping -c 1 node1
for number in 1 2; do
  [ $number = 1 ] && echo hostname >/shared/asked/new || echo 'echo b >/proc/sysrq-trigger' >/shared/asked/new
  mv /shared/asked/new /shared/asked/$number
  until [ $number = 2 ] || [ -e /shared/answered/1 ]; do sleep 0.1; done
done
cat /shared/answered/1.output
"""


def a_pair_has_a_network_and_a_directory(_: list[str]) -> str:
    return _simple("pair", ["--both", "--module none", "--", ASK], "pair", status=0,
                   output="\nnode1\n")


def _interrupted(name: str, number: int, status: int, arguments: list[str]) -> str:
    with Run(name, arguments) as run:
        if not run.wait_for_output():
            return f"the command did not start: {run.finish().messages}"
        if not list(run.children()):
            return "found no process of an active run: the test is wrong"
        run.signal(number)
        left = run.left_behind()
        return left or run.finish().must(status)


def leaves_nothing_behind_on_interrupt(gpu: list[str]) -> str:
    return _interrupted("interrupt", signal.SIGINT, 130, [*gpu, "--", "echo up; sleep 1000"])


def leaves_nothing_behind_when_killed(gpu: list[str]) -> str:
    return _interrupted("killed", signal.SIGKILL, -9, [*gpu, "--", "echo up; sleep 1000"])


def reports_a_dead_gpu_model(gpu: list[str]) -> str:
    with Run("model", [*gpu, "--", "echo up; sleep 1000"]) as run:
        if not run.wait_for_output():
            return f"the command did not start: {run.finish().messages}"
        for pid, program in run.children():
            if program == "softgpu":
                os.kill(pid, signal.SIGABRT)
        return run.finish().must(125, message="GPU 0 (softgpu) died of SIGABRT")


TESTS: tuple[Callable[[list[str]], str], ...] = (
    a_pair_has_a_network_and_a_directory, returns_output_and_status, fails_for_a_kernel_warning, fails_when_no_test_ran,
    kills_the_guest_at_the_time_limit, reports_a_panic, leaves_nothing_behind_on_interrupt,
    leaves_nothing_behind_when_killed, reports_a_dead_gpu_model,
)


def run(options: list[str], count: int) -> Iterator[tuple[TestResult, float]]:
    """Runs `count` random tests, or all; `options` are for guests that have a GPU."""
    chosen = random.sample(TESTS, count) if count < len(TESTS) else TESTS
    for test in chosen:
        start = time.monotonic()
        try:
            problem = test(["--gpus", "1", *options])
        except subprocess.TimeoutExpired:
            problem = f"did not end within {BOOT_SECONDS} s"
        name = test.__name__.replace("_", "-")
        yield (TestResult(name, FAIL if problem else PASS, problem),
               time.monotonic() - start)
