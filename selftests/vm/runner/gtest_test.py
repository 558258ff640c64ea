# SPDX-License-Identifier: GPL-2.0
"""Tests guest/gtest: the parser counts the results that GoogleTest reports."""

import subprocess
import tempfile
import unittest
from pathlib import Path

from .ktap import FAIL, PASS, SKIP, Parser

GTEST = Path(__file__).resolve().parents[1] / "guest" / "gtest"
REPORT = """{"testsuites": [{"name": "Heaps/Engine", "testsuite": [
  {"name": "Writes/0", "result": "COMPLETED"},
  {"name": "Reads/0", "result": "COMPLETED", "failures": [{"failure": "x.cc:1\\nwrong"}]},
  {"name": "Waits/0", "result": "SKIPPED", "skipped": [{"message": "x.cc:2\\nneeds a GPU\\n"}]},
  {"name": "Not/0", "result": "SUPPRESSED"}]}]}"""


class GtestTest(unittest.TestCase):
    def run_program(self, script: str) -> Parser:
        with tempfile.TemporaryDirectory() as work:
            program = Path(work) / "engine_test"
            program.write_text(f"#!/bin/sh\nfile=${{1#--gtest_output=json:}}\n{script}\n")
            program.chmod(0o755)
            done = subprocess.run([GTEST, program], capture_output=True, text=True, check=False)
        self.status = done.returncode
        parser = Parser()
        parser.feed(done.stdout.splitlines())
        return parser

    def test_each_test_is_a_result(self) -> None:
        parser = self.run_program(f"cat >$file <<'END'\n{REPORT}\nEND\nexit 1")
        self.assertEqual([(r.name, r.outcome, r.reason) for r in parser.finish()],
                         [("engine_test/Heaps/Engine.Writes/0", PASS, ""),
                          ("engine_test/Heaps/Engine.Reads/0", FAIL, "x.cc:1"),
                          ("engine_test/Heaps/Engine.Waits/0", SKIP, "needs a GPU")])
        self.assertEqual((parser.problems, self.status), ([], 1))

    def test_a_program_that_dies_fails(self) -> None:
        parser = self.run_program("kill -SEGV $$")
        self.assertEqual([r.outcome for r in parser.finish()], [FAIL])
        self.assertEqual(self.status, 1)


if __name__ == "__main__":
    unittest.main()
