# SPDX-License-Identifier: GPL-2.0
"""build/results/*.tap: lines "ok NAME", "not ok NAME" and "skip NAME # reason".

"# 12 s" or "# 0.3 s" at the end of a passed test is the time that it took. Guest tests print it to the
log of their rung.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_PRINTED = re.compile(r"  pass  (?P<name>\S+)  \((?P<seconds>\d+\.\d) s\)")
_TIME = re.compile(r"(?P<name>.*?) # (?P<seconds>\d+(\.\d+)?) s$")


@dataclass
class Results:
    """The tests of one or more files."""

    passed: int = 0
    failures: list[str] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)
    times: list[tuple[float, str]] = field(default_factory=list)

    def add_line(self, line: str, source: str) -> None:
        if line.startswith("ok "):
            self.passed += 1
            if timed := _TIME.match(line.removeprefix("ok ")):
                self.times.append((float(timed["seconds"]), f"{source}: {timed['name']}"))
        elif line.startswith("not ok "):
            self.failures.append(f"{source}: {line.removeprefix('not ok ')}")
        elif line.startswith("skip "):
            self.skips.append(f"{source}: {line.removeprefix('skip ')}")

    def add_printed_times(self, lines: Iterable[str], rung: str) -> None:
        """Takes lines "  pass  NAME  (0.3 s)" of selftests/vm/check."""
        for line in lines:
            if printed := _PRINTED.match(line):
                self.times.append((float(printed["seconds"]), f"{rung}: {printed['name']}"))

    def good(self) -> bool:
        """Whether something ran and nothing failed."""
        return not self.failures and self.passed + len(self.skips) > 0

    def closing_line(self) -> str:
        skipped = f", {len(self.skips)} skipped" if self.skips else ""
        return f"{self.passed} passed, {len(self.failures)} failed{skipped}"


def read(files: Iterable[Path]) -> Results:
    results = Results()
    for file in sorted(files):
        for line in file.read_text(errors="replace").splitlines():
            results.add_line(line, file.stem)
    return results


def owner(stem: str, names: Iterable[str]) -> str | None:
    """The rung that a file belongs to: the longest name N such that the stem is N or N-SUITE."""
    matching = [name for name in names if stem == name or stem.startswith(f"{name}-")]
    return max(matching, key=len, default=None)


def files_of(name: str, names: Iterable[str], directory: Path) -> list[Path]:
    names = list(names)
    return [file for file in directory.glob("*.tap") if owner(file.stem, names) == name]


def append(directory: Path, name: str, line: str) -> None:
    with (directory / f"{name}.tap").open("a") as out:
        out.write(line + "\n")
