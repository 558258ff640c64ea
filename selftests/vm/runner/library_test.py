# SPDX-License-Identifier: GPL-2.0
"""Tests guest/library with programs that behave as one of GoogleTest, one of Thrust, and piglit."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from guest.library_frameworks import FRAMEWORKS, PASSED, Verdicts

from .ktap import FAIL, PASS, Parser

LIBRARY = Path(__file__).resolve().parents[1] / "guest" / "library"
# Runs the cases of its filter in its own order, as GoogleTest does.
PROGRAM = """#!/usr/bin/env python3
import os, sys, time
cases = ["A/0.Good", "A/0.Wrong", "A/0.Dies", "A/0.Hangs", "A/1.Good", "A/1.Skips", "A/1.Late"]
if "--gtest_list_tests" in sys.argv:
    sys.exit(1) if "Lists" in os.environ.get("BAD", "") else None
    print("Running main()")
    cases.append("A/1.DISABLED_Never")
    for suite in ("A/0.", "A/1."):
        print(suite, " # TypeParam = x", sep="")
        for case in cases:
            print("  " + case.removeprefix(suite)) if case.startswith(suite) else None
    sys.exit()
wanted = open(sys.argv[1].split("=")[1]).readline().strip().split("=")[1].split(":")
assert os.environ["KIND"] == "a b"
bad = os.environ.get("BAD", "Wrong Dies Hangs").split()
for case in cases:
    if case not in wanted:
        continue
    print("[ RUN      ]", case, flush=True)
    print(os.environ.get("SAYS", ""), flush=True)
    kind = case.split(".")[1]
    if kind in bad and kind == "Dies":
        print("HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION", flush=True)
        os.abort()
    if kind in bad and kind == "Hangs":
        time.sleep(60)
    if kind in bad and kind == "Wrong":
        print("./x.cc:7: Failure\\nExpected equality\\n  1\\n  2")
        print("[  FAILED  ] " + case + ", where TypeParam = x (3 ms)", flush=True)
    elif kind == "Skips":
        print("[  SKIPPED ] " + case + " (0 ms)", flush=True)
    else:
        print("[       OK ] " + case + " (3 ms)", flush=True)
print("[  FAILED  ] A/0.Wrong, where TypeParam = x")
"""
# With the driver of Thrust's tests.
THRUST = """#!/usr/bin/env python3
import os, sys, time
cases = ["TestGood", "TestWrong", "TestHangs", "TestBig", "TestLate", "Test<unsigned int>"]
if sys.argv[1] == "--list":
    print("\\n".join(cases))
    sys.exit()
for case in cases:
    if case not in sys.argv:
        continue
    print("Running ", case, "...", sep="", end="\\r", flush=True)
    if case == "TestHangs":
        time.sleep(60)
    print("[FAILURE]           " if case == "TestWrong" else "[PASS]  2.9 ms ", case, flush=True)
print("Totals: 1 failures, 0 known failures, 0 errors, and 2 passes.")
"""
# piglit's runner. Its tests have sessions of their own.
PIGLIT = """#!/usr/bin/env python3
import os, subprocess, sys
cases = ["api@build", "api@read and write", "program@wrong", "program@skips", "program@hangs"]
if sys.argv[1:] == ["print-cmd", "--format={name}", "cl"]:
    print("\\n".join(cases))
    sys.exit()
file = next(word for word in sys.argv if word.startswith("--test-list=")).split("=")[1]
for case in open(file).read().splitlines():
    name = case.replace("@", "/")
    print("running:", name, "  ", flush=True)
    if "hangs" in case:
        subprocess.run(["sh", "-c", "echo $$ >$SCRATCH/hangs; exec sleep 60"], start_new_session=True)
    status = next((word for word in ("wrong", "skips") if word in case), "pass")
    print({"wrong": "fail", "skips": "skip"}.get(status, status) + ":", name, "  ", flush=True)
