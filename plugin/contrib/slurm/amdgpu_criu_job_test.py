# SPDX-License-Identifier: GPL-2.0
from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path

from fake_node import HERE, PATIENCE, FakeNode, wait_until

# The wrapper, with the fake helper.
WRAPPER = """
import os, sys
sys.path.insert(0, {here!r})
import fake_node
job = fake_node.load("amdgpu-criu-job")
options = job.parse(sys.argv[1:])
sys.exit(job.Job(options, {driver!r}).run(job.what_to_run(options)))
"""


class Wrapper(unittest.TestCase):
    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(work.cleanup)
        self.work = Path(work.name)
        self.node = FakeNode(self.work)
        self.addCleanup(self.node.say, "stop", "0")

    def start(self, *options: str, driver: Sequence[str] = ()) -> subprocess.Popen[str]:
        text = WRAPPER.format(here=str(HERE), driver=driver or self.node.driver)
        return subprocess.Popen(
            [sys.executable, "-B", "-c", text, "--output", str(self.node.output), *options, "--", "sh",
             str(self.work / "program"), "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self, process: subprocess.Popen[str], status: int) -> str:
        said, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, status, said)
        return said

    def test_a_preempted_job_is_dumped_and_requeued(self) -> None:
        process = self.start()
        self.node.wait_for_steps(2)
        process.send_signal(signal.SIGUSR1)
        said = self.finish(process, 75)
        self.assertIn("checkpoint 1 in", said)
        self.assertTrue((self.node.store / "1" / "state").exists())

    def test_a_job_that_cannot_be_carried_continues_to_its_end(self) -> None:
        self.node.say("refuse-dump")
        process = self.start("--signal", "USR2")
        self.node.wait_for_steps(1)
        process.send_signal(signal.SIGUSR2)
        assert process.stdout
        said = ""
        while "the program continues" not in said:
            line = process.stdout.readline()
            self.assertTrue(line, said)
            said += line
        self.assertIn("cannot carry: an attached debugger", said)
        self.node.wait_for_steps(10)
        self.node.say("stop", "5")
        self.finish(process, 5)

    def test_checkpoints_in_between_leave_the_program_running(self) -> None:
        process = self.start("--every", "0.1")
        wait_until(lambda: (self.node.store / "2").exists())
        self.node.wait_for_steps(2)
        self.assertEqual(self.node.steps(), list(range(1, len(self.node.steps()) + 1)))
        self.node.say("stop", "0")
        self.finish(process, 0)

    def test_a_job_that_is_not_restored_is_held(self) -> None:
        (self.node.store / "1").mkdir(parents=True)
        self.node.say("refuse-restore")
        self.assertIn("the job is held", self.finish(self.start(), 76))

    def test_a_job_that_this_node_cannot_start_is_held(self) -> None:
        (self.node.store / "1").mkdir(parents=True)
        (self.work / "criu").unlink()
        for driver in ((), ("false",), ("/missing/sudo",)):
            self.assertIn("the job is held", self.finish(self.start(driver=driver), 76))

    def test_a_job_that_is_cancelled_before_its_start_is_not_held(self) -> None:
        self.finish(self.start(driver=("sh", "-c", "kill -TERM $$")), 143)

    def test_a_job_that_cannot_be_executed_fails(self) -> None:
        process = self.start("--output", str(self.work / "missing" / "output"))
        self.assertIn("No such file", self.finish(process, 1))

    def test_any_status_may_be_the_programs(self) -> None:
        for status in (1, 120):
            self.node.say("stop", str(status))
            self.finish(self.start(), status)

    def test_a_cancelled_program_gets_the_signal(self) -> None:
        process = self.start()
        self.node.wait_for_steps(1)
        process.send_signal(signal.SIGTERM)
        self.finish(process, 143)

    def test_the_output_must_be_a_file(self) -> None:
        process = subprocess.run([HERE / "amdgpu-criu-job", "true"], capture_output=True, text=True,
                                 env={**os.environ, "SLURM_JOB_ID": "1"}, check=False)
        self.assertEqual(process.returncode, 1)
        self.assertIn("which is not a file", process.stderr)

    def test_a_job_on_several_nodes_is_refused(self) -> None:
        for environment, wanted in (({}, "not in a Slurm job"),
                                    ({"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2"}, "several nodes")):
            process = subprocess.run([HERE / "amdgpu-criu-job", "true"], capture_output=True, text=True,
                                     env={"PATH": os.environ["PATH"], **environment}, check=False)
            self.assertEqual(process.returncode, 1)
            self.assertIn(wanted, process.stderr)


if __name__ == "__main__":
    unittest.main()
