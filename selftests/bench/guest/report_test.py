#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of the arithmetic and the files of report.py."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import report  # noqa: E402

MIB = 1 << 20


def run(seconds: float, contents: float | None = None, **facts: object) -> dict:
    return {"seconds": seconds, "contents": contents, "contents_bytes": 128 * MIB,
            "said": ["saved all"], **facts}


def samples(other: bool = True) -> list[dict]:
    """Three rounds with a BO of 128 MiB: the file is the limit, at 100 MiB/s."""
    found: list[dict] = [{"machine": {"divisor": 16, "kernel": "7.3", "rounds": 3}}]
    for name, kib in (("empty", 4), ("1 x 2 GiB", 128 << 10), ("2048 x 64 KiB", 64)):
        found.append({"shape": name, "count": 1, "kib": kib, "gpus": 1, "heap_mib": 0,
                      "bytes": kib << 10})
        base = 0.0 if name == "empty" else 1.0
        for number, noise in enumerate((0.0, 0.5, 0.1)):
            key = {"of": name, "round": number}
            found.append({"sample": "raw", "rates": {"copy_out": 400, "write": 100, "copy_in": 400,
                                                     "read": 200}, **key})
            found.append(run(1 + base + noise, 1.28, sample="dump", plugin="ours", image_bytes=1,
                             **key))
            for parallel in (True, False):
                found.append(run(1 if parallel else 4, 6.4, sample="restore", plugin="ours",
                                 parallel=parallel, cold=False, **key))
            if other:
                found.append(run(1 + 5 * base, sample="dump", plugin="other", **key))
        found.append({"sample": "memory", "plugin": "ours", "of": name, "dump_peak": 32 * MIB,
                      "restore_peak": 65 * MIB})
    found.append({"shape": "incremental", "count": 1, "kib": 4, "gpus": 1, "heap_mib": 0,
                  "bytes": 4096})
    for number, size in ((1, 1000), (2, 60)):
        found.append(run(1, sample="incremental", number=number, of="incremental", dirty=0.05,
                         image_bytes=size))
    for dirty, ahead, paused in ((0.05, False, 10.0), (0.05, True, 1.5)):
        found.append(run(1, sample="frozen", of="frozen", round=0, dirty=dirty, ahead=ahead,
                         paused=paused))
    found.append({"done": True, "failures": 0})
    return found


def report_of(found: list[dict]) -> report.Report:
    return report.Report(report.Samples(["noise", *map(json.dumps, found)]))


class Numbers(unittest.TestCase):
    def setUp(self) -> None:
        self.report = report_of(samples())
        self.shape = self.report.shapes[1]

    def goal(self, name: str, shape: str = "1 x 2 GiB") -> report.Goal:
        return next(one for one in self.report.goals if (one.name, one.shape) == (name, shape))

    def test_ratio_is_to_the_slower_limit(self) -> None:
        self.assertAlmostEqual(self.shape.median("dump / limit"), 1.0)
        self.assertAlmostEqual(self.shape.median("restore / limit"), 0.1)
        self.assertTrue(self.goal("dump / limit").met)
        self.assertFalse(self.goal("restore / limit").met)

    def test_median_and_spread(self) -> None:
        self.assertEqual(self.shape.series["ours dump s"].text(), "2.10 (2.00..2.50)")
        self.assertEqual(report.Series().text(), "-")

    def test_other_plugin_is_compared_as_a_whole_and_without_criu(self) -> None:
        self.assertAlmostEqual(self.shape.median("speed-up dump"), 6 / 2.1)
        ours = report.without_criu(self.shape, self.report.empty, "ours", "dump")
        other = report.without_criu(self.shape, self.report.empty, "other", "dump")
        self.assertAlmostEqual(other / ours, 5.0)

    def test_parallel_restore_saves(self) -> None:
        self.assertAlmostEqual(self.shape.median("saved warm"), 0.75)
        self.assertTrue(self.goal("parallel").met)
        self.assertIsNone(self.shape.median("saved cold"))

    def test_overlap_saves_the_shorter_part_at_best(self) -> None:
        """Of 8 s contents take 6.4."""
        found = samples()
        for one in found:
            if one.get("sample") == "restore" and not one["parallel"]:
                one["seconds"] = 8
        self.assertAlmostEqual(report_of(found).shapes[1].median("can save warm"), 0.2)

    def test_staging_must_be_at_most(self) -> None:
        self.assertTrue(self.goal("staging", "1 x 2 GiB, dump").met)
        self.assertFalse(self.goal("staging", "1 x 2 GiB, restore").met)

    def test_incremental_saves_bytes(self) -> None:
        self.assertAlmostEqual(self.report.incremental["saved"], 0.94)
        self.assertTrue(self.goal("incremental", "16 x 128 MiB").met)

    def test_a_pre_dump_shortens_the_pause(self) -> None:
        self.assertAlmostEqual(self.goal("frozen", "16 x 128 MiB").measured.median, 0.85)
        self.assertIn("10.00", self.report.text())

    def test_small_bos_have_no_goals_of_large_ones(self) -> None:
        self.assertNotIn("empty", {goal.shape for goal in self.report.goals})

    def test_small_bos_are_compared_with_the_other_plugin(self) -> None:
        goal = self.goal("small speed-up", "2048 x 64 KiB, dump")
        self.assertAlmostEqual(goal.measured.median or 0, 6 / 2.1)
        self.assertNotIn("small speed-up", {goal.name for goal in self.report.goals
                                            if not goal.shape.startswith("2048")})

    def test_a_missed_goal_comes_with_a_profile(self) -> None:
        text = self.report.text()
        self.assertIn("MISSED", text)
        self.assertIn("of which contents 6.40 s", text)
        self.assertIn("saved all", text)
        self.assertNotIn("emulated", text)

    def test_a_missed_goal_on_emulated_cpus_says_so(self) -> None:
        found = samples()
        found[0]["machine"]["cpu"] = "QEMU TCG CPU version 2.5+"
        self.assertIn("CPUs here are emulated", report_of(found).text())


