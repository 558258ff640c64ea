# SPDX-License-Identifier: GPL-2.0
import random
import tempfile
import unittest
from pathlib import Path

import tidy

DEPENDENCIES = """\
plugin/a.cc.o: #deps 2, deps mtime 5 (VALID)
    ../../plugin/a.cc
    ../../plugin/a.h

plugin/b.cc.o: deps not found
plugin/c.cc.o: #deps 1, deps mtime 5 (STALE)
    ../../plugin/c.cc
"""


def files(*names):
    return [Path(name) for name in names]


class Dependencies(unittest.TestCase):
    def test_are_read_from_ninja(self):
        self.assertEqual({"plugin/a.cc.o": ["../../plugin/a.cc", "../../plugin/a.h"],
                          "plugin/c.cc.o": ["../../plugin/c.cc"]},
                         tidy.parse_dependencies(DEPENDENCIES))


class ClangCommand(unittest.TestCase):
    def test_has_nothing_of_gcc(self):
        self.assertEqual("g++ -include a.h -c b.cc", tidy.clang_command(
            "g++ -fno-gnu-unique -include x/cmake_pch.hxx -include a.h -c b.cc"))


class SingleFiles(unittest.TestCase):
    def test_are_those_that_a_batch_includes(self):
        with tempfile.TemporaryDirectory() as directory:
            batch = Path(directory) / "batch" / "all_1.cc"
            batch.parent.mkdir()
            batch.write_text('#include "plugin/a.cc"\n#include "plugin/b.cc"\n')
            entries = tidy.single_files({"file": str(batch), "command": f"g++ -c {batch}", "output": "x.o"})
        self.assertEqual([{"file": f"{tidy.TOP}/plugin/{name}.cc", "output": "x.o",
                           "command": f"g++ -c {tidy.TOP}/plugin/{name}.cc"} for name in "ab"], entries)

    def test_is_the_file_itself_otherwise(self):
        entry = {"file": "a.cc", "command": "g++ -c a.cc"}
        self.assertEqual([entry], tidy.single_files(entry))


class Choose(unittest.TestCase):
    NEVER = files(*"abcdefgh")
    READS = {file: [Path("all.h")] for file in NEVER} | {Path("a"): files("all.h", "a.h")}

    def choose(self, changed, count=6, seed=1):
        return tidy.choose(self.NEVER, set(changed), self.READS, count, random.Random(seed))

    def test_has_changed_files(self):
        self.assertLessEqual(set(files("b", "g")), self.choose(files("b", "g", "unknown")))

    def test_has_one_user_of_each_changed_header(self):
        self.assertIn(Path("a"), self.choose(files("a.h")))

    def test_fills_up_with_others(self):
        self.assertEqual(6, len(self.choose(files("a"))))
        self.assertEqual(8, len(self.choose([], count=20)))

    def test_has_others_even_if_everything_changed(self):
        for seed in range(20):
            chosen = self.choose(files(*"abcdef"), count=3, seed=seed)
            self.assertEqual(3, len(chosen))

    def test_repeats_itself_with_the_same_seed(self):
        self.assertEqual(self.choose([], 3, 7), self.choose([], 3, 7))

    def test_of_nothing_is_nothing(self):
        self.assertEqual(set(), tidy.choose([], set(), {}, 8, random.Random(1)))
