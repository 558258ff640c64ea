# SPDX-License-Identifier: GPL-2.0
"""Finds complaints of the kernel in its log.

init writes "vm: begin N" and "vm: end N" round each command. A command that provokes complaints
says so beforehand, on /dev/kmsg: "vm: allow REGULAR-EXPRESSION", valid until its end. That also
goes for what the GPU models complain about.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TIME = re.compile(r"^(?:<\d+>)?\[\s*\d+\.\d+\]\s?(?:\[\s*[TC]\d+\]\s?)?")
_MARK = re.compile(r"^vm: (?P<verb>begin|end|allow) (?P<argument>.*)$")

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
)))

PANIC = re.compile(r"Kernel panic - not syncing")

# Known sayings of a healthy kernel that match above.
HARMLESS = re.compile("|".join((
    r"taint: ", r"loading out-of-tree module taints kernel", r"module verification failed",
)))


# How much of what follows a complaint (registers, call trace) is kept with it.
LINES_KEPT = 30


@dataclass
class Complaint:
    command: int | None  # which was running
    text: str
    context: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([f"kernel: {self.text}", *self.context])


def message(line: str) -> str:
    """A line without its time stamp."""
    return _TIME.sub("", line.rstrip("\r\n"))


class Watcher:
    """Takes the log line by line; complaints are kept with the command that was running."""

    def __init__(self) -> None:
        self.panicked = False
        self.current: int | None = None
        self.finished: set[int] = set()
        self.complaints: list[Complaint] = []
        self._allowed: list[tuple[int | None, re.Pattern[str]]] = []

    def line(self, raw: str) -> None:
        text = message(raw)
        mark = _MARK.match(text)
        if mark:
            self._mark(mark["verb"], mark["argument"])
            return
        if PANIC.search(text):
            self.panicked = True
        complaint = COMPLAINTS.search(text) and not HARMLESS.search(text)
        if complaint and not self.allows(self.current, text):
            self.complaints.append(Complaint(self.current, text))
        elif self.complaints and len(self.complaints[-1].context) < LINES_KEPT:
            self.complaints[-1].context.append(text)

    def allows(self, command: int | None, text: str) -> bool:
        return any(number == command and pattern.search(text) for number, pattern in self._allowed)

    def of(self, command: int | None) -> list[Complaint]:
        return [complaint for complaint in self.complaints if complaint.command == command]

    def _mark(self, verb: str, argument: str) -> None:
        if verb == "allow":
            try:
                self._allowed.append((self.current, re.compile(argument)))
            except re.error as error:
                self.complaints.append(Complaint(self.current, f"vm: allow {argument}: {error}"))
        elif argument.isdigit() and verb == "begin":
            self.current = int(argument)
        elif argument.isdigit():
            self.finished.add(int(argument))
            self.current = None
