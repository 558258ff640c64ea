# SPDX-License-Identifier: GPL-2.0
from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import signal
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from fake_node import JOB, PATIENCE, FakeNode, load, wait_until

helper = load("job-helper")
# Its child forks for each line of input.
PROGRAM = r"""printf '\377) Z\rUid: 9' >/proc/$$/comm
sh -c 'echo ready; while read _; do sleep 100 & echo $!; done'; exit"""
# Those of slurmstepd itself, and those that end a process and that scancel(1) can send.
SIGNALS_OF_SLURM = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT,
                    signal.SIGALRM, signal.SIGXCPU, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGRTMIN)


class Settings(unittest.TestCase):
    def test_all_settings_of_the_manual_are_read(self) -> None:
        settings = helper.read_settings("# of the site\ndirectory = /shared/c\ncriu=/opt/criu -v0 # 4.3\n"
                                        "options = --tcp-close\nkeep = 2\n")
        self.assertEqual((settings.directory, settings.criu, settings.options, settings.keep),
                         (Path("/shared/c"), ("/opt/criu", "-v0"), ("--tcp-close",), 2))

    def test_missing_unknown_and_invalid_settings_are_refused(self) -> None:
        for text in ("", "directory = c", "directory = /c\nkeep = 0", "directory = /c\nkepe = 1", "/c"):
            with self.assertRaises(helper.Failure, msg=text):
                helper.read_settings(text)


class JobOf(unittest.TestCase):
    SUDO = {"SUDO_UID": "1000", "SUDO_GID": "1001"}

    def test_is_that_of_the_cgroup(self) -> None:
        cgroup = "0::/system.slice/slurmstepd.scope/job_77/step_batch/user/task_0\n"
        self.assertEqual(helper.job_of(cgroup, {**self.SUDO, "SLURM_JOB_ID": "1"}),
                         helper.Job(77, 1000, 1001))

    def test_is_found_where_slurm_puts_it(self) -> None:
        for cgroup in ("0::/system.slice/node1_slurmstepd.scope/job_77/step_0/user/task_0\n",
                       "0::/docker/1f/system.slice/slurmstepd.scope/job_77/step_0/slurmstepd.scope/job_5/x\n",
                       "0::/\n4:memory:/slurm_node1/uid_1000/job_77/step_0/task_0\n"):
            self.assertEqual(helper.job_of(cgroup, self.SUDO).number, 77, cgroup)

    def test_no_line_begins_inside_the_name_of_a_cgroup(self) -> None:
        with tempfile.TemporaryDirectory() as work:
            file = Path(work, "cgroup")
            file.write_bytes(b"0::/user.slice/\xff\r0::/x/slurmstepd.scope/job_7/y\n")
            with self.assertRaisesRegex(helper.Failure, "not in a cgroup of a Slurm job"):
                helper.job_of(helper.proc_text(file), self.SUDO)

    def test_refuses_processes_of_no_job_and_without_sudo(self) -> None:
        scope = "slurmstepd.scope/job_7/y\n"
        for cgroup, environment in (("0::/user.slice\n", self.SUDO), (f"0::/system.slice/{scope}", {}),
                                    ("0::/x/job_7/y\n", self.SUDO), (f"0::/user.slice/u/{scope}", self.SUDO),
                                    ("1:name=x:/u/job_7/y\n", self.SUDO)):
            with self.assertRaises(helper.Failure, msg=cgroup):
                helper.job_of(cgroup, environment)


class Reason(unittest.TestCase):
    def of(self, *lines: str) -> str:
        with tempfile.TemporaryDirectory() as work:
            Path(work, "log").write_text("\n".join(lines))
            return helper.reason(Path(work, "log"))

    def test_is_the_plugins_last_error_or_crius_errors(self) -> None:
        self.assertEqual(self.of("(1) Error (a.c:1): one", "(2) Error (amdgpu): ours", "(3) Error (b.c): x"),
                         "(amdgpu): ours")
        self.assertEqual(self.of("pie: 1: Error (a.c:1): one", "(2) Warn (c.c:1): no", "(3) Error (b.c:2): x",
                                 "(4) Error (d.c:3): Dumping FAILED."), "(a.c:1): one; (b.c:2): x")
        self.assertEqual(self.of("nothing"), "no reason in its log")


