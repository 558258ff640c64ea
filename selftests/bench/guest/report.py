#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes tables, and curves with gnuplot, from the output of `measure`.

    report.py SAMPLES DIRECTORY     writes table.txt, table.json, curves.dat, and curves.png

The exit status is 1 if samples are missing, 4 if a goal is missed or was not measured for no known reason, unless
the user has chosen what is measured, and 3 if there are fewer than MIN_ROUNDS rounds.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

EXIT_MISSED = 4
EXIT_UNDECIDED = 3
MIN_ROUNDS = 5
MIB = 1 << 20
LARGE_BO = 32 * MIB  # not divided; see is_large()
GOALS = {
    "dump / limit": (0.9, "of the slower of SDMA and file, large BOs"),
    "restore / limit": (0.9, "of the slower of SDMA and file, large BOs"),
    "speed-up": (3.0, "times the other plugin's dump and restore, large BOs"),
    "small speed-up": (1.0, "times the other plugin's dump and restore, small BOs"),
    "parallel": (0.6, "of the wall time of a sequential restore saved, warm cache"),
    "incremental": (0.9, "of the bytes saved by a second dump, a twentieth dirtied"),
    "frozen": (0.8, "of the pause saved by a pre-dump, a twentieth dirtied"),
    "staging": (64.0, "MiB of staging memory per GPU"),
}


# Goals that an emulated CPU cannot reach, and why. Missing another one is an error.
KNOWN_IF_EMULATED = {
    "dump / limit": "an emulated CPU sums slower than the host copies and writes",
    "restore / limit": "an emulated CPU sums slower than the host reads and copies",
    "speed-up": "most of the time is that of CRIU, on an emulated CPU",
    "parallel": "filling and CRIU's own work share the emulated CPUs",
    "frozen": "an emulated CPU hashes slower than the host writes",
}

NO_OTHER = "there is no other plugin to compare with"

EMULATED = """  The CPUs here are emulated; GPU and disk run native code. In relation to copies and files,
  checksums and other CPU work are ten or more times slower than on a real machine."""


@dataclass
class Series:
    values: list[float] = field(default_factory=list)

    def add(self, value: float | None) -> None:
        if value is not None:
            self.values.append(value)

    @property
    def median(self) -> float | None:
        return statistics.median(self.values) if self.values else None

    def text(self, digits: int = 2) -> str:
        if not self.values:
            return "-"
        low, high = min(self.values), max(self.values)
        if len(self.values) == 1:
            return f"{low:.{digits}f}"
        return f"{self.median:.{digits}f} ({low:.{digits}f}..{high:.{digits}f})"

    def json(self) -> dict[str, object] | None:
        if not self.values:
            return None
        return {"median": self.median, "least": min(self.values), "most": max(self.values),
                "n": len(self.values)}


class Samples:
    """The output of one run of `measure`."""

    def __init__(self, lines: list[str]) -> None:
        found = [json.loads(line) for line in lines if line.startswith("{")]
        self.machine = next((one["machine"] for one in found if "machine" in one), {})
        self.shapes = {one["shape"]: one for one in found if "shape" in one}
        self.samples = [one for one in found if "sample" in one]
        self.complete = any(one.get("done") for one in found)

    def is_emulated(self) -> bool:
        """QEMU gives its emulated CPUs these names."""
        cpu = self.machine.get("cpu", "")
        return "TCG" in cpu or "Nehalem Class Core i7" in cpu

    def of(self, shape: str, sample: str, **facts: object) -> list[dict]:
        return [one for one in self.samples
                if one["of"] == shape and one["sample"] == sample and "failed" not in one
                and all(one.get(name) == value for name, value in facts.items())]

    def failures(self) -> list[dict]:
        return [one for one in self.samples if "failed" in one]

    def rounds(self, shape: str) -> list[int]:
        return sorted({one["round"] for one in self.samples
                       if one["of"] == shape and "round" in one})


def mean(samples: list[dict], name: str) -> float | None:
    values = [one[name] for one in samples if one.get(name)]
    return statistics.fmean(values) if values else None


