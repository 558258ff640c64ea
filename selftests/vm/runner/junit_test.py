# SPDX-License-Identifier: GPL-2.0
"""Tests scripts/lib/junit-to-tap.py, which judges the skips of unit tests as this runner does."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "lib" / "junit-to-tap.py"
SKIPPED = ('<testcase name="{}" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
           '<system-out>x.cc:1: Skipped\n{}\n</system-out></testcase>')


class JunitTest(unittest.TestCase):
    def lines(self, *cases: str, skips: str = "", all_ran: bool = False) -> list[str]:
        with tempfile.TemporaryDirectory() as work:
            report, listed = Path(work, "junit.xml"), Path(work, "unit.skips")
            report.write_text(f"<testsuite>{''.join(cases)}</testsuite>")
            listed.write_text(skips)
            command = [sys.executable, "-B", str(SCRIPT), "--skips", str(listed), str(report)]
            return subprocess.run(command + ["--all"] * all_ran, capture_output=True, text=True,
                                  check=True).stdout.splitlines()

    def test_passes_and_failures(self) -> None:
        self.assertEqual(self.lines('<testcase name="A.b" status="run"/>',
                                    '<testcase name="A.c" status="fail"/>'),
                         ["ok A.b # 0.0 s", "not ok A.c"])

    def test_a_program_that_was_not_built_fails(self) -> None:
        case = '<testcase name="a" status="disabled"><skipped message="Disabled"/></testcase>'
        self.assertEqual(self.lines(case, skips="skip a # Disabled"), ["not ok a"])

    def test_a_skip_must_be_expected(self) -> None:
        case = SKIPPED.format("A.b", "no GPU: none")
        self.assertEqual(self.lines(case), ["not ok A.b # skipped, and is not in unit.skips: "
                                            "no GPU: none"])
        self.assertEqual(self.lines(case, skips="skip A.b # no GPU: ..."),
                         ["skip A.b # no GPU: none"])

    def test_what_is_expected_and_did_not_run_is_missed_if_all_ran(self) -> None:
        case = '<testcase name="A.b" status="run"/>'
        self.assertEqual(self.lines(case, skips="skip c # r"), ["ok A.b # 0.0 s"])
        self.assertEqual(len(self.lines(case, skips="skip c # r", all_ran=True)), 2)


if __name__ == "__main__":
    unittest.main()