class Store(unittest.TestCase):
    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(work.cleanup)
        self.settings = helper.Settings(directory=Path(work.name))
        self.store = helper.Store(self.settings, helper.Job(1, 2, 3))
        self.store.create()

    def make(self, token: str) -> Path:
        self.store.begin(token)
        (self.store.new / "image").write_text("x")
        name = self.store.commit(token)
        self.store.prune()
        return name

    def test_only_what_is_committed_is_complete(self) -> None:
        token = self.store.take()
        self.store.begin(token)
        self.assertEqual(self.store.complete(), [])
        self.assertEqual(self.make(token).name, "1")
        self.store.begin(token)
        self.assertEqual([path.name for path in self.store.complete()], ["1"])

    def test_a_new_one_replaces_the_oldest(self) -> None:
        token = self.store.take()
        self.assertEqual([self.make(token).name for _ in range(3)], ["1", "2", "3"])
        self.assertEqual([path.name for path in self.store.complete()], ["3"])

    def test_a_node_that_was_given_up_commits_nothing(self) -> None:
        token = self.store.take()
        self.store.take()
        with self.assertRaisesRegex(helper.Failure, "runs on another node"):
            self.make(token)
        self.assertEqual(self.store.complete(), [])

    def test_a_node_that_was_given_up_leaves_the_unfinished_images_of_the_other(self) -> None:
        given_up = self.store.take()
        self.store.begin(self.store.take())
        (self.store.new / "image").write_text("x")
        with self.assertRaisesRegex(helper.Failure, "runs on another node"):
            self.store.begin(given_up)
        self.assertEqual((self.store.new / "image").read_text(), "x")

    def test_without_the_shared_directory_there_is_none(self) -> None:
        settings = helper.Settings(directory=self.settings.directory / "missing")
        with self.assertRaisesRegex(helper.Failure, "no directory .*missing: mount its file system"):
            helper.Store(settings, helper.Job(1, 2, 3)).create()
        self.assertFalse(settings.directory.exists())

    def make_unreadable(self) -> None:
        (self.store.path / "owner").unlink()
        (self.store.path / "owner").mkdir()

    def test_commits_nothing_while_the_owner_cannot_be_read(self) -> None:
        token = self.store.take()
        self.make(token)
        self.make_unreadable()
        with self.assertRaises(OSError):
            self.make(token)
        self.assertFalse(self.store.is_taken(token))  # the program goes on
        self.assertEqual([path.name for path in self.store.complete()], ["1"])

    def test_is_not_removed_by_a_start_that_may_be_given_up(self) -> None:
        run = helper.Helper(self.settings, helper.Job(1, 2, 3))
        run.store, run.program = self.store, mock.Mock()
        taken: list[str] = []

        def start(spec: dict, token: str) -> int:
            taken.append(self.store.take())
            if len(taken) == 2:
                self.make_unreadable()
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            return pid

        with mock.patch.object(run, "_start", start), mock.patch.object(run, "_end_if_taken"), \
                contextlib.redirect_stdout(io.StringIO()):
            for _ in range(2):
                self.assertEqual(run.run({}), 0)
                self.assertFalse(self.store.is_taken(taken[-1]))
                self.assertTrue(self.store.path.exists())

    def test_needs_no_fsync_of_directories(self) -> None:
        fsync = os.fsync

        def of_files(fd: int) -> None:
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "no fsync")
            fsync(fd)

        with mock.patch.object(os, "fsync", of_files):
            self.assertEqual(self.make(self.store.take()).name, "1")

    def test_is_for_root_alone(self) -> None:
        self.assertEqual(self.store.path.stat().st_mode & 0o777, 0o700)


