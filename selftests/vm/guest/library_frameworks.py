# SPDX-License-Identifier: GPL-2.0
"""The test frameworks of libraries: how their programs list, select and report cases.

read_line() of a framework takes a line and the case that runs. It returns the case that the line begins,
with "", or ends, with its verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path

PASSED, SKIPPED = "passed", "skipped"
FAILED = "failed"  # the reason is in the lines before
_LEAK = "Resource leak detected by SharedSignalPool"  # the runtime's last line in many programs
_EVENT = re.compile(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] ([^\s,]+)")
# Of Thrust's driver, whose lines end with a carriage return, too. Names may have blanks, as in Test<unsigned int>.
_BEGIN = re.compile(r"Running (.+)\.\.\.$")
_END = re.compile(r"\[(PASS|FAILURE|KNOWN FAILURE|ERROR|UNKNOWN)\].* $")
# Of piglit's runner, whose lines end with blanks.
_RUNNING = re.compile(r"running: (.+)$")
_STATUS = re.compile(r"(pass|skip|warn|fail|crash|timeout|notrun|incomplete): (.+)$")
# The case and "" or its verdict. None: the line is of the case itself.
Event = tuple[str, str] | None


def parse_cases(text: str) -> list[str]:
    """SUITE.TEST of each line of --gtest_list_tests, without those that are disabled."""
    cases, suite = [], ""
    for line in text.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith("  ") and suite:
            cases.append(suite + name)
        elif name.endswith(".") and " " not in name:
            suite = name
    return [case for case in cases if "DISABLED_" not in case]


def matches(case: str, filter_: str) -> bool:
    """A filter of GoogleTest: patterns, then "-" and those of cases that are not meant."""
    wanted, _, unwanted = filter_.partition("-")
    return (any(fnmatchcase(case, pattern) for pattern in wanted.split(":"))
            and not any(fnmatchcase(case, pattern) for pattern in unwanted.split(":")))


class GoogleTest:
    """Programs of GoogleTest."""

    @staticmethod
    def list_words(filter_: str) -> list[str]:
        return [f"--gtest_filter={filter_}", "--gtest_list_tests"]

    @staticmethod
    def cases(listing: str, _filter: str) -> list[str]:
        return parse_cases(listing)

    @staticmethod
    def run_words(cases: Iterable[str], flags: Path) -> list[str]:
        # In a filter, "-" begins what is not to be run.
        chosen = ":".join(case.replace("-", "?") for case in cases)
        flags.write_text(f"--gtest_filter={chosen}\n--gtest_color=no\n")
        return [f"--gtest_flagfile={flags}"]

    @staticmethod
    def read_line(line: str, current: str) -> Event:
        event = _EVENT.search(line)
        if not event:
            return None
        kind, case = event.groups()
        if kind == "RUN":
            return case, ""
        # The summary at the end names cases again.
        return (case, {"OK": PASSED, "SKIPPED": SKIPPED}.get(kind, FAILED)) if case == current else None


class Thrust:
    """Programs with Thrust's driver: arrays have up to 4096 elements."""

    @staticmethod
    def list_words(_filter: str) -> list[str]:
        return ["--list"]

    @staticmethod
    def cases(listing: str, filter_: str) -> list[str]:
        return [case for case in listing.splitlines() if matches(case, filter_)]

    @staticmethod
    def run_words(cases: Iterable[str], _flags: Path) -> list[str]:
        return ["--sizes=medium", "--verbose", *cases]

    @staticmethod
    def read_line(line: str, current: str) -> Event:
        line = line.rstrip()
        if begin := _BEGIN.match(line):
            return begin[1], ""
        if current and (end := _END.match(line.removesuffix(current))):
            return current, {"PASS": PASSED, "KNOWN FAILURE": SKIPPED}.get(end[1]) or f"failed: {end[1]}"
        return None


class Piglit:
    """piglit's runner, which reads "@" in names and writes "/"."""

    @staticmethod
    def list_words(_filter: str) -> list[str]:
        return ["print-cmd", "--format={name}", "cl"]

    @staticmethod
    def cases(listing: str, filter_: str) -> list[str]:
        names = [name.replace("@", "/") for name in listing.splitlines()]
        return [name for name in names if matches(name, filter_)]

    @staticmethod
    def run_words(cases: Iterable[str], flags: Path) -> list[str]:
        flags.write_text("".join(case.replace("/", "@") + "\n" for case in cases))
        return ["run", "--no-concurrency", "--log-level=verbose", f"--test-list={flags}", "cl",
                str(flags.with_name("results"))]

    @staticmethod
    def read_line(line: str, current: str) -> Event:
        line = line.rstrip()
        if begin := _RUNNING.match(line):
            return begin[1], ""
        if (status := _STATUS.match(line)) and status[2] == current:
            return current, {"pass": PASSED, "skip": SKIPPED}.get(status[1]) or f"failed: {status[1]}"
        return None


FRAMEWORKS = {"program": GoogleTest, "thrust": Thrust, "piglit": Piglit}


class Verdicts:
    """Reads the output of a program: the verdicts, and the case that it is in."""

    def __init__(self, read_line: Callable[[str, str], Event]) -> None:
        self.of: dict[str, str] = {}
        self.current = ""
        self._read_line = read_line
        self._text: list[str] = []

    def line(self, line: str) -> str | None:
        """The case if the line begins or ends one."""
        event = self._read_line(line, self.current)
        if not event:
            self._text.append(line.strip())
            return None
        case, verdict = event
        if verdict:
            self.of[case] = f"failed: {self._reason()}" if verdict == FAILED else verdict
        self.current, self._text = "" if verdict else case, []
        return case

    def _reason(self) -> str:
        for number, text in enumerate(self._text):
            if text.endswith("Failure"):
                said = " ".join(self._text[number + 1:number + 4])
                return f"{text.split('/')[-1].removesuffix(': Failure')}: {said}"[:160]
        return self.last_words()

    def last_words(self) -> str:
        return next((text for text in reversed(self._text) if text and _LEAK not in text), "no message")[:160]
