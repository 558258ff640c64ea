# SPDX-License-Identifier: GPL-2.0
import tempfile
import unittest
from pathlib import Path

from . import results

NAMES = ["guest", "guest-6.12", "module", "module-6.12"]


def of(*lines):
    found = results.Results()
    for line in lines:
        found.add_line(line, "rung")
    return found


class Lines(unittest.TestCase):
    def test_are_counted_by_their_first_word(self):
        found = of("ok a", "ok b # 3 s", "not ok c # why", "skip d # no GPU", "# ok e", "okay")
        self.assertEqual("2 passed, 1 failed, 1 skipped", found.closing_line())
        self.assertEqual(["rung: c # why"], found.failures)
        self.assertEqual(["rung: d # no GPU"], found.skips)

    def test_the_closing_line_names_skips_only_where_there_are_any(self):
        self.assertEqual("1 passed, 0 failed", of("ok a").closing_line())

    def test_the_time_of_a_passed_test_is_kept(self):
        found = of("ok a # 12 s", "ok b: of two # 0.5 s", "ok c # 5 seconds", "not ok d # 7 s")
        self.assertEqual([(12.0, "rung: a"), (0.5, "rung: b: of two")], found.times)

    def test_printed_times_of_passed_tests_are_kept(self):
        found = of()
        found.add_printed_times(["  pass  igt/amd_bo  (2.5 s)  # note", "  FAIL  igt/x  (3.0 s)",
                                 "  pass  igt/untimed", "guest 1"], "guest")
        self.assertEqual([(2.5, "guest: igt/amd_bo")], found.times)

    def test_no_results_are_not_good(self):
        self.assertFalse(of().good())
        self.assertFalse(of("ok a", "not ok b").good())
        self.assertTrue(of("skip a # why").good())


class Files(unittest.TestCase):
    def test_belong_to_the_longest_name(self):
        for stem, name in [("guest", "guest"), ("guest-igt", "guest"), ("guest-6.12-igt", "guest-6.12"),
                           ("module-6.12", "module-6.12"), ("other", None), ("guests", None)]:
            self.assertEqual(name, results.owner(stem, NAMES), stem)

    def test_of_a_rung_are_found(self):
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            for stem in ("guest-igt", "guest-6.12-igt", "guest-e2e"):
                results.append(root, stem, "ok test")
            found = results.files_of("guest", NAMES, root)
            self.assertEqual({"guest-igt", "guest-e2e"}, {file.stem for file in found})
            self.assertEqual(2, results.read(found).passed)