class Shape:
    """The results of one shape; each value of a series is from one round."""

    def __init__(self, samples: Samples, name: str) -> None:
        self.name = name
        self.facts = samples.shapes[name]
        self.mebibytes = self.facts["bytes"] / MIB
        self.series: dict[str, Series] = defaultdict(Series)
        for number in samples.rounds(name):
            self._round(samples, number)
        for one in samples.of(name, "memory"):
            for what in ("dump_peak", "restore_peak"):
                self.series[f"{one['plugin']} {what}"].add(one[what] / MIB)
        self.said = self._said(samples)

    def _said(self, samples: Samples) -> dict[str, list[str]]:
        """The plugin's own log lines of the run of median length."""
        result = {}
        for kind in ("dump", "restore"):
            runs = sorted(samples.of(self.name, kind, plugin="ours"), key=lambda one: one["seconds"])
            if runs:
                result[kind] = runs[len(runs) // 2]["said"]
        return result

    def _round(self, samples: Samples, number: int) -> None:
        raw = [one["rates"] for one in samples.of(self.name, "raw", round=number)]
        for name in raw[0] if raw else ():
            self.series[f"raw {name}"].add(raw[0][name])
        dumps = samples.of(self.name, "dump", plugin="ours", round=number)
        restores = samples.of(self.name, "restore", plugin="ours", round=number)
        self._against_limit("dump", dumps, raw, ("copy_out", "write"))
        self._against_limit("restore", [one for one in restores if not one["parallel"]], raw,
                            ("copy_in", "read"))
        warm = [one for one in restores if one["parallel"] and not one["cold"]]
        self._against_other(samples, number, "dump", dumps)
        self._against_other(samples, number, "restore", warm)
        for cold in (False, True):
            self._parallel([one for one in restores if one["cold"] == cold],
                           "cold" if cold else "warm")

    def _against_limit(self, what: str, runs: list[dict], raw: list[dict],
                       limits: tuple[str, str]) -> None:
        self.series[f"ours {what} s"].add(mean(runs, "seconds"))
        contents = mean(runs, "contents")
        if not contents or not mean(runs, "contents_bytes"):
            return
        rate = mean(runs, "contents_bytes") / MIB / contents
        self.series[f"ours {what} MiB/s"].add(rate)
        self.series[f"ours {what} contents s"].add(contents)
        if raw:
            self.series[f"{what} / limit"].add(rate / min(raw[0][name] for name in limits))

    def _against_other(self, samples: Samples, number: int, what: str, ours: list[dict]) -> None:
        other = samples.of(self.name, what, plugin="other", round=number)
        if other and ours:
            self.series[f"other {what} s"].add(mean(other, "seconds"))
            self.series[f"speed-up {what}"].add(mean(other, "seconds") / mean(ours, "seconds"))

    def _parallel(self, restores: list[dict], cache: str) -> None:
        both = [mean([one for one in restores if one["parallel"] == on], "seconds")
                for on in (True, False)]
        for name, value in zip(("parallel", "sequential"), both):
            self.series[f"{name} {cache} s"].add(value)
        if all(both):
            self.series[f"saved {cache}"].add(1 - both[0] / both[1])
        contents = mean([one for one in restores if not one["parallel"]], "contents")
        if both[1] and contents:
            self.series[f"can save {cache}"].add(min(contents, both[1] - contents) / both[1])

    def median(self, name: str) -> float | None:
        return self.series[name].median


def without_criu(shape: Shape, empty: Shape | None, who: str, what: str) -> float | None:
    """Seconds of a whole run, minus those of a process with almost no memory."""
    whole = shape.median(f"{who} {what} s")
    base = empty.median(f"{who} {what} s") if empty else None
    return max(whole - base, 0.001) if whole and base else None


@dataclass
class Goal:
    name: str
    wanted: float
    text: str
    measured: Series
    shape: str
    known: str = ""  # why it is missed or was not measured, where that is known

    @property
    def met(self) -> bool | None:
        median = self.measured.median
        if median is None:
            return None
        return median <= self.wanted if self.name == "staging" else median >= self.wanted


class Report:
    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.shapes = [Shape(samples, name) for name in samples.shapes
                       if name not in ("incremental", "frozen")]
        self.empty = next((one for one in self.shapes if one.name == "empty"), None)
        self.incremental = self._incremental()
        self.goals = self._goals()

    def _incremental(self) -> dict[str, float]:
        first = self.samples.of("incremental", "incremental", number=1)
        second = self.samples.of("incremental", "incremental", number=2)
        if not first or not second:
            return {}
        return {"first_bytes": first[0]["image_bytes"], "second_bytes": second[0]["image_bytes"],
                "dirty": second[0]["dirty"],
                "saved": 1 - second[0]["image_bytes"] / first[0]["image_bytes"],
                "first_seconds": first[0]["seconds"], "second_seconds": second[0]["seconds"]}

    def is_large(self, shape: Shape) -> bool:
        divisor = self.samples.machine.get("divisor", 1)
        return shape.name != "empty" and shape.facts["kib"] << 10 >= LARGE_BO / divisor

    def _goals(self) -> list[Goal]:
        result = []

        known = KNOWN_IF_EMULATED if self.samples.is_emulated() else {}
        other = self.samples.machine.get("other")

        def add(name: str, series: Series, shape: str) -> None:
            why = known.get(name, "")
            if series.median is None:
                why = "" if other or "speed-up" not in name else NO_OTHER
            result.append(Goal(name, *GOALS[name], series, shape, why))

        for shape in self.shapes:
            if self.is_large(shape):
                for name in ("dump / limit", "restore / limit"):
                    add(name, shape.series[name], shape.name)
                for what in ("dump", "restore"):
                    add("speed-up", shape.series[f"speed-up {what}"], f"{shape.name}, {what}")
                add("parallel", shape.series["saved warm"], shape.name)
                for what in ("dump", "restore"):
                    add("staging", shape.series[f"ours {what}_peak"], f"{shape.name}, {what}")
            elif shape is not self.empty:
                for what in ("dump", "restore"):
                    add("small speed-up", shape.series[f"speed-up {what}"], f"{shape.name}, {what}")
        saved = Series([self.incremental["saved"]] if self.incremental else [])
        add("incremental", saved, "16 x 128 MiB")
        add("frozen", self._pauses(0.05)[2], "16 x 128 MiB")
        return result

    def missed(self) -> list[Goal]:
        """Goals that are missed, or were not measured, for no known reason."""
        chosen = self.samples.machine.get("chosen")
        return [goal for goal in self.goals if not goal.known
                and (goal.met is False or (goal.met is None and not chosen))]

    def undecided(self) -> list[Goal]:
        """Goals that were not measured often enough."""
        return self.goals if self.samples.machine.get("rounds", MIN_ROUNDS) < MIN_ROUNDS else []

    def summary(self) -> str:
        """The last line of the output."""
        few = self.samples.machine.get("rounds", MIN_ROUNDS) < MIN_ROUNDS
        return (f"goals: {len(self.goals)}, of which {len(self.missed())} missed or not measured for no known reason and "
                f"{len(self.undecided())} undecided" + (f": fewer than {MIN_ROUNDS} rounds" if few else ""))

    def status(self) -> int:
        if not self.samples.complete:
            return 1
        if self.missed():
            return EXIT_MISSED
        return EXIT_UNDECIDED if self.undecided() else 0

    def _pauses(self, dirty: float) -> tuple[Series, Series, Series]:
        """Seconds without and with a pre-dump, and what part the latter saves."""
        plain, ahead = (Series([one["paused"] for one in self.samples.of(
            "frozen", "frozen", dirty=dirty, ahead=which)]) for which in (False, True))
        return plain, ahead, Series([1 - b / a for a, b in zip(plain.values, ahead.values)])

    # Text

    def text(self) -> str:
        parts = [self._head(), self._rates(), self._walls(), self._restores(), self._memory(),
                 self._increments(), self._frozen(), self._goal_table(), self._profiles(), self._failures()]
        return "\n".join(part for part in parts if part)

    def _head(self) -> str:
        machine = self.samples.machine
        divisor = machine.get("divisor", 1)
        sizes = "full sizes" if divisor == 1 else (
            f"sizes, or where they are small the number of BOs, divided by {divisor} (SCALE=1: "
            "not divided)")
        state = "" if self.samples.complete else "THE RUN IS NOT COMPLETE\n"
        return (f"{state}Linux {machine.get('kernel')}, {machine.get('cpus')} CPUs "
                f"({machine.get('cpu')}), {machine.get('criu')}\n{machine.get('rounds')} rounds, median (least..most), "
                f"{sizes}\nother plugin: {machine.get('other') or 'none'}\n")

    @staticmethod
    def _table(title: str, header: list[str], rows: list[list[str]]) -> str:
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                 for row in [header, *rows]]
        return "\n".join([title, *("  " + line for line in lines), ""])

    def _by_shape(self, title: str, columns: list[tuple[str, str, int]]) -> str:
        rows = [[shape.name, *(shape.series[key].text(digits) for _, key, digits in columns)]
                for shape in self.shapes]
        return self._table(title, ["shape", *(name for name, _, _ in columns)], rows)

    def _rates(self) -> str:
        return self._by_shape("Contents, MiB/s, and the limits for as many bytes", [
            ("SDMA out", "raw copy_out", 0), ("file write", "raw write", 0),
            ("checksum", "raw checksum", 0),
            ("dump", "ours dump MiB/s", 0), ("/ limit", "dump / limit", 2),
            ("SDMA in", "raw copy_in", 0), ("file read", "raw read", 0),
            ("restore", "ours restore MiB/s", 0), ("/ limit", "restore / limit", 2)])

    def _walls(self) -> str:
        return self._by_shape("criu dump and criu restore as a whole, s", [
            ("dump", "ours dump s", 2), ("other", "other dump s", 2),
            ("speed-up", "speed-up dump", 2), ("restore", "parallel warm s", 2),
            ("other", "other restore s", 2), ("speed-up", "speed-up restore", 2)]) + self._net()

    def _net(self) -> str:
        rows = []
        for shape in self.shapes:
            if shape is self.empty:
                continue
            row = [shape.name]
            for what in ("dump", "restore"):
                ours = without_criu(shape, self.empty, "ours", what)
                other = without_criu(shape, self.empty, "other", what)
                row += [f"{ours:.2f}" if ours else "-", f"{other:.2f}" if other else "-",
                        f"{other / ours:.2f}" if ours and other else "-"]
            rows.append(row)
        return "\n" + self._table("The same minus the time of a process with almost no memory, s",
                                  ["shape", "dump", "other", "speed-up", "restore (sequential)",
                                   "other", "speed-up"], rows)

    def _restores(self) -> str:
        """The parallel restore hides the shorter of contents and CRIU's own work, at best."""
        return self._by_shape("Restore in parallel with CRIU's own work, and not, s", [
            (name, key.format(cache), 2) for cache in ("warm", "cold") for name, key in (
                (f"parallel, {cache}", "parallel {} s"), ("sequential", "sequential {} s"),
                ("saved", "saved {}"), ("at best", "can save {}"))])

    def _memory(self) -> str:
        return self._by_shape("Peak use of GTT on a GPU, MiB", [
            ("dump", "ours dump_peak", 0), ("restore", "ours restore_peak", 0),
            ("other's dump", "other dump_peak", 0), ("restore", "other restore_peak", 0)])

    def _increments(self) -> str:
        one = self.incremental
        if not one:
            return ""
        return (f"A second dump, {one['dirty']:.0%} of the bytes rewritten: "
                f"{one['second_bytes'] / MIB:.1f} of {one['first_bytes'] / MIB:.1f} MiB written, "
                f"{one['saved']:.1%} saved; {one['second_seconds']:.2f} s after "
                f"{one['first_seconds']:.2f} s\n")

    def _frozen(self) -> str:
        rows = [[f"{dirty:.0%}", *(series.text() for series in self._pauses(dirty))]
                for dirty in (0, 0.05, 0.5)]
        return self._table("GPU work paused by a dump, 16 x 128 MiB, s",
                           ["dirtied since the pre-dump", "without one", "with it", "saved"], rows)

    def _goal_table(self) -> str:
        words = {True: "met", False: "MISSED", None: "not measured"}
        rows = [[words[goal.met], goal.shape, goal.measured.text(),
                 f"{'at most' if goal.name == 'staging' else 'at least'} {goal.wanted:g} {goal.text}"
                 + (f" (known: {goal.known})" if goal.known and not goal.met else "")]
                for goal in self.goals]
        return self._table("Goals", ["", "shape", "measured", "goal"], rows)

    def _profiles(self) -> str:
        """The distribution of time in runs of median length, for shapes that missed a goal."""
        missed = {goal.shape.split(",")[0] for goal in self.goals if goal.met is False}
        lines = []
        for shape in self.shapes:
            if shape.name.split(",")[0] not in missed:
                continue
            for what in ("dump", "restore"):
                whole = shape.median(f"ours {what} s")
                contents = shape.median(f"ours {what} contents s")
                if whole is None:
                    continue
                lines.append(f"  {shape.name}: {what} {whole:.2f} s, of which contents "
                             f"{contents or 0:.2f} s; the plugin's counters:")
                lines += [f"    {line}" for line in shape.said.get(what, [])]
        if not lines:
            return ""
        if self.samples.is_emulated():
            lines.insert(0, EMULATED)
        return "\n".join(["Where the time went", *lines, ""])

    def _failures(self) -> str:
        lines = [f"  {one['of']}: {one.get('plugin', '')} {one['sample']}: {one['failed']}"
                 for one in self.samples.failures()]
        return "\n".join(["Failures", *lines, ""]) if lines else ""

    # Data

    def json(self) -> dict[str, object]:
        return {
            "machine": self.samples.machine, "complete": self.samples.complete,
            "shapes": [{"name": shape.name, **shape.facts,
                        "series": {name: series.json() for name, series in shape.series.items()
                                   if series.values},
                        "said": shape.said} for shape in self.shapes],
            "incremental": self.incremental,
            "frozen": {str(dirty): [series.json() for series in self._pauses(dirty)]
                       for dirty in (0, 0.05, 0.5)},
            "goals": [{"name": goal.name, "shape": goal.shape, "wanted": goal.wanted,
                       "measured": goal.measured.json(), "met": goal.met} for goal in self.goals],
            "failures": self.samples.failures()}

    def curves(self) -> str:
        """For gnuplot: speeds and times by the size of the BOs."""
        columns = ("raw copy_out", "raw write", "ours dump MiB/s", "raw copy_in", "raw read",
                   "ours restore MiB/s")
        lines = ["# KiB of a BO; MiB/s: " + ", ".join(columns)
                 + "; s: our dump, our restore, other's dump, other's restore"]
        walls = ("ours dump s", "ours restore s", "other dump s", "other restore s")
        plain = [shape for shape in self.shapes
                 if shape is not self.empty and shape.facts["gpus"] == 1
                 and not shape.facts["heap_mib"]]
        for shape in sorted(plain, key=lambda one: one.facts["kib"]):
            values = [shape.median(name) for name in (*columns, *walls)]
            lines.append(" ".join([str(shape.facts["kib"]), *(f"{value:.4f}" if value else "NaN"
                                                              for value in values),
                                   f'"{shape.name}"']))
        return "\n".join(lines) + "\n"