class Gaps(unittest.TestCase):
    def test_without_another_plugin_nothing_is_claimed(self) -> None:
        goals = report_of(samples(other=False)).goals
        self.assertEqual({goal.met for goal in goals if goal.name == "speed-up"}, {None})

    def test_failures_are_reported(self) -> None:
        failed = {"sample": "dump", "plugin": "other", "of": "empty", "round": 0, "failed": "no way"}
        self.assertIn("empty: other dump: no way", report_of([*samples(), failed]).text())

    def test_a_run_that_was_cut_short_says_so(self) -> None:
        self.assertIn("NOT COMPLETE", report_of(samples()[:-1]).text())

    def test_files(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            made = report_of(samples())
            (directory / "curves.dat").write_text(made.curves())
            json.dumps(made.json())
            problem = report.plot(directory, "it's a title")
            if shutil.which("gnuplot"):
                self.assertEqual(problem, "")
                self.assertEqual((directory / "curves.png").read_bytes()[:4], b"\x89PNG")
            else:
                self.assertIn("no gnuplot", problem)


BENCH = """#!/bin/sh
# amdgpu-criu bench --json --rounds 1 --gpu GPU --size MIB --directory DIRECTORY
[ "$6" = 0 ] && speed=10 || speed=4
[ "$8" = 32 ] || exit 1
cat <<END
{"write": {"median": 1}, "read": {"median": 2}, "checksum": {"median": 3}, "gpus": [
  {"copy_out": {"median": $speed}, "copy_in": {"median": 5}, "dump": {"median": 6},
   "restore": {"median": 7}}]}
END
"""


class Goals(unittest.TestCase):
    def test_a_missed_goal_counts_unless_the_cpu_is_emulated(self) -> None:
        slow = [one | ({"seconds": 100.0, "contents": 90.0} if one.get("sample") == "dump" else {})
                for one in samples() if one.get("sample") != "memory"]
        for cpu, missed in (("AMD EPYC", True), ("QEMU TCG CPU version 2.5+", False),
                            ("Intel Core i7 9xx (Nehalem Class Core i7)", False)):
            slow[0]["machine"].update(cpu=cpu, chosen=True)
            made = report.Report(report.Samples([json.dumps(one) for one in slow]))
            self.assertEqual(bool(made.missed()), missed, [goal.name for goal in made.missed()])
            self.assertIn("MISSED", made.text())


    def test_few_rounds_and_goals_without_a_measurement_are_no_success(self) -> None:
        found = samples()
        for one in found:
            if "restore_peak" in one:
                one["restore_peak"] = one["dump_peak"]
            if one.get("sample") == "restore":
                one["contents"] = 0.64
        found += [run(9, sample="restore", plugin="other", parallel=False, cold=False, of=name, round=0)
                  for name in ("1 x 2 GiB", "2048 x 64 KiB")]
        found[0]["machine"].update(rounds=5, other="amdgpu_plugin.so", cpu="QEMU TCG CPU version 2.5+")
        self.assertEqual(report_of(found).status(), 0, report_of(found).text())
        self.assertIn("0 missed or not measured for no known reason and 0 undecided", report_of(found).summary())
        unmeasured = report_of([one for one in found if one.get("sample") != "frozen"])
        self.assertEqual((unmeasured.status(), len(unmeasured.missed())), (report.EXIT_MISSED, 1))
        alone = report_of([one for one in found if one.get("plugin") != "other"])
        self.assertEqual(alone.status(), report.EXIT_MISSED)
        found[0]["machine"].pop("other")
        alone = report_of([one for one in found if one.get("plugin") != "other"])
        self.assertEqual(alone.status(), 0, alone.text())
        self.assertIn(f"(known: {report.NO_OTHER})", alone.text())
        found[0]["machine"]["chosen"] = True
        self.assertEqual(report_of([one for one in found if one.get("sample") != "frozen"]).status(), 0)
        found[0]["machine"]["rounds"] = 4
        self.assertEqual(report_of(found).status(), report.EXIT_UNDECIDED)
        self.assertIn("fewer than 5 rounds", report_of(found).summary())


class Limits(unittest.TestCase):
    """Of measure, which has no name that Python imports."""

    def test_the_limit_of_two_gpus_is_that_of_both(self) -> None:
        loader = importlib.machinery.SourceFileLoader("measure", str(Path(__file__).with_name("measure")))
        measure = importlib.util.module_from_spec(importlib.util.spec_from_loader("measure", loader))
        sys.modules["measure"] = measure
        loader.exec_module(measure)
        with tempfile.TemporaryDirectory() as name:
            measure.PAYLOAD = Path(name)
            tool = Path(name) / "bin" / "amdgpu-criu"
            tool.parent.mkdir()
            tool.write_text(BENCH)
            tool.chmod(0o755)
            rates = measure.raw_limits(measure.Shape("two", 8, 4 << 10, gpus=2), Path(name))
        self.assertEqual(rates["copy_out"], 14)
        self.assertEqual(rates["write"], 2)


if __name__ == "__main__":
    unittest.main()
