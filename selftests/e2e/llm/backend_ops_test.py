# SPDX-License-Identifier: GPL-2.0
import stat
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import backend_ops
from backend_ops import Case, Known, choose, parse, run_until_end, sample

# Replaces llama.cpp's program, which runs cases in its own order: COS fails, and EXP ends it.
PROGRAM = """#!/usr/bin/python3
import os, sys
print('"op_name","op_params","supported"')
if sys.argv[1] == "support":
    for name in ("SIN", "ABS", "COS", "EXP"):
        print(f'"{name}","type=f32,ne=[4,2]","1"')
    sys.exit(0)
for case in ("ABS", "COS", "EXP", "SIN"):
    if f"{case}(type=f32,ne=[4,2])" not in sys.argv[-1]:
        continue
    print(f"  {case}(type=f32,ne=[4,2]): ", end="", flush=True)
    if case == "EXP":
        os.abort()
    print("[COS] NMSE = 2.0 > 1.0 \\033[1;31mFAIL\\033[0m" if case == "COS" else "\\033[1;32mOK\\033[0m")
"""


class BackendOps(unittest.TestCase):
    def run_with(self, known: str) -> int:
        with tempfile.TemporaryDirectory() as directory:
            program, file = Path(directory) / "program", Path(directory) / "known"
            program.write_text(PROGRAM)
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            file.write_text(known)
            return backend_ops.main([str(program), "ROCm0", str(file), "60"])

    def test_the_smallest_case_of_each_combination_of_types_is_chosen(self) -> None:
        small, large = Case("ADD", "type=f32,ne=[4,2]"), Case("ADD", "type=f32,ne=[8,2]")
        other = Case("ADD", "type=f16,ne=[8,2]")
        self.assertEqual(choose([large, small, other]), [small, other])

    def test_a_case_that_takes_too_long_is_not_chosen(self) -> None:
        self.assertEqual(choose([Case("ADD", "type=f32,ne=[100000,100000]")]), [])

    def test_the_parts_of_a_sample_are_all_cases(self) -> None:
        cases = [Case("ADD", f"ne=[{size}]") for size in range(7)]
        parts = []
        for seed in range(3):
            with mock.patch.dict("os.environ", CRIU_TEST_SAMPLE="3", CRIU_TEST_SEED=str(seed)):
                parts += sample(cases)
        self.assertEqual(set(parts), set(cases))
        self.assertEqual(len(parts), len(cases))

    def test_a_program_that_is_silent_ends_at_its_time(self) -> None:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            program = Path(directory) / "program"
            program.write_text("#!/bin/sh\nexec sleep 60\n")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            self.assertEqual(run_until_end(str(program), "ROCm0", [Case("ADD", "ne=[1]")], 0.2), {})
        self.assertLess(time.monotonic() - begin, 30)

    def test_results_are_read_without_their_colors(self) -> None:
        self.assertEqual(parse("  ADD(ne=[1]): \033[1;32mOK\033[0m\n"), ("ADD(ne=[1])", "ok"))
        self.assertEqual(parse("  ADD(ne=[1]): not supported [ROCm0]\n"),
                         ("ADD(ne=[1])", "not supported"))
        self.assertEqual(parse("  Backend name: ROCm0\n"), None)

    def test_what_does_not_pass_has_to_be_known(self) -> None:
        self.assertEqual(self.run_with("COS.*FAIL # rounds\n^EXP.*ends # stops\n"), 0)
        self.assertEqual(self.run_with("COS.*FAIL # rounds\n"), 1)

    def test_what_is_known_has_to_occur(self) -> None:
        self.assertEqual(self.run_with("COS # rounds\nEXP # stops\nSIN # no\n"), 1)
        self.assertEqual(Known("# text\nA # b\n").unseen(), ["A"])


if __name__ == "__main__":
    unittest.main()
