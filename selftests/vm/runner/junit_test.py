# SPDX-License-Identifier: GPL-2.0
"""Tests scripts/lib/junit-to-tap.py, which judges the skips of unit tests as this runner does."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "lib" / "junit-to-tap.py"
TEST = '<testcase classname="{}" name="{}" status="run" time="0.02">{}</testcase>'
PASSED = TEST.format("A", "b", "")
FAILED = TEST.format("A", "c", '<failure message="x.cc:1&#x0A;wrong"/>')
SKIPPED = TEST.format("A", "b", '<skipped message="x.cc:1&#x0A;no GPU: none&#x0A;"/>')


class JunitTest(unittest.TestCase):
    def lines(self, *tests: str, program: str = "run", report: bool = True, skips: str = "",
              all_ran: bool = False) -> list[str]:
        """The results of one program, from ctest's status and the report on its tests."""
        with tempfile.TemporaryDirectory() as work:
            Path(work, "junit.xml").write_text(
                f'<testsuite><testcase name="a_test" status="{program}"/></testsuite>')
            Path(work, "reports").mkdir()
            if report:
                Path(work, "reports", "a_test.xml").write_text(
                    f"<testsuites><testsuite>{''.join(tests)}</testsuite></testsuites>")
            listed = Path(work, "unit.skips")
            listed.write_text(skips)
            command = [sys.executable, "-B", str(SCRIPT), "--skips", str(listed), work]
            return subprocess.run(command + ["--all"] * all_ran, capture_output=True, text=True,
                                  check=True).stdout.splitlines()

    def test_passes_and_failures(self) -> None:
        self.assertEqual(self.lines(PASSED, FAILED, program="fail"), ["ok A.b # 0.0 s", "not ok A.c"])

    def test_a_program_without_a_report_is_one_test(self) -> None:
        self.assertEqual(self.lines(report=False), ["ok a_test # 0.0 s"])
        for status in ("fail", "disabled"):
            self.assertEqual(self.lines(report=False, program=status), ["not ok a_test"])

    def test_an_error_after_the_last_test_is_a_failure(self) -> None:
        self.assertEqual(self.lines(PASSED, program="fail"),
                         ["ok A.b # 0.0 s", "not ok a_test # it ended with an error after its tests"])

    def test_a_test_that_the_filter_left_out_is_none(self) -> None:
        self.assertEqual(self.lines(PASSED.replace('"run"', '"notrun"')), [])

    def test_a_skip_must_be_expected(self) -> None:
        self.assertEqual(self.lines(SKIPPED), ["not ok A.b # skipped, and is not in unit.skips: "
                                               "no GPU: none"])
        self.assertEqual(self.lines(SKIPPED, skips="skip A.b # no GPU: ..."),
                         ["skip A.b # no GPU: none"])

    def test_what_is_expected_and_did_not_run_is_missed_if_all_ran(self) -> None:
        self.assertEqual(self.lines(PASSED, skips="skip c # r"), ["ok A.b # 0.0 s"])
        self.assertEqual(len(self.lines(PASSED, skips="skip c # r", all_ran=True)), 2)


if __name__ == "__main__":
    unittest.main()
