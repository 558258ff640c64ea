# SPDX-License-Identifier: GPL-2.0
"""Finds complaints of the kernel and of the GPU models, and judges which of them are allowed.

Marks in the log, written to /dev/kmsg, say what runs; the kernel keeps them in order with its own
messages:

    vm: begin N / vm: end N    command N of the runner runs; init writes these
    vm: test NAME / vm: tested NAME
                               one test of the command runs; programs that start tests write these.
                               After "tested" alone, NAME owns the complaints of the GPU models so far
    vm: allow PATTERN          complaints that match are expected from here on, until "vm: disallow"
                               or the end of the test, or of the command outside of a test
    vm: allow-in NAME PATTERN  the same while the test of that name runs, in this command

igt-gpu-tools writes marks of its own, which count like the second pair: its subtests are named
PROGRAM@SUBTEST.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from .refused_instructions import RefusedInstructions

_TIME = re.compile(r"^(?:<\d+>)?\[\s*\d+\.\d+\]\s?(?:\[\s*[TC]\d+\]\s?)?")
_MARK = re.compile(r"^vm: (?P<verb>begin|end|test|tested|allow|allow-in|disallow)"
                   r"(?: (?P<argument>.*))?$")
_IGT = re.compile(r"^\[IGT\] (?P<program>\S+): "
                  r"(?:(?P<begin>starting)|finished) subtest (?P<subtest>[^\s,]+)")

COMPLAINTS = re.compile("|".join((
    r"\bWARNING: ", r"\bBUG: ", r"\bBUG at ", r"kernel BUG", r"\bOops\b", r"general protection",
    r"KASAN:", r"KCSAN:", r"UBSAN:", r"KFENCE:", r"Kernel panic", r"INFO: task .* blocked for more",
    r"possible recursive locking", r"circular locking dependency", r"possible deadlock",
    r"suspicious RCU usage", r"inconsistent lock state", r"INFO: trying to register non-static key",
    r"refcount_t: ", r"list_(?:add|del) corruption", r"unreferenced object", r"stack-protector",
    r"Bad page state", r"Bad page map", r"scheduling while atomic", r"sleeping function called",
    r"self-detected stall", r"detected stalls on CPUs", r"soft lockup", r"hard LOCKUP",
    r"Unable to handle kernel", r"unable to handle page fault", r"NULL pointer dereference",
    r"double free", r"bad unlock balance", r"object already free", r"nobody cared",
    r"printk messages dropped",
    # The driver about its GPU.
    r"page fault \(src_id", r"[Rr]ing \S+ (?:timeout|reset)", r"GPU reset begin", r"\*ERROR\*",
)))

PANIC = re.compile(r"Kernel panic - not syncing")

# Messages of a healthy kernel that match a pattern above.
HARMLESS = re.compile("|".join((
    r"taint: ", r"loading out-of-tree module taints kernel", r"module verification failed",
    # With ECC of SRAM, and without a PSP, which alone can disable RAS of the shader cores.
    r"WARNING: .* at amdgpu_ras_fini\+",
)))


# The number of lines after a complaint (registers, call trace) that are kept with it.
LINES_KEPT = 30
# A fault that repeats is reported this many times; the log has all.
SAME_KEPT = 3


@dataclass
class Complaint:
    command: int | None  # the command that was running
    test: str            # the test of it, or empty
    text: str
    context: list[str] = field(default_factory=list)
    reported: bool = False

    def __str__(self) -> str:
        during = f" during {self.test}" if self.test else ""
        return "\n".join([f"complaint{during}: {self.text}", *self.context])


def message(line: str) -> str:
    """A line without its time stamp."""
    return _TIME.sub("", line.rstrip("\r\n"))


def _nothing() -> list[str]:
    return []


class Watcher:
    """Takes the log line by line; complaints are kept with the test that was running.

    `model` returns what the GPU models have complained about since it was last called. It is
    called at each mark. The models have a log of their own, so what they say may be from before or
    after the mark, and is a complaint only if neither side allows it.
    """

    def __init__(self, model: Callable[[], list[str]] = _nothing) -> None:
        self.model = model
        self.panicked = False
        self.current: int | None = None
        self.test = ""
        self.finished: set[int] = set()
        self.complaints: list[Complaint] = []
        self.refused = RefusedInstructions()
        self._context: list[str] | None = None  # of the last complaint, which lines still join
        self._allowed: list[re.Pattern[str]] = []
        self._allowed_in: list[tuple[str, re.Pattern[str]]] = []
        self._of_command: list[re.Pattern[str]] = []

    def line(self, raw: str) -> None:
        text = message(raw)
        if mark := _MARK.match(text):
            ended = mark["argument"] if mark["verb"] == "tested" else ""
            self.collect(lambda: self._mark(mark["verb"], mark["argument"] or ""), ended)
            return
        if igt := _IGT.match(text):
            name = f"{igt['program']}@{igt['subtest']}" if igt["begin"] else ""
            self.collect(lambda: self._begin_test(name))
            return
        if PANIC.search(text):
            self.panicked = True
        if COMPLAINTS.search(text) and not HARMLESS.search(text):
            self._context = None
            if not self._allows(text):
                self._complain(text)
        elif self._context is not None and len(self._context) < LINES_KEPT:
            self._context.append(text)

    def collect(self, mark: Callable[[], None] = lambda: None, ended: str = "") -> None:
        """Judges the complaints of the GPU models so far by the permissions before and after
        `mark`, which this calls. `ended`: the test whose end it marks."""
        where = self.current, ended or self.test
        said = [text for text in self.model() if not self._allows(text)]
        mark()
        for text in said:
            if not self._allows(text):
                self._complain(text, where)

    def of(self, command: int) -> list[Complaint]:
        """The complaints of a command that has ended; not those that come later."""
        if command not in self.finished:
            self.complaints.append(Complaint(command, "", f"the log has no mark of command {command}'s end"))
        mine = [complaint for complaint in self.complaints if complaint.command == command]
        for complaint in mine:
            complaint.reported = True
        return mine

    def rest(self) -> list[Complaint]:
        """What of() did not return: complaints outside of commands, and those that came too late."""
        return [complaint for complaint in self.complaints if not complaint.reported]

    def _complain(self, text: str, where: tuple[int | None, str] | None = None) -> None:
        """`where`: the command and the test; those that run now if not given."""
        command, test = where or (self.current, self.test)
        if self.refused.repeats(text, command, test):
            return
        same = [one for one in self.complaints if (one.command, one.test) == (command, test)
                and _kind(one.text) == _kind(text)]
        if len(same) < SAME_KEPT:
            self.complaints.append(Complaint(command, test, text))
            self._context = self.complaints[-1].context

    def _allows(self, text: str) -> bool:
        here = [pattern for test, pattern in self._allowed_in if test == self.test]
        return any(pattern.search(text) for pattern in (*self._allowed, *here, *self._of_command))

    def _mark(self, verb: str, argument: str) -> None:
        if verb == "allow":
            self._add(self._allowed if self.test else self._of_command, argument)
        elif verb == "disallow":
            (self._allowed if self.test else self._of_command).clear()
        elif verb == "allow-in":
            name, _, pattern = argument.partition(" ")
            if compiled := self._compiled(pattern):
                self._allowed_in.append((name, compiled))
        elif verb in ("test", "tested"):
            self._begin_test(argument if verb == "test" else "")
        elif argument.isdigit():
            self._begin_or_end(verb, int(argument))

    def _begin_or_end(self, verb: str, number: int) -> None:
        self._begin_test("")
        self._allowed_in.clear()
        self._of_command.clear()
        if verb == "begin":
            self.current = number
        else:
            self.finished.add(number)
            self.current = None

    def _begin_test(self, name: str) -> None:
        self.test = name
        self._allowed.clear()

    def _add(self, patterns: list[re.Pattern[str]], text: str) -> None:
        if compiled := self._compiled(text):
            patterns.append(compiled)

    def _compiled(self, text: str) -> re.Pattern[str] | None:
        try:
            if not text:
                raise re.error("an empty pattern allows everything")
            return re.compile(text)
        except re.error as error:
            self._complain(f"vm: allow {text}: {error}")
            return None


def _kind(text: str) -> str:
    """A complaint without its numbers; complaints that differ only in numbers are of one kind."""
    return re.sub(r"0x[0-9a-f]+|\d+", "#", text)
