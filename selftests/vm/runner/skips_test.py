# SPDX-License-Identifier: GPL-2.0
import tempfile
import unittest
from pathlib import Path

from .ktap import FAIL, PASS, SKIP, TestResult
from .lab import Failure
from .skips import SkipList, load, parse

FACTS = {"base": "7.3", "boot": ""}


def listed(*lines: str, **facts: str) -> SkipList:
    return parse("\n".join(lines), "x.skips", {**FACTS, **facts})


class SkipListTest(unittest.TestCase):
    def setUp(self) -> None:
        self.list = listed("# a comment", "", "skip prog/a.b # no such node")

    def judged(self, name: str, outcome: str, reason: str = "") -> tuple[str, str]:
        result = self.list.judge(TestResult(name, outcome, reason))
        return result.outcome, result.reason

    def test_a_listed_skip_stays_one(self) -> None:
        self.assertEqual(self.judged("prog/a.b", SKIP, "no such node"), (SKIP, "no such node"))

    def test_a_skip_that_is_not_listed_fails(self) -> None:
        self.assertEqual(self.judged("prog/a.c", SKIP, "no such node"),
                         (FAIL, "skipped, and is not in x.skips: no such node"))

    def test_a_skip_for_another_reason_fails(self) -> None:
        self.assertEqual(self.judged("prog/a.b", SKIP, "no GPU"),
                         (FAIL, "skipped, but x.skips expects another reason: no GPU"))

    def test_a_listed_skip_that_did_not_happen_fails(self) -> None:
        self.assertEqual(self.judged("prog/a.b", PASS),
                         (FAIL, "passed, but x.skips expects that it skips: no such node"))

    def test_a_reason_may_be_the_beginning_of_one(self) -> None:
        self.list = listed("skip a # no node: ...")
        self.assertEqual(self.judged("a", SKIP, "no node: No such file")[0], SKIP)
        self.assertEqual(self.judged("a", SKIP, "no such node")[0], FAIL)

    def test_a_test_without_a_reason_gets_that_of_the_list(self) -> None:
        self.assertEqual(self.judged("prog/a.b", SKIP, "no reason given"), (SKIP, "no such node"))
        self.assertEqual(self.judged("prog/a.c", SKIP, "no reason given")[0], FAIL)

    def test_other_results_are_left_alone(self) -> None:
        self.assertEqual(self.judged("prog/a.c", PASS), (PASS, ""))
        self.assertEqual(self.judged("prog/a.b", FAIL, "crashed"), (FAIL, "crashed"))

    def test_a_listed_test_that_did_not_run_is_missing(self) -> None:
        self.assertEqual(self.list.missing({"prog/a.b"}), [])
        self.assertEqual(len(self.list.missing({"prog/a.c"})), 1)

    def test_a_line_may_match_several_tests_and_the_first_that_matches_counts(self) -> None:
        self.list = listed("skip prog/a.b # no such node", "skip prog*/* # no GPU")
        self.assertEqual(self.judged("prog/a.b", SKIP, "no such node")[0], SKIP)
        self.assertEqual(self.judged("prog_2/a.b", SKIP, "no GPU")[0], SKIP)
        self.assertEqual(self.judged("prog/a.b", SKIP, "no GPU")[0], FAIL)
        self.assertEqual(self.judged("prog/a.c", PASS)[0], FAIL)
        self.assertEqual(self.judged("other/prog/a.b", SKIP, "no GPU")[0], FAIL)
        self.assertEqual(self.list.missing({"prog/a.b"}), [])
        self.assertEqual(len(self.list.missing({"prog_2/a.b"})), 1)

    def test_conditions_select_lines(self) -> None:
        line = "skip a when base=6.12|6.13 boot=reset # r"
        self.assertEqual(len(listed(line, base="6.12", boot="reset").skips), 1)
        self.assertEqual(len(listed(line, base="7.3", boot="reset").skips), 0)
        self.assertEqual(len(listed(line, base="6.12").skips), 0)
        both = ("skip a when base=6.12 # old", "skip a when base=7.3 # new")
        self.assertEqual([skip.reason for skip in listed(*both).skips], ["new"])

    def test_a_condition_may_be_that_the_payload_lacks_something(self) -> None:
        line = "skip a when missing=plugin/4.1 # r"
        for there, number in ((True, 0), (False, 1)):
            self.assertEqual(len(parse(line, "x.skips", FACTS, lambda _: there).skips), number)

    def test_an_invalid_list_is_refused(self) -> None:
        for lines in (["skip a"], ["skip a #"], ["fail a # r"], ["skip a when moon=full # r"],
                      ["skip a when base # r"], ["skip a # r", "skip a # s"]):
            with self.assertRaises(Failure, msg=str(lines)):
                listed(*lines)

    def test_without_a_file_nothing_may_skip(self) -> None:
        with tempfile.TemporaryDirectory() as work:
            nothing = load(Path(work) / "x.skips", FACTS)
        self.assertEqual(nothing.judge(TestResult("a", SKIP, "r")).outcome, FAIL)


class SuitesTest(unittest.TestCase):
    def test_each_list_in_the_tree_belongs_to_a_suite_and_can_be_read(self) -> None:
        directory = Path(__file__).resolve().parents[1]
        for file in directory.glob("*/*.skips"):
            suites = [suite for suite in file.parent.glob("*.suite")
                      if f"name = {file.stem}\n" in suite.read_text()]
            self.assertEqual(len(suites), 1, file)
            load(file, {"base": "7.3", "boot": "", "kernel": "packaged"})


if __name__ == "__main__":
    unittest.main()
