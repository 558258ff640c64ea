# SPDX-License-Identifier: GPL-2.0
import contextlib
import io
import os
import signal
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from runner.ktap import FAIL, PASS, TestResult

from . import execute, machine, main, options, plan

GPU = machine.Gpu("0000:03:00.0", "MI210", "gfx90a", 64 << 30, 104)
MACHINE = machine.Machine((GPU,), machine.SERIES, "7.3.4 #1", "Debian", False, {}, {}, criu="4.2.1")
STEPS = tuple(plan.Step(plan.SCENARIO, name, 60) for name in ("one_gpu", "rocr"))


class MainTest(unittest.TestCase):
    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = Path(work.name)
        self.plan = plan.Plan(STEPS, (plan.NotRun("scenario waves_parked", "a reason"),))
        self.machine, self.users, self.outcome, self.uid = MACHINE, [], PASS, 0
        self.signal = signal.SIGTERM
        self.ran: list[str] = []
        self.gpus = [GPU]

    def run_step(self, executor: execute.Executor, step: plan.Step, number: int) -> execute.StepResult:
        self.ran.append(step.test)
        if self.outcome == "interrupt":
            os.kill(os.getpid(), self.signal)
        return execute.StepResult(step, 1, [TestResult(step.test, self.outcome)], "logs/a.log")

    def main(self, *words: str) -> tuple[int, str]:
        """The status, and what was printed."""
        out = io.StringIO()
        executor = execute.Executor
        with contextlib.ExitStack() as stack:
            for target, name, value in (
                    (machine, "read", lambda criu: self.machine), (machine, "users", lambda: self.users),
                    (machine, "gpus", lambda: tuple(self.gpus)), (machine, "output", lambda command: ""),
                    (plan, "make", lambda *_: self.plan), (os, "geteuid", lambda: self.uid),
                    (os.path, "exists", lambda path: True), (main, "GPU_SECONDS", 0),
                    (executor, "run", lambda it, step, number: self.run_step(it, step, number))):
                stack.enter_context(mock.patch.object(target, name, value))
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(contextlib.redirect_stderr(out))
            status = main.main(["--report", str(self.work / "report"), "--scratch", str(self.work), *words])
        return status, out.getvalue()

    def test_says_what_it_does_before_and_writes_a_report(self) -> None:
        status, said = self.main()
        self.assertEqual((status, self.ran), (0, ["one_gpu", "rocr"]))
        self.assertLess(said.index("It may disturb others"), said.index("[1/2] ok scenario one_gpu"))
        self.assertIn("It resets no GPU", said)
        self.assertEqual(sorted(file.name for file in (self.work / "report").iterdir()),
                         ["dmesg.txt", "junit.xml", "logs", "report.json", "report.tar.gz", "report.txt"])
        self.assertEqual([file.name for file in self.work.iterdir()], ["report"])

    def test_a_failure_is_the_status_and_the_next_test_runs(self) -> None:
        self.outcome = FAIL
        status, _ = self.main()
        self.assertEqual((status, self.ran), (1, ["one_gpu", "rocr"]))

    def test_an_interrupt_leaves_a_report(self) -> None:
        self.outcome = "interrupt"
        for self.signal in (signal.SIGTERM, signal.SIGHUP):
            report = self.work / self.signal.name
            status, _ = self.main("--report", str(report))
            self.assertEqual(status, 130)
            self.assertIn("interrupted during scenario one_gpu", (report / "report.txt").read_text())

    def test_without_a_scratch_directory_nothing_begins(self) -> None:
        status, said = self.main("--scratch", "/missing/scratch")
        self.assertEqual((status, self.ran), (2, []))
        self.assertIn("no directory /missing/scratch", said)
        self.assertFalse((self.work / "report").exists())

    def test_a_program_in_the_current_directory_is_found_from_another(self) -> None:
        self.assertEqual(options.parse(["--criu", "./criu"], "1").criu, os.path.abspath("criu"))
        self.assertEqual(options.parse(["--criu", "criu"], "1").criu, "criu")

    def test_gpus_in_use_are_left_alone_without_yes(self) -> None:
        self.users = ["17 Xorg"]
        status, said = self.main()
        self.assertEqual((status, self.ran), (3, []))
        self.assertIn("17 Xorg", said)
        self.assertFalse((self.work / "report").exists())
        status, said = self.main("--yes")
        self.assertEqual((status, self.ran), (0, ["one_gpu", "rocr"]))

    def test_a_gpu_that_is_missing_ends_the_run(self) -> None:
        self.gpus = []
        self.main()
        self.assertEqual(self.ran, ["one_gpu"])
        self.assertIn("a GPU is missing: scenario rocr", (self.work / "report" / "report.txt").read_text())

    def test_without_gpu_interface_criu_or_tests_there_is_nothing_to_test(self) -> None:
        for other in ({"gpus": ()}, {"interface": machine.NONE}, {"criu": ""}):
            self.machine = machine.Machine(**{**vars(MACHINE), **other})
            self.assertEqual(self.main()[0], 4)
        self.machine, self.plan = MACHINE, plan.Plan((), ())
        self.assertEqual(self.main()[0], 4)

    def test_without_root_only_looking_is_possible(self) -> None:
        self.uid = 1000
        self.assertEqual(self.main()[0], 2)
        status, said = self.main("--dry-run")
        self.assertEqual((status, self.ran), (0, []))
        self.assertIn("scenario one_gpu", said)
        self.assertIn("not run: a reason", said)

    def test_a_report_is_never_overwritten(self) -> None:
        (self.work / "report").mkdir()
        (self.work / "report" / "file").touch()
        self.assertEqual(self.main()[0], 2)

    def test_a_report_is_not_written_where_others_can_write(self) -> None:
        directory = self.work / "report"
        directory.mkdir(0o700)
        owner = os.geteuid()
        self.assertEqual(main.report_directory(directory), directory)
        for uid, mode in ((owner + 1, 0o700), (owner, 0o722)):
            (directory / "logs").rmdir()
            directory.chmod(mode)
            with mock.patch.object(os, "geteuid", lambda uid=uid: uid), self.assertRaises(main.Refused):
                main.report_directory(directory)
            (directory / "logs").mkdir()
        link = self.work / "link"
        link.symlink_to(self.work / "missing")
        with self.assertRaises(main.Refused):
            main.report_directory(link)

    def test_what_disturbs_is_named(self) -> None:
        self.plan = plan.Plan((plan.Step(plan.KSELFTEST, "unbind", 60, {}, "takes the GPU"),), ())
        _, said = self.main("--disruptive")
        self.assertIn("kselftest unbind: takes the GPU", said)
        self.assertNotIn("It resets no GPU", said)

    def test_tests_get_nothing_of_the_callers_environment(self) -> None:
        chosen = mock.Mock(criu="criu")
        with mock.patch.dict(os.environ, {"AMDGPU_CRIU_COMPRESS": "lz4", "PATH": "/payload/bin"}):
            values = main.environment(chosen, MACHINE, Path("/scratch"), False)
        self.assertNotIn("AMDGPU_CRIU_COMPRESS", values)
        self.assertNotIn("/payload", values["PATH"])
        self.assertEqual("LOADED_DRIVER" in values, False)

    def test_soak_repeats_until_its_time_is_over(self) -> None:
        made = plan.Plan(STEPS[:1], (), STEPS[1:])
        times = iter([0, 1, 3599, 3601])
        with mock.patch.object(main.time, "monotonic", lambda: next(times)):
            self.assertEqual([step.test for step in main.steps_of(made, 1)], ["one_gpu", "rocr", "rocr"])


if __name__ == "__main__":
    unittest.main()
