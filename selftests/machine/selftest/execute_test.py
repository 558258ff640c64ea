# SPDX-License-Identifier: GPL-2.0
import os
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from runner.ktap import FAIL, PASS, SKIP

from . import execute
from .plan import KSELFTEST, SCENARIO, Step

# What run_kselftest.sh of Linux 7.3 prints.
OUTPUT = """TAP version 13
1..1
# overriding timeout to 300
# selftests: amdgpu_criu: query
# TAP version 13
# 1..3
# # Starting 3 tests from 1 test cases.
# #  RUN           query.works ...
# #            OK  query.works
# ok 1 query.works
# # query.c:40:fails:Expected 0 (0) == ret (-22)
# not ok 2 query.fails
# ok 3 query.render # SKIP no such node
# # Totals: pass:1 fail:1 xfail:0 xpass:0 skip:1 error:0
not ok 1 selftests: amdgpu_criu: query # exit=1
# Totals: pass:0 fail:1 xfail:0 xpass:0 skip:0 error:0
"""


class ResultsTest(unittest.TestCase):
    def test_tests_of_a_program_are_nested_in_it(self) -> None:
        found = {test.name: (test.outcome, test.reason) for test in execute.results_of(OUTPUT)}
        self.assertEqual(found, {
            "query/query.works": (PASS, ""),
            "query/query.fails": (FAIL, "query.c:40:fails:Expected 0 (0) == ret (-22)"),
            "query/query.render": (SKIP, "no such node")})

    def test_a_program_that_exceeds_its_time_has_failed(self) -> None:
        text = OUTPUT[:OUTPUT.index("# ok 3")] + "not ok 1 selftests: amdgpu_criu: query # TIMEOUT 3 seconds\n"
        self.assertEqual([test.outcome for test in execute.results_of(text)], [PASS, FAIL])
        text = "# selftests: amdgpu_criu: a\nnot ok 1 selftests: amdgpu_criu: a # TIMEOUT 3 seconds\n"
        self.assertEqual(execute.results_of(text)[0].reason, "TIMEOUT 3 seconds")

    def test_output_that_ends_early_is_a_failure(self) -> None:
        found = execute.results_of("TAP version 13\n1..2\nok 1 a\n")
        self.assertEqual([test.outcome for test in found], [PASS, FAIL])

    def test_scenarios_print_plain_ktap(self) -> None:
        found = execute.results_of("KTAP version 1\n1..1\n# one_gpu: ok 1 not a result\nok 1 one_gpu\n")
        self.assertEqual([(test.name, test.outcome) for test in found], [("one_gpu", PASS)])


