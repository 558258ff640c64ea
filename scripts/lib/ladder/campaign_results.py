# SPDX-License-Identifier: GPL-2.0
"""The last results of campaigns, and the tables of README.md and of selftests/vm/README.md that they make.

A campaign that ends replaces its lines in selftests/vm/campaigns/results.txt, and the tables between
the marks in these files. The name in a line is a suite of selftests/vm/campaigns, or else a rung; seconds
are those of its tests in the guest, or 0 if they are not known:

    hip-navi31 2026-11-27 4 passed 0 failed 0 skipped 61 seconds
"""

from __future__ import annotations

import fnmatch
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import results
from .rungs import LIBRARIES

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "selftests" / "vm"))
from runner.suite import each_text  # noqa: E402

FILE = Path("selftests/vm/campaigns/results.txt")
README, GUEST_README = Path("README.md"), Path("selftests/vm/README.md")
BEGIN, END = "<!-- campaigns -->\n", "<!-- end of campaigns -->\n"
HEAD = ("# SPDX-License-Identifier: GPL-2.0\n"
        "# The last result of each campaign: scripts/campaign writes this file.\n")

CHIPS = ("MI210", "MI300X", "Navi 31")
# For each chip, the suites and rungs that show it. Empty: there is none yet. None: the stack does not
# run on the chip.
STACKS: tuple[tuple[str, tuple[str | None, str | None, str | None]], ...] = (
    ("Driver and CRIU: kselftests, scenarios, igt", ("every-guest every-e2e", "asics-mi300x*", "asics-navi31*")),
    ("ROCm: ROCr and HIP programs", ("hip rocm-7.2 waves", "rocm-7.2-mi300x waves-debugger-mi300x",
                                     "hip-navi31 rocm-7.2-navi31 waves-debugger-navi31")),
    ("ROCm's libraries: their own tests", ("library-*-mi210", "library-*-mi300x-small", "library-*-navi31")),
    ("BERT and ResNet18 by MIGraphX, dumped", ("migraphx", None, None)),
    ("llama.cpp by HIP, and its operations", ("llm ops", None, "llm-navi31 ops-navi31")),
    ("Vulkan by RADV, and llama.cpp by it", (None, None, "vulkan llm-vulkan ops-vulkan")),
    ("Servers and training", ("serve train", None, "serve-navi31 train-navi31")),
)


@dataclass
class Outcome:
    date: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: int = 0

    def add(self, other: Outcome) -> None:
        self.date = min(self.date, other.date)
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.seconds += other.seconds

    def cell(self) -> str:
        ran = self.passed + self.failed
        return f"{self.passed} of {ran} passed, {self.date}" if self.failed else f"{ran} passed, {self.date}"


def parse(text: str) -> dict[str, Outcome]:
    known = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, date, *counts = line.split()
            known[name] = Outcome(date, *(int(count) for count in counts[::2]))
    return known


def write(known: Mapping[str, Outcome]) -> str:
    return HEAD + "".join(f"{name} {one.date} {one.passed} passed {one.failed} failed {one.skipped} skipped "
                          f"{one.seconds} seconds\n" for name, one in sorted(known.items()))


def read_rungs(rungs: Iterable[str], every: Iterable[str], build: Path, suites: set[str],
               date: str) -> dict[str, Outcome]:
    """The outcomes of rungs that have just ended."""
    found: dict[str, Outcome] = {}
    every = list(every)
    for rung in rungs:
        seconds = _seconds(build / "log" / f"check-{rung}.log")
        for file in results.files_of(rung, every, build / "results"):
            # Of the suite hip-navi31, the rung hip writes hip-navi31.tap; of hip, hip-hip.tap.
            suite = file.stem if file.stem in suites else file.stem.removeprefix(f"{rung}-")
            total = results.read([file])
            one = Outcome(date, total.passed, len(total.failures), len(total.skips), round(seconds[suite]))
            name = suite if suite in suites else rung
            found.setdefault(name, Outcome(date)).add(one)
    return found


def _seconds(log: Path) -> defaultdict[str, float]:
    """For each suite, the sum of the times that its guest has printed."""
    times, sums = results.Results(), defaultdict[str, float](float)
    if log.exists():
        times.add_printed_times(log.read_text(errors="replace").splitlines(), "")
    for seconds, name in times.times:
        sums[name.removeprefix(": ").split("/")[0]] += seconds
    return sums


def suite_names(directory: Path) -> set[str]:
    """The names of the suites in the files *.suite."""
    names: set[str] = set()
    for file in directory.glob("*.suite"):
        for text in each_text(file.read_text()):
            name = re.search(r"^name *= *(.+)$", text, re.MULTILINE)
            names.add(name[1] if name else file.stem)
    return names


def _cell(patterns: str | None, known: Mapping[str, Outcome]) -> str:
    if patterns is None:
        return "–"
    shown = [one for name, one in known.items()
             if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split())]
    if not shown:
        return "not run"
    total = Outcome(shown[0].date)
    for one in shown:
        total.add(one)
    return total.cell()


def _rows(head: str, rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    lines = [f"|{head and f' {head}'} | " + " | ".join(CHIPS) + " |", "|---|" + "---|" * len(CHIPS)]
    lines += [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows]
    return "\n".join(lines) + "\n"


def stack_table(known: Mapping[str, Outcome]) -> str:
    return _rows("", ((stack, (_cell(one, known) for one in shown)) for stack, shown in STACKS))


def library_table(known: Mapping[str, Outcome], suites: set[str], libraries: Mapping[str, str]) -> str:
    def cell(name: str) -> str:
        if f"library-{name}" not in suites:
            return "–"
        one, dumped = known.get(f"library-{name}"), known.get(f"dumped-{name}")
        text = one.cell() + (f", {one.seconds} s" if one.seconds else "") if one else "not run"
        if dumped:
            text += "; dumped: " + ("failed" if dumped.failed else "passed") + f", {dumped.date}"
        return text

    chips = ("mi210", "mi300x-small", "navi31")
    return _rows("Library", ((title, (cell(f"{name}-{chip}") for chip in chips))
                             for name, title in libraries.items()))


def replace_table(text: str, table: str) -> str:
    before, rest = text.split(BEGIN)
    return before + BEGIN + table + END + rest.split(END)[1]


def tables(known: Mapping[str, Outcome], suites: set[str]) -> dict[Path, str]:
    return {README: stack_table(known), GUEST_README: library_table(known, suites, LIBRARIES)}


def note(top: Path, rungs: Iterable[str], every: Iterable[str], date: str) -> None:
    suites = suite_names((top / FILE).parent)
    new = read_rungs(rungs, every, top / "build", suites, date)
    if not new:
        return
    known = parse((top / FILE).read_text()) | new
    (top / FILE).write_text(write(known))
    for file, table in tables(known, suites).items():
        (top / file).write_text(replace_table((top / file).read_text(), table))
