# SPDX-License-Identifier: GPL-2.0
import os
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from . import usage
from .runner import Runner

# Replaces the program that runs a scenario: a scenario of the test is a shell command.
ONE = """#!/bin/sh
skip() { echo "$*" >"$REASON"; exit 4; }
fail() { echo "$*" >"$REASON"; exit 1; }
. "$(dirname "$0")/$1.sh"
"""


class RunnerTest(unittest.TestCase):
    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.directory = Path(work.name)
        one = self.directory / "one"
        one.write_text(ONE)
        one.chmod(0o755)
        self.lines: list[str] = []
        self.limit = 30.0
        self.runner = Runner(self.directory, self.directory / "scratch", dict(os.environ),
                             self.lines.append, lambda text: self.lines.append(f"kmsg {text}"),
                             clean_up_seconds=0.5, limit=lambda *_: self.limit,
                             measure=lambda: {"memory": str(len(self.in_use))})
        self.in_use: list[str] = []

    def run_scenarios(self, **scenarios: str) -> bool:
        for name, text in scenarios.items():
            (self.directory / f"{name}.sh").write_text(text)
        return self.runner.run_all(list(scenarios))

    def results(self) -> list[str]:
        return [line for line in self.lines if line.startswith(("ok", "not ok"))]

    def test_prints_results_and_output_as_ktap(self) -> None:
        self.assertTrue(self.run_scenarios(a="echo hello; echo wrong >&2; printf unfinished"))
        self.assertEqual(self.lines, ["KTAP version 1", "1..1", "kmsg vm: test a", "# a: hello",
                                      "# a: wrong", "# a: unfinished", "kmsg vm: tested a",
                                      "ok 1 a"])

    def test_continues_after_a_failure_and_reports_it(self) -> None:
        self.assertFalse(self.run_scenarios(a="exit 1", b="exit 0"))
        self.assertEqual(self.results(), ["not ok 1 a # it ended with status 1", "ok 2 b"])

    def test_a_failure_has_its_reason(self) -> None:
        self.assertFalse(self.run_scenarios(a="fail no waves; echo not reached"))
        self.assertEqual(self.results(), ["not ok 1 a # no waves"])

    def test_what_is_in_use_afterwards_fails_the_scenario(self) -> None:
        self.runner.say = lambda line: (self.lines.append(line), self.in_use.append("a BO"))
        with mock.patch.object(usage, "SETTLE_SECONDS", 0):
            self.assertFalse(self.run_scenarios(a="echo hello"))
        self.assertRegex(self.results()[0], "not ok 1 a # in use: memory")

    def test_a_scenario_that_dies_has_failed(self) -> None:
        self.assertFalse(self.run_scenarios(a="kill -KILL $$"))
        self.assertEqual(self.results(), ["not ok 1 a # it ended with status -9"])

    def test_a_skip_has_its_reason(self) -> None:
        self.assertTrue(self.run_scenarios(a="skip no GPU here", b="exit 4"))
        self.assertEqual(self.results(), ["ok 1 a # SKIP no GPU here",
                                          "ok 2 b # SKIP no reason given"])

    def test_at_its_limit_a_scenario_may_clean_up(self) -> None:
        self.limit = 0.3
        self.assertFalse(self.run_scenarios(a="trap 'echo cleaned; exit 143' TERM; sleep 60"))
        self.assertIn("# a: cleaned", self.lines)
        self.assertEqual(self.results(), ["not ok 1 a # time limit of 0 s"])

    def test_what_does_not_end_is_killed(self) -> None:
        self.limit = 0.2
        start = time.monotonic()
        self.assertFalse(self.run_scenarios(a="trap '' TERM; while :; do sleep 1; done"))
        self.assertLess(time.monotonic() - start, 20)

    def test_a_process_that_is_left_behind_does_not_hold_the_next_scenario_up(self) -> None:
        start = time.monotonic()
        self.assertTrue(self.run_scenarios(a="setsid sleep 30 & echo done", b="exit 0"))
        self.assertLess(time.monotonic() - start, 25)
        self.assertEqual(len(self.results()), 2)


if __name__ == "__main__":
    unittest.main()
