# SPDX-License-Identifier: GPL-2.0
"""Runs real processes in a temporary checkout that contains only results."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from .rungs import Rung
from .runner import Runner

LIB = Path(__file__).resolve().parents[1]


def shell(name, text, *needs, **options):
    return Rung(name, (("sh", "-c", text),), needs, **options)


def writes(line, file):
    return f"echo '{line}' >>build/results/{file}.tap"


class TheRunner(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.top = Path(directory.name)
        handlers = {number: signal.getsignal(number)
                    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
        self.addCleanup(lambda: [signal.signal(*pair) for pair in handlers.items()])

    def run_rungs(self, *rungs):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = Runner(rungs, self.top, known=[]).run()
        return status, output.getvalue()

    def test_counts_what_rungs_write(self):
        status, output = self.run_rungs(shell("a", writes("ok one", "a")),
                                        shell("b", writes("skip two # why", "b-suite")))
        self.assertEqual(0, status, output)
        self.assertEqual("1 passed, 0 failed, 1 skipped", output.splitlines()[-1])

    def test_does_not_count_what_others_write(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = Runner([shell("a", writes("ok one", "a") + ";" + writes("not ok two", "unit"))],
                            self.top, known=["unit"]).run()
        self.assertEqual((0, "1 passed, 0 failed"), (status, output.getvalue().splitlines()[-1]))

    def test_a_build_is_one_test(self):
        status, output = self.run_rungs(shell("a", "true", builds=True))
        self.assertEqual((0, "1 passed, 0 failed"), (status, output.splitlines()[-1]))

    def test_a_failed_build_fails_what_needs_it(self):
        status, output = self.run_rungs(shell("a", "false", builds=True),
                                        shell("b", "touch started", "a"))
        self.assertEqual((1, "0 passed, 2 failed"), (status, output.splitlines()[-1]))
        self.assertIn("FAILED   b: b # not run: a failed", output)
        self.assertFalse((self.top / "started").exists())

    def test_counts_a_failure_without_a_result(self):
        for text, reason in [("exit 3", "ended early"), ("true", "has no results"),
                             (writes("ok one", "a") + "; exit 1", "ended early")]:
            status, output = self.run_rungs(shell("a", text))
            self.assertEqual(1, status)
            self.assertIn(f"FAILED   a: a # {reason}", output)

    def test_a_failed_test_fails_the_rung_once(self):
        status, output = self.run_rungs(shell("a", writes("not ok one", "a") + "; exit 1"))
        self.assertEqual((1, "0 passed, 1 failed"), (status, output.splitlines()[-1]))

    def test_runs_commands_until_one_fails(self):
        rung = Rung("a", (("sh", "-c", "touch first"), ("false",), ("touch", "third")))
        self.run_rungs(rung)
        self.assertTrue((self.top / "first").exists())
        self.assertFalse((self.top / "third").exists())

    def test_a_program_that_does_not_exist_is_a_failure(self):
        status, output = self.run_rungs(Rung("a", (("./nothing",),), builds=True))
        self.assertEqual((1, "0 passed, 1 failed"), (status, output.splitlines()[-1]))

    def test_removes_old_results(self):
        self.run_rungs(shell("a", writes("not ok old", "a") + ";exit 1"))
        status, _ = self.run_rungs(shell("a", writes("ok new", "a")))
        self.assertEqual(0, status)

    def test_ends_a_rung_at_its_time_limit(self):
        start = time.monotonic()
        status, output = self.run_rungs(shell("a", "sleep 60", limit=1))
        self.assertEqual(1, status)
        self.assertIn("time limit of 1 s", output)
        self.assertLess(time.monotonic() - start, 30)

    def test_measures_cpu_time_of_grandchildren(self):
        busy = f"{sys.executable} -c 'import time\nwhile time.process_time() < 0.3: pass'; true"
        _, output = self.run_rungs(shell("a", f"sh -c \"{busy}\"", builds=True))
        line = next(line for line in output.splitlines() if line.startswith("== a: passed"))
        self.assertNotIn("CPU 0.0 s", line)


PROGRAM = """
import sys
from pathlib import Path
from ladder.rungs import Rung
from ladder.runner import Runner
text = 'trap "touch $0.term; exit 1" TERM; touch $0.up; while :; do sleep 0.05; done'
rungs = [Rung(name, (("sh", "-c", text, name),)) for name in ("a", "b")]
sys.exit(Runner(rungs, Path(sys.argv[1]), known=[]).run())
"""


class Signals(unittest.TestCase):
    def end_by(self, number):
        with tempfile.TemporaryDirectory() as directory:
            top = Path(directory)
            process = subprocess.Popen([sys.executable, "-B", "-c", PROGRAM, directory],
                                       env={**os.environ, "PYTHONPATH": str(LIB)},
                                       stdout=subprocess.DEVNULL)
            deadline = time.monotonic() + 60
            while not all((top / f"{name}.up").exists() for name in "ab"):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            process.send_signal(number)
            self.assertEqual(128 + number, process.wait(60))
            for name in "ab":
                self.assertTrue((top / f"{name}.term").exists(), name)

    def test_sigterm_ends_both_rungs(self):
        self.end_by(signal.SIGTERM)

    def test_sigint_ends_both_rungs(self):
        self.end_by(signal.SIGINT)