PLOT = """
set terminal pngcairo size 1200,900 font 'sans,11'
set output '{png}'
set multiplot layout 2,2 title '{title}'
set logscale x 2
set xlabel 'KiB of a BO'
set grid
set key top left
set yrange [0:*]
set ylabel 'MiB/s'
set title 'Dump: contents'
plot '{data}' using 1:2 with linespoints title 'SDMA alone', \\
     '' using 1:3 with linespoints title 'file alone', \\
     '' using 1:4 with linespoints lw 2 title 'dump'
set title 'Restore: contents'
plot '{data}' using 1:5 with linespoints title 'SDMA alone', \\
     '' using 1:6 with linespoints title 'file alone', \\
     '' using 1:7 with linespoints lw 2 title 'restore'
set ylabel 's'
set title 'criu dump'
plot '{data}' using 1:8 with linespoints lw 2 title 'ours', \\
     '' using 1:10 with linespoints title 'other plugin'
set title 'criu restore'
plot '{data}' using 1:9 with linespoints lw 2 title 'ours', \\
     '' using 1:11 with linespoints title 'other plugin'
unset multiplot
"""


def plot(directory: Path, title: str) -> str:
    """The reason why there are no curves; empty if there are."""
    if not shutil.which("gnuplot"):
        return "no curves.png: there is no gnuplot here"
    script = PLOT.format(png=directory / "curves.png", data=directory / "curves.dat",
                         title=title.replace("'", ""))
    done = subprocess.run(["gnuplot"], input=script, text=True, stderr=subprocess.PIPE, check=False)
    return "" if done.returncode == 0 else f"no curves.png: {done.stderr.strip()}"


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    samples = Samples(Path(sys.argv[1]).read_text().splitlines())
    if not samples.shapes:
        print("there is no sample", file=sys.stderr)
        return 1
    directory = Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    report = Report(samples)
    (directory / "table.txt").write_text(report.text())
    (directory / "table.json").write_text(json.dumps(report.json(), indent=2) + "\n")
    (directory / "curves.dat").write_text(report.curves())
    print(report.text())
    problem = plot(directory, f"Linux {samples.machine.get('kernel')}")
    if problem:
        print(problem)
    print(report.summary())
    return report.status()


if __name__ == "__main__":
    sys.exit(main())