def become_reaper() -> None:
    ctypes.CDLL(None).prctl(helper.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_group(number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(number, signal.SIGKILL)


class Program(unittest.TestCase):
    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.program = helper.Program(helper.Settings(directory=Path(), run=Path(work.name)), helper.Job(1, 2, 3))
        self.process = subprocess.Popen(["sh", "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, start_new_session=True, preexec_fn=become_reaper)
        self.addCleanup(self.process.communicate)
        self.addCleanup(kill_group, self.process.pid)
        assert self.process.stdout
        self.process.stdout.readline()

    def test_names_of_processes_are_any_bytes(self) -> None:
        self.assertEqual(Path(f"/proc/{self.process.pid}/comm").read_bytes(), b"\xff) Z\rUid: 9\n")
        self.program.note(self.process.pid, "")
        self.program.check_users(helper.Job(1, os.getuid(), 3))
        self.program.signal_all(signal.SIGTERM)
        self.assertEqual(self.process.wait(PATIENCE), -signal.SIGTERM)

    def fork(self) -> int:
        """Returns the new process."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def test_a_process_that_is_forked_meanwhile_is_killed(self) -> None:
        self.program.note(self.process.pid, "")
        members, forked = self.program.members, []

        def then_fork() -> list[int]:
            found = members()
            if len(forked) < 2:
                forked.append(self.fork())
            return found

        with mock.patch.object(self.program, "members", then_fork), \
                mock.patch.object(os, "kill", wraps=os.kill) as kill:
            self.program.kill()
        wait_until(lambda: {helper.stat(pid, 3) for pid in forked} <= {"", "Z"})
        self.assertEqual(len(forked), 2)
        self.assertEqual(kill.call_args, mock.call(self.process.pid, signal.SIGKILL))  # `run` ends with it

    def test_another_process_with_its_pid_gets_no_signal(self) -> None:
        with mock.patch.object(helper, "start_time", return_value="1"):
            self.program.note(self.process.pid, "")
        with self.assertRaisesRegex(helper.Failure, "no program of this job runs"):
            self.program.check_users(helper.Job(1, os.getuid(), 3))
        self.program.signal_all(signal.SIGKILL)
        with self.assertRaises(subprocess.TimeoutExpired):
            self.process.wait(0.2)
        self.program.note(self.process.pid, "")
        self.program.find()
        self.program.signal_all(signal.SIGTERM)
        self.assertEqual(self.process.wait(PATIENCE), -signal.SIGTERM)


class Helper(unittest.TestCase):
    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(work.cleanup)
        self.node = FakeNode(Path(work.name))
        self.addCleanup(self.node.say, "stop", "0")

    def end(self, process, status: int = 0) -> str:
        self.node.say("stop", str(status))
        _, messages = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, status, messages)
        return messages

    def checkpoint(self) -> None:
        """Runs a program and dumps it, until it has ended."""
        process = self.node.start()
        self.node.wait_for_steps(2)
        done = self.node.dump()
        self.assertEqual(done.returncode, 0, done.stderr)
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 137)

    def test_passes_the_status_on_and_removes_checkpoints_of_a_success_only(self) -> None:
        for status, kept in ((3, True), (0, False)):
            process = self.node.start()
            self.node.wait_for_steps(1)
            self.assertEqual(self.node.dump("--leave-running").returncode, 0)
            self.end(process, status)
            self.assertEqual(self.node.store.exists(), kept)
            (self.node.work / "stop").unlink()

    def test_a_program_starts_with_the_default_actions_of_signals(self) -> None:
        numbers = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
        (self.node.work / "program").write_text("grep ^SigIgn: /proc/self/status\nkill -PIPE $$\n")
        process = self.node.start()
        _, messages = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 128 + signal.SIGPIPE, messages)
        ignored = int(self.node.output.read_text().split()[1], 16)
        self.assertEqual([number for number in numbers if ignored & 1 << (number - 1)], [])

    def test_a_dumped_program_continues_on_another_node(self) -> None:
        self.checkpoint()
        last = self.node.steps()[-1]
        other = FakeNode(self.node.work, "other")
        process = other.start()
        other.wait_for_steps(2)
        self.assertEqual(self.node.steps(), list(range(1, len(self.node.steps()) + 1)))
        self.assertGreater(self.node.steps()[-1], last)
        self.assertIn("restored from checkpoint 1", self.end(process))

    def test_a_program_that_cannot_be_carried_continues(self) -> None:
        process = self.node.start()
        self.node.wait_for_steps(1)
        self.node.say("refuse-dump")
        done = self.node.dump()
        self.assertEqual(done.returncode, helper.REFUSED)
        self.assertIn("no checkpoint: (amdgpu): cannot carry: an attached debugger", done.stderr)
        self.node.wait_for_steps(2)
        self.end(process)

    def test_a_program_with_damaged_images_continues(self) -> None:
        process = self.node.start()
        self.node.wait_for_steps(1)
        self.node.say("damage")
        self.assertIn("damaged or cannot be read: damaged", self.node.dump().stderr)
        self.assertEqual([path.name for path in self.node.store.iterdir()], ["owner"])
        self.node.wait_for_steps(2)
        self.end(process)

    def test_a_program_whose_images_do_not_reach_the_disk_continues(self) -> None:
        self.checkpoint()
        process = self.node.start()
        self.node.wait_for_steps(1)
        self.node.say("bad-disk")
        done = self.node.dump()
        self.assertEqual(done.returncode, helper.REFUSED)
        self.assertIn("the disk has lost a write", done.stderr)
        self.assertEqual(sorted(path.name for path in self.node.store.iterdir()), ["1", "owner"])
        self.node.wait_for_steps(2)
        self.end(process)

    def test_a_program_that_was_continued_before_the_commit_continues(self) -> None:
        process = self.node.start()
        self.node.wait_for_steps(1)
        self.assertEqual(self.node.dump("--leave-running").returncode, 0)
        for name in ("continue", "continue-children", "late-continue"):
            self.node.say(name)
            done = self.node.dump()
            self.assertEqual(done.returncode, helper.REFUSED, name)
            self.assertIn("continued while its images were written", done.stderr)
            self.assertEqual(sorted(path.name for path in self.node.store.iterdir()), ["1", "owner"])
            self.node.wait_for_steps(2)
            (self.node.work / name).unlink()
        self.end(process)

    def test_a_program_may_stop_shortly_after_criu_has_ended(self) -> None:
        self.node.say("late-stop")
        self.checkpoint()

    def test_a_program_that_ended_before_the_commit_leaves_no_checkpoint(self) -> None:
        process = self.node.start()
        self.node.wait_for_steps(1)
        self.node.say("end")
        self.assertEqual(self.node.dump().returncode, helper.REFUSED)
        self.assertEqual([path.name for path in self.node.store.iterdir()], ["owner"])
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 137)

    def test_a_program_whose_images_cannot_be_read_continues(self) -> None:
        self.checkpoint()
        process = self.node.start()
        self.node.wait_for_steps(1)
        self.node.say("verify-status", "2")
        self.assertIn("damaged or cannot be read: an error", self.node.dump().stderr)
        self.assertEqual(sorted(path.name for path in self.node.store.iterdir()), ["1", "owner"])
        self.node.wait_for_steps(2)
        self.end(process)

    def test_a_program_without_a_gpu_is_carried(self) -> None:
        self.node.say("verify-status", "3")
        self.checkpoint()
        self.assertTrue((self.node.store / "1" / "state").exists())

    def test_an_older_checkpoint_that_stays_makes_no_dump_fail(self) -> None:
        self.checkpoint()
        self.node.say("busy-disk")
        self.checkpoint()
        self.assertEqual(sorted(path.name for path in self.node.store.iterdir()), ["1", "2", "owner"])
        process = self.node.start()
        self.node.wait_for_steps(1)
        self.assertIn("restored from checkpoint 2", self.end(process))

    def test_a_second_dump_is_refused_while_the_first_one_runs(self) -> None:
        process = self.node.start()
        self.node.wait_for_steps(1)
        self.node.say("slow-dump")
        first = self.node.start_dump("--leave-running")
        part = self.node.store / "new" / "part"
        wait_until(part.exists)
        second = self.node.dump("--leave-running")
        self.assertEqual(second.returncode, helper.REFUSED)
        self.assertIn("another dump of this job is under way", second.stderr)
        (self.node.work / "slow-dump").unlink()
        _, messages = first.communicate(timeout=PATIENCE)
        self.assertEqual(first.returncode, 0, messages)
        self.assertTrue((self.node.store / "1" / "part").exists())
        self.end(process)

    def test_signals_of_slurm_do_not_end_a_dump(self) -> None:
        process = self.node.start()
        self.node.wait_for_steps(1)
        self.node.say("slow-dump")
        dump = self.node.start_dump("--leave-running")
        wait_until((self.node.store / "new" / "part").exists)
        for number in SIGNALS_OF_SLURM:
            dump.send_signal(number)
        (self.node.work / "slow-dump").unlink()
        _, messages = dump.communicate(timeout=PATIENCE)
        self.assertEqual(dump.returncode, 0, messages)
        self.end(process)

    def test_signals_of_slurm_end_no_program_of_a_dump(self) -> None:
        process = self.node.start()
        self.node.wait_for_steps(1)
        for name in ("signal-dump", "signal-verify"):
            self.node.say(name, " ".join(str(int(number)) for number in SIGNALS_OF_SLURM))
        dump = self.node.dump("--leave-running")
        self.assertEqual(dump.returncode, 0, dump.stderr)
        self.end(process)

    def test_a_node_that_fails_during_a_dump_leaves_the_previous_checkpoint(self) -> None:
        self.checkpoint()
        (self.node.store / "new").mkdir()
        (self.node.store / "new" / "state").write_text("step 100000")
        process = self.node.start()
        self.node.wait_for_steps(2)
        self.assertLess(self.node.steps()[-1], 1000)
        self.end(process)

    def test_a_checkpoint_that_is_not_restored_is_kept(self) -> None:
        self.checkpoint()
        self.node.say("refuse-restore")
        process = self.node.start()
        said, messages = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, said), (helper.REFUSED, ""))
        self.assertIn("was not restored: (amdgpu): cannot carry", messages)
        self.assertTrue((self.node.store / "1" / "state").exists())

    def test_a_second_start_is_refused_while_the_first_one_runs(self) -> None:
        first = self.node.start()
        self.node.wait_for_steps(1)
        second = self.node.start()
        said, messages = second.communicate(timeout=PATIENCE)
        self.assertEqual((second.returncode, said), (helper.REFUSED, ""))
        self.assertIn("an earlier start of this job still runs here", messages)
        self.assertEqual(self.node.dump("--leave-running").returncode, 0)  # of the first one
        self.node.wait_for_steps(2)
        self.end(first)
        self.assertEqual(self.node.steps(), list(range(1, len(self.node.steps()) + 1)))

    def test_a_second_start_waits_for_the_end_of_the_first_one(self) -> None:
        self.checkpoint()
        self.node.say("patient")
        first = self.node.start()
        self.node.wait_for_steps(1)
        second = self.node.start()
        self.assertEqual(self.node.dump().returncode, 0)
        first.communicate(timeout=PATIENCE)
        self.node.wait_for_steps(2)
        self.assertIn("restored from checkpoint 2", self.end(second))

    def test_a_program_whose_helper_was_killed_still_counts(self) -> None:
        first = self.node.start()
        self.node.wait_for_steps(1)
        first.kill()
        first.communicate(timeout=PATIENCE)
        second = self.node.start()
        said, _ = second.communicate(timeout=PATIENCE)
        self.assertEqual((second.returncode, said), (helper.REFUSED, ""))

    def test_a_program_whose_helper_was_killed_during_its_restore_still_counts(self) -> None:
        self.checkpoint()
        self.node.say("slow-restore")
        first = self.node.start()
        self.node.wait_for_steps(1)
        first.kill()
        first.wait(timeout=PATIENCE)
        for criu_runs in (True, False):
            if not criu_runs:
                (self.node.work / "slow-restore").unlink()
            later = self.node.start()
            said, messages = later.communicate(timeout=PATIENCE)
            self.assertEqual((later.returncode, said), (helper.REFUSED, ""), criu_runs)
            self.assertIn("an earlier start of this job still runs here", messages)
        self.node.wait_for_steps(2)
        self.assertEqual(self.node.steps(), list(range(1, len(self.node.steps()) + 1)))

    def test_a_start_on_another_node_ends_the_program_here(self) -> None:
        first = self.node.start()
        self.node.wait_for_steps(1)
        other = FakeNode(self.node.work, "other")
        second = other.start()
        _, messages = first.communicate(timeout=PATIENCE)
        self.assertEqual(first.returncode, 137)
        self.assertIn("started on another node: the program here is killed", messages)
        self.end(second)

    def test_pids_are_the_kernels_choice(self) -> None:
        process = self.node.start()
        self.node.wait_for_steps(1)
        # Programs that are started later have numbers near those that were started before.
        self.assertLess(int(Path("/proc/sys/kernel/ns_last_pid").read_text()) - process.pid, 1000)
        self.end(process)

    def test_a_node_without_the_shared_directory_holds_the_job(self) -> None:
        (self.node.work / "checkpoints").rmdir()
        process = self.node.start()
        said, messages = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, said), (helper.REFUSED, ""))
        self.assertIn("mount its file system on this node", messages)

    def test_a_node_without_criu_restores_nothing(self) -> None:
        self.checkpoint()
        (self.node.work / "criu").unlink()
        process = self.node.start()
        said, messages = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, said), (helper.REFUSED, ""), messages)
        self.assertTrue((self.node.store / "1" / "state").exists())

    def test_a_restored_program_that_cannot_be_noted_ends(self) -> None:
        self.checkpoint()
        self.node.say("full-disk")
        process = self.node.start()
        said, messages = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, said), (helper.REFUSED, ""), messages)
        restored = int((self.node.run / str(JOB) / "pid").read_text())
        wait_until(lambda: not os.path.exists(f"/proc/{restored}"))

    def test_a_program_that_cannot_be_executed_is_refused(self) -> None:
        self.node.output = self.node.work / "missing" / "output"
        said, messages = self.node.start().communicate(timeout=PATIENCE)
        self.assertEqual(said, "refused\n")
        self.assertIn("No such file", messages)

    def test_there_is_nothing_to_dump_without_a_program(self) -> None:
        self.assertIn("no program of this job runs", self.node.dump().stderr)


if __name__ == "__main__":
    unittest.main()
