# SPDX-License-Identifier: GPL-2.0
import unittest

from .report import Spent, report, slowest_tests, time_table
from .results import Results


class Report(unittest.TestCase):
    def test_lists_rungs_by_their_cpu_time_and_adds_them_up(self):
        lines = time_table([Spent("small", 50, 10, True), Spent("large", 40, 70, False)], 55)
        self.assertTrue(lines[1].startswith("large"))
        self.assertTrue(lines[1].endswith("FAILED"))
        self.assertTrue(lines[2].startswith("small"))
        self.assertIn("80 s", lines[3])
        self.assertIn("55 s", lines[3])

    def test_shows_the_slowest_tests(self):
        times = [(float(number), f"test {number}") for number in range(20)]
        lines = slowest_tests(Results(times=times))
        self.assertEqual(10, len(lines))
        self.assertIn("test 19", lines[0])

    def test_ends_with_the_closing_line(self):
        text = report([Spent("a", 1, 1, True)], Results(3, ["a: b"], ["a: c # why"]), 1)
        self.assertEqual("3 passed, 1 failed, 1 skipped", text.splitlines()[-1])
        self.assertIn("FAILED   a: b", text)
        self.assertIn("skipped  a: c # why", text)