class ExecutorTest(unittest.TestCase):
    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.root = Path(work.name)
        for name in ("kselftest", "e2e", "logs"):
            (self.root / name).mkdir()
        (self.root / "kselftest" / "kselftest-list.txt").write_text("amdgpu_criu:query\n")
        self.kernel = execute.KernelLog("/nonexistent")
        self.executor = execute.Executor(self.root, self.root, self.root / "logs", self.kernel,
                                         {"PATH": os.environ["PATH"]})

    def run_step(self, script: str, limit: int = 60, kind: str = SCENARIO) -> execute.StepResult:
        program = self.root / ("e2e/run" if kind == SCENARIO else "kselftest/run_kselftest.sh")
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return self.executor.run(Step(kind, "query", limit, {"NUMBER": "1"}), 1)

    def outcomes(self, *words: object) -> list[str]:
        return [test.outcome for test in self.run_step(*words).tests]

    def test_a_message_of_the_kernel_is_read_as_it_was_written(self) -> None:
        for record, message in ((b"6,1,2,-;vm: allow fault \\x5c(src_id|a\\x09b\n SUBSYSTEM=pci\n", "vm: allow fault \\(src_id|a\tb"),
                                (b"6,1,2,-;\\xe2\\x82\\xac; no more", "\u20ac; no more"), (b"6,1,2,-;", "")):
            self.assertEqual(execute.message_of(record), message)

    def test_what_a_step_leaves_is_ended(self) -> None:
        program = self.root / "bin" / "workload"
        program.parent.mkdir()
        program.write_bytes(Path("/usr/bin/sleep").resolve().read_bytes())
        program.chmod(0o755)
        done = self.run_step(f"setsid {program} 1000 & sleep 0.5; echo 1..1; echo ok 1 $1")
        self.assertEqual([test.outcome for test in done.tests], [PASS, FAIL])
        self.assertRegex(done.tests[1].reason, r"left, and ended now: \d+ workload$")
        self.assertFalse(execute.running_below(self.root))
        self.assertEqual(self.outcomes(f"setsid {program} 1 & sleep 0.5; echo 1..1; echo ok 1 $1"), [PASS])

    def test_a_step_has_results_and_a_log(self) -> None:
        done = self.run_step("echo 1..1; echo ok $NUMBER $1")
        self.assertEqual([(test.name, test.outcome) for test in done.tests], [("query", PASS)])
        self.assertEqual((self.root / done.log).read_text(), "1..1\nok 1 query\n")

    def test_output_that_is_opened_twice_is_in_order(self) -> None:
        done = self.run_step("echo 1..2; echo ok 1 a >>/dev/stdout; echo ok 2 b")
        self.assertEqual([test.name for test in done.tests], ["a", "b"])

    def test_kselftests_run_by_the_script_of_the_kernel(self) -> None:
        done = self.run_step("echo 1..1; echo ok 1 $*", 60, KSELFTEST)
        self.assertEqual(done.tests[0].name, "-t amdgpu_criu:query -o 60")

    def test_a_status_or_silence_is_a_failure(self) -> None:
        self.assertEqual(self.outcomes("echo ok 1 a; exit 3"), [PASS, FAIL])
        self.assertEqual(self.outcomes("exit 0"), [FAIL])

    def test_a_step_ends_at_its_limit_with_all_that_it_started(self) -> None:
        pid = self.root / "pid"
        with mock.patch.object(execute, "CLEAN_UP_SECONDS", 1):
            done = self.run_step(f"(trap '' TERM; sleep 100) & echo $! >{pid}; wait", 0)
        self.assertEqual(done.tests[-1].reason, "time limit of 0 s")
        self.assertFalse(Path("/proc", pid.read_text().strip()).exists())

    def test_an_interrupt_ends_the_step(self) -> None:
        with mock.patch.object(subprocess.Popen, "wait", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                self.run_step("exec sleep 100")

    def test_complaints_of_the_kernel_fail_the_step(self) -> None:
        said = iter([[], ["WARNING: at kfd.c:1"], []])
        with mock.patch.object(self.kernel, "_read", lambda: next(said)):
            done = self.run_step("echo ok 1 a")
        self.assertEqual(done.complaints, ["WARNING: at kfd.c:1"])
        self.assertEqual(done.outcome, FAIL)

    def test_complaints_of_other_graphics_drivers_are_none(self) -> None:
        for text in ("[drm:intel_fbc [i915]] *ERROR* x", "i915 0000:00:02.0: [drm] *ERROR* x"):
            self.kernel._watcher.line(text)
        self.assertEqual(self.kernel.complaints(), [])
        self.kernel._watcher.line("amdgpu 0000:03:00.0: [drm] *ERROR* x")
        self.assertEqual(len(self.kernel.complaints()), 1)

    def test_without_the_kernels_log_there_is_nothing_to_read(self) -> None:
        self.assertFalse(self.kernel.readable)
        self.assertEqual(self.kernel.complaints(), [])


class SessionTest(unittest.TestCase):
    def test_names_of_programs_may_have_any_characters(self) -> None:
        self.assertEqual(execute.session_of("12 (a) b (c) S 1 12 77 0"), 77)

    def test_members_are_those_of_the_session(self) -> None:
        process = subprocess.Popen(["sh", "-c", "sleep 100 & wait"], start_new_session=True)
        deadline = time.monotonic() + 10
        while len(execute.members(process.pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        execute.end_session(process, 10)
        self.assertEqual(execute.members(process.pid), [])


if __name__ == "__main__":
    unittest.main()
