# SPDX-License-Identifier: GPL-2.0
import unittest

from .ktap import FAIL, PASS, SKIP, Parser, TestResult, summary


def parse(text: str) -> tuple[list[TestResult], list[str]]:
    parser = Parser()
    parser.feed(text.splitlines())
    return parser.finish(), parser.problems


def outcomes(results: list[TestResult]) -> list[tuple[str, str]]:
    return [(result.name, result.outcome) for result in results]


HARNESS = """TAP version 13
1..3
# Starting 3 tests from 1 test cases.
#  RUN           global.one ...
#            OK  global.one
ok 1 global.one
not ok 2 global.two
ok 3 global.three # SKIP no such feature
# FAILED: 2 / 3 tests passed.
"""


class ParserTest(unittest.TestCase):
    def test_reads_what_kselftest_harness_prints(self) -> None:
        results, problems = parse(HARNESS)
        self.assertEqual(outcomes(results), [("global.one", PASS), ("global.two", FAIL),
                                             ("global.three", SKIP)])
        self.assertEqual(results[2].reason, "no such feature")
        self.assertEqual(problems, [])

    def test_names_leaves_of_nested_output_by_their_parents(self) -> None:
        results, problems = parse("KTAP version 1\n1..2\n"
                                  "  KTAP version 1\n  # Subtest: a\n  1..2\n"
                                  "  ok 1 x\n  ok 2 - y\nok 1 a\nok 2 b\n")
        self.assertEqual(outcomes(results), [("a/x", PASS), ("a/y", PASS), ("b", PASS)])
        self.assertEqual(problems, [])

    def test_names_three_levels(self) -> None:
        results, problems = parse("1..1\n  1..1\n    1..1\n    ok 1 leaf\n"
                                  "  ok 1 middle\nok 1 top\n")
        self.assertEqual(outcomes(results), [("top/middle/leaf", PASS)])
        self.assertEqual(problems, [])

    def test_an_announced_leaf_has_its_path_at_once(self) -> None:
        parser = Parser()
        parser.feed(["1..2", "  # Subtest: a", "  1..1"])
        leaf = parser.line("  ok 1 x")
        assert leaf
        self.assertEqual(leaf.name, "a/x")
        self.assertIsNone(parser.line("ok 1 a"))
        alone = parser.line("ok 2 b")
        assert alone
        self.assertEqual(alone.name, "b")

    def test_counts_a_parent_that_fails_on_its_own(self) -> None:
        results, _ = parse("1..1\n  1..1\n  ok 1 x\nnot ok 1 a # exit status 139\n")
        self.assertEqual(outcomes(results), [("a/x", PASS), ("a", FAIL)])

    def test_does_not_count_a_parent_for_the_failure_of_its_leaf(self) -> None:
        results, _ = parse("1..1\n  1..1\n  not ok 1 x\nnot ok 1 a\n")
        self.assertEqual(outcomes(results), [("a/x", FAIL)])

    def test_the_reason_of_a_failure_is_its_first_assertion(self) -> None:
        results, _ = parse("1..3\n# a.c:9:a:Expected 0 == ret\n# a.c:12:a:more\nnot ok 1 a\n"
                           "not ok 2 b\n# c.c:1:c:Expected 1\nnot ok 3 c # given\n")
        self.assertEqual([result.reason for result in results],
                         ["a.c:9:a:Expected 0 == ret", "", "given"])

    def test_no_test_is_a_problem(self) -> None:
        self.assertEqual(parse("hello\n")[1], ["no test ran"])
        self.assertEqual(parse("")[1], ["no test ran"])

    def test_a_missing_result_is_a_problem(self) -> None:
        results, problems = parse("1..3\nok 1 a\nok 2 b\n")
        self.assertEqual(len(results), 2)
        self.assertEqual(problems, ["2 of 3 planned tests reported a result"])

    def test_a_missing_result_of_a_nested_plan_is_a_problem(self) -> None:
        _, problems = parse("1..1\n  1..2\n  ok 1 x\nok 1 a\n")
        self.assertEqual(problems, ["1 of 2 planned tests reported a result"])

    def test_results_beyond_the_plan_are_a_problem(self) -> None:
        _, problems = parse("1..1\nok 1 a\nok 2 b\n")
        self.assertEqual(problems, ["2 of 1 planned tests reported a result"])

    def test_a_plan_may_come_last(self) -> None:
        self.assertEqual(parse("ok 1 a\nok 2 b\n1..2\n")[1], [])

    def test_several_programs_may_follow_one_another(self) -> None:
        results, problems = parse("TAP version 13\n1..1\nok 1 a\nTAP version 13\n1..1\nok 1 b\n")
        self.assertEqual(outcomes(results), [("a", PASS), ("b", PASS)])
        self.assertEqual(problems, [])

    def test_a_second_plan_before_the_end_of_the_first_is_a_problem(self) -> None:
        _, problems = parse("1..2\nok 1 a\n1..1\nok 1 b\n")
        self.assertEqual(len(problems), 1)

    def test_a_wrong_number_is_a_problem(self) -> None:
        _, problems = parse("1..2\nok 1 a\nok 3 b\n")
        self.assertEqual(problems, ["test b has number 3, expected 2"])

    def test_bailing_out_is_a_problem(self) -> None:
        _, problems = parse("1..2\nok 1 a\nBail out! no device\n")
        self.assertEqual(problems[0], "bailed out: no device")

    def test_an_empty_plan_is_a_skip_only_with_a_reason(self) -> None:
        self.assertEqual(outcomes(parse("1..0 # SKIP no /dev/kfd\n")[0]), [("", SKIP)])
        self.assertIn("an empty plan (1..0)", parse("1..0\n")[1])

    def test_a_failed_test_that_says_skip_is_failed(self) -> None:
        self.assertEqual(outcomes(parse("1..1\nnot ok 1 a # SKIP\n")[0]), [("a", FAIL)])

    def test_a_skip_without_reason_says_so(self) -> None:
        self.assertEqual(parse("1..1\nok 1 a # skip\n")[0][0].reason, "no reason given")

    def test_other_lines_do_not_count(self) -> None:
        self.assertEqual(parse("1..1\nokay then\nok, done\nnot ok at all\nok 1 a\n")[1], [])

    def test_result_lines_are_what_the_summary_counts(self) -> None:
        results, _ = parse(HARNESS)
        self.assertEqual([result.line("s") for result in results],
                         ["ok s/global.one", "not ok s/global.two",
                          "skip s/global.three # no such feature"])
        self.assertEqual(summary(results), "1 passed, 1 failed, 1 skipped")


if __name__ == "__main__":
    unittest.main()
