# SPDX-License-Identifier: GPL-2.0
from __future__ import annotations

import unittest

from refusals import Text, Texts, faults, listed, reasons

QUEUE = """
/* "a comment" */
#include "header.h"
static const char *fault(void)
{
	if (a)
		return "id";
	return b ? "occurs "
		   "twice" : NULL;
}
static int check(void) { return criu_refuse(call, -ENODEV, "GPU %u has no queue %u", a, b); }
static const struct criu_kind kind = { .subject = "queue %llu" };
"""
EVENT = """
static const char *fault(void) { return "id"; }
static const struct criu_kind kind = { .subject = "event %llu" };
"""
COMMON = """
int refuse(void)
{
	pr_warn("criu: %s refused\\n", name);
	snprintf(reason, size, "%s%pV", name, &vaf);
	return criu_refuse(call, error, "it occurs: %s", what);
}
const char *what(void) { return "a queue of the debugger"; }
"""
IN_QUEUE, IN_EVENT = Text("queue_check.c", "id"), Text("event.c", "id")


class TextsTest(unittest.TestCase):
    def setUp(self) -> None:
        queue, kind = QUEUE.rsplit("static const", 1)
        self.texts = Texts([("queue_check.c", queue), ("queue.c", "static const" + kind),
                            ("event.c", EVENT), ("common.c", COMMON)])

    def reached(self, reason: str) -> list[str]:
        return sorted(text.text for text in self.texts.reached_by(reason))

    def test_are_the_literals_that_make_reasons(self) -> None:
        self.assertEqual(sorted(text.text for text in self.texts.all), [
            "GPU %u has no queue %u", "a queue of the debugger", "id", "id", "it occurs: %s",
            "occurs twice"])

    def test_match_what_their_format_prints(self) -> None:
        self.assertEqual(self.reached("queue 3: GPU 7 has no queue 12"), ["GPU %u has no queue %u"])
        self.assertEqual(self.reached("queue 3: GPU x has no queue 12"), [])

    def test_include_the_text_within_a_text(self) -> None:
        self.assertEqual(self.reached("it occurs: a queue of the debugger"),
                         ["a queue of the debugger", "it occurs: %s"])

    def test_have_no_part_that_all_refusals_of_state_have(self) -> None:
        self.assertEqual(self.reached("cannot carry: a queue of the debugger"),
                         ["a queue of the debugger"])

    def test_of_two_that_are_the_same_the_subject_decides(self) -> None:
        self.assertEqual(self.texts.reached_by("queue 3: id"), {IN_QUEUE})
        self.assertEqual(self.texts.reached_by("event 3: id"), {IN_EVENT})

    def test_match_as_a_whole(self) -> None:
        self.assertEqual(self.reached("queue 3: id of another"), [])


class LogTest(unittest.TestCase):
    def test_has_the_reasons_of_the_guest(self) -> None:
        self.assertEqual(list(reasons(["ok 1 refused: a", "# refused: queue 3: id\r\n"])), ["queue 3: id"])


class ListTest(unittest.TestCase):
    TEXTS = Texts([("event.c", EVENT)])

    def test_a_text_that_nothing_reaches_is_a_fault(self) -> None:
        self.assertEqual(faults(self.TEXTS, set(), {}), ['no test reaches "event.c: id"'])

    def test_a_reason_in_the_list_excuses_it(self) -> None:
        self.assertEqual(faults(self.TEXTS, set(), listed(["# why", "event.c: id | other GPU\n"])), [])

    def test_a_line_without_a_reason_does_not(self) -> None:
        self.assertEqual(len(faults(self.TEXTS, set(), listed(["event.c: id"]))), 1)

    def test_a_line_of_a_text_that_is_gone_is_a_fault(self) -> None:
        self.assertEqual(len(faults(self.TEXTS, {IN_EVENT}, listed(["event.c: gone | once"]))), 1)


if __name__ == "__main__":
    unittest.main()
