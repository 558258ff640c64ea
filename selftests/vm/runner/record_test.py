# SPDX-License-Identifier: GPL-2.0
import contextlib
import io
import tempfile
import unittest
from pathlib import Path

from .ktap import FAIL, PASS, SKIP, TestResult
from .record import Record
from .skips import parse


class RecordTest(unittest.TestCase):
    def finished(self, output: str, status: int | None, skips: str = "",
                 problems: tuple[str, ...] = (), repeat: str = "") -> list[TestResult]:
        with tempfile.TemporaryDirectory() as work, contextlib.redirect_stdout(io.StringIO()) as said:
            record = Record("suite", True, Path(work) / "log", False, parse(skips, "s.skips", {}),
                            repeat)
            record(output.encode())
            results = record.finish(status, list(problems))
        self.shown = said.getvalue()
        return results

    def test_results_are_those_of_the_output(self) -> None:
        results = self.finished("1..2\nok 1 a\nnot ok 2 b\n", 1)
        self.assertEqual([(r.name, r.outcome) for r in results], [("a", PASS), ("b", FAIL)])

    def test_an_unexpected_skip_fails_at_once_and_at_the_end(self) -> None:
        result, = self.finished("1..1\nok 1 a # SKIP no GPU\n", 0)
        self.assertEqual(result.outcome, FAIL)
        self.assertIn("FAIL  suite/a", self.shown)

    def test_an_expected_skip_is_one_and_a_test_that_is_missing_is_a_problem(self) -> None:
        results = self.finished("1..1\nok 1 a # SKIP no GPU\n", 0, "skip a # no GPU\nskip b # no GPU")
        self.assertEqual([r.outcome for r in results], [SKIP, FAIL])
        self.assertIn("there is no such test", results[1].reason)

    def test_in_a_lost_guest_no_test_is_missing(self) -> None:
        results = self.finished("1..2\nok 1 a\n", None, "skip b # no GPU", ("lost",))
        self.assertFalse(any("no such test" in r.reason for r in results))
        self.assertTrue(any(r.reason == "lost" for r in results))

    def test_a_problem_is_a_failure_of_the_run(self) -> None:
        results = self.finished("1..1\nok 1 a\n", 0, problems=("complaint",))
        self.assertEqual([(r.name, r.outcome) for r in results], [("a", PASS), ("run", FAIL)])

    def test_notes_are_comments_in_its_log(self) -> None:
        with tempfile.TemporaryDirectory() as work, contextlib.redirect_stdout(io.StringIO()) as said:
            record = Record("suite", True, Path(work) / "log", False, parse("", "s.skips", {}))
            record(b"1..1\nok 1 a\n")
            record.note(["     2  x"])
            record.finish(0, [])
            self.assertEqual((Path(work) / "log").read_text(), "1..1\nok 1 a\n#      2  x\n")
        self.assertIn("     2  x\n", said.getvalue())

    def test_failures_name_what_repeats_them(self) -> None:
        results = self.finished("1..2\nok 1 a\nnot ok 2 b\n", 1, problems=("complaint\nmore",),
                                repeat="SEED=7")
        self.assertEqual([r.reason for r in results],
                         ["", "(with SEED=7)", "complaint (with SEED=7)\nmore"])
        self.assertIn("FAIL  suite/b", self.shown)
        self.assertIn("SEED=7", self.shown)


if __name__ == "__main__":
    unittest.main()