"""

# How a case begins, and passes.
CASES = {"program": ("[ RUN      ] a.b", "[       OK ] a.b (3 ms)"),
         "thrust": ("Running a.b...\r", "[PASS]  2.9 ms a.b"), "piglit": ("running: a.b  ", "pass: a.b  ")}


class FrameworksTest(unittest.TestCase):
    def test_each_reads_only_its_own_lines(self) -> None:
        for name, (begin, end) in CASES.items():
            verdicts = Verdicts(FRAMEWORKS[name].read_line)
            foreign = [line for other, lines in CASES.items() if other != name for line in lines]
            self.assertEqual([verdicts.line(line) for line in (begin, *foreign)],
                             ["a.b"] + [None] * len(foreign), name)
            self.assertEqual((verdicts.line(end), verdicts.of), ("a.b", {"a.b": PASSED}), name)


class LibraryTest(unittest.TestCase):
    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.top = Path(work.name)
        for name, text in {"a_test": PROGRAM, "thrust_test": THRUST, "piglit": PIGLIT}.items():
            program = self.top / name
            program.write_text(text)
            program.chmod(0o755)
        node = self.top / "nodes" / "1"
        node.mkdir(parents=True)
        (node / "properties").write_text("gfx_target_version 90402\nnum_xcc 2\n")

    def run_list(self, *lines: str, seconds: int = 30, **environment: str) -> dict[str, tuple[str, str]]:
        (self.top / "list").write_text("\n".join([f"program {self.top}/a_*", "set KIND=a b", *lines]) + "\n")
        done = subprocess.run([LIBRARY, self.top / "list", str(seconds)], capture_output=True, text=True,
                              check=False, env=os.environ | {
                                  "SCRATCH": str(self.top / "scratch"), "CASE_SECONDS": "4",
                                  "TOPOLOGY": str(self.top / "nodes"), "KMSG": str(self.top / "kmsg"),
                                  **environment})
        self.status, self.output = done.returncode, done.stdout
        self.assertEqual(done.stderr, "")
        parser = Parser()
        parser.feed(done.stdout.splitlines())
        results = parser.finish()
        self.assertEqual(parser.problems, [])
        return {one.name.removeprefix("a_test/A/"): (one.outcome, one.reason) for one in results}

    def test_a_case_that_fails_ends_the_program_or_hangs_hides_no_other(self) -> None:
        results = self.run_list()
        self.assertEqual(results.pop("0.Wrong"), (FAIL, "failed: x.cc:7: Expected equality 1 2"))
        self.assertEqual(results.pop("0.Dies"), (FAIL, "ended: HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION"))
        self.assertEqual(results.pop("0.Hangs"), (FAIL, "ended: takes longer than 4 s"))
        self.assertEqual({name: outcome for name, (outcome, _) in results.items()},
                         {"0.Good": PASS, "1.Good": PASS, "1.Late": PASS})
        self.assertEqual(self.status, 1)
        self.assertIn("# gfx942, 2 XCCs", self.output)
        self.assertIn("1 skipped by themselves", self.output)

    def test_a_line_of_another_framework_begins_no_case(self) -> None:
        for line in ("running: x", "Running x..."):
            results = self.run_list(BAD="none", SAYS=line)
            self.assertEqual({outcome for outcome, _ in results.values()}, {PASS}, line)
            self.assertEqual(len(results), 6, line)

    def test_the_kernel_log_gets_a_mark_of_each_case_that_does_not_pass(self) -> None:
        for bad in ("Wrong", "Dies"):
            self.run_list(f"known a_test/A/0.{bad} # x", BAD=bad)
            self.assertEqual((self.top / "kmsg").read_text(), f"vm: tested a_test/A/0.{bad}\n")

    def test_known_cases_fail_nothing_until_they_pass(self) -> None:
        known = ("known a_test/*.Wrong # x", "known a_test/*.Dies on gfx942 # y",
                 "known a_test/*.Hangs on gfx90a # z")
        self.assertEqual(self.run_list(*known, BAD="Wrong Dies")["0.Hangs"][0], PASS)
        self.assertEqual(self.status, 0)
        self.assertEqual(self.run_list(*known, BAD="Dies")["0.Wrong"],
                         (FAIL, "passed, but is known not to"))
        unstable = "unstable a_test/*.Wrong # x"
        self.assertEqual(self.run_list(unstable, BAD="none")["0.Wrong"][0], PASS)
        self.assertNotIn("0.Wrong", self.run_list(unstable, BAD="Wrong"))
        self.assertEqual(self.status, 0)

    def test_an_interrupted_run_goes_on(self) -> None:
        results = self.run_list(BAD="Hangs", CASE_SECONDS="50", seconds=4)
        self.assertEqual(set(results), {"0.Good", "0.Wrong", "0.Dies"})
        self.assertIn("4 left", self.output)
        # What has passed does not run again: it would fail.
        results = self.run_list(BAD="Wrong Dies")
        self.assertEqual({outcome for outcome, _ in results.values()}, {PASS})
        self.assertEqual(len(results), 6)
        # The next run begins anew.
        self.assertEqual(self.run_list(BAD="Wrong")["0.Wrong"][0], FAIL)

    def test_programs_of_thrust(self) -> None:
        results = self.run_list(f"thrust {self.top}/thrust_test *-*Big*:*Never*", BAD="none")
        self.assertEqual({name.removeprefix("thrust_test/"): PASS if outcome == PASS else reason
                          for name, (outcome, reason) in results.items() if name.startswith("thrust_test/")},
                         {"TestGood": PASS, "TestLate": PASS, "Test<unsigned int>": PASS, "TestWrong": "failed: FAILURE",
                          "TestHangs": "ended: takes longer than 4 s"})

    def test_piglit(self) -> None:
        results = self.run_list(f"piglit {self.top}/piglit api*:prog*", BAD="none")
        self.assertEqual({name.removeprefix("piglit/"): PASS if outcome == PASS else reason
                          for name, (outcome, reason) in results.items() if name.startswith("piglit/")},
                         {"api/build": PASS, "api/read and write": PASS, "program/wrong": "failed: fail",
                          "program/hangs": "ended: takes longer than 4 s"})
        hung = Path("/proc", (self.top / "scratch" / "hangs").read_text().strip(), "cmdline")
        self.assertFalse(hung.exists() and hung.read_bytes(), "its test still runs")

    def test_a_program_that_lists_nothing_fails(self) -> None:
        self.assertEqual(self.run_list(BAD="Lists")["a_test/list"][0], FAIL)

    def test_a_list_without_its_program_is_refused(self) -> None:
        (self.top / "a_test").unlink()
        with self.assertRaisesRegex(AssertionError, "there is no program"):
            self.run_list()
