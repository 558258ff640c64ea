# SPDX-License-Identifier: GPL-2.0
"""For tests: runs job-helper with a fake criu, in a process of its own."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
JOB = 42
PATIENCE = 60  # seconds

# signal NAME PID: signals the whole tree. A process that has not stopped yet may still fork.
SIGNAL = """signal() {
  kill -STOP $2
  while grep -q ') [^TZ]' /proc/$2/stat; do sleep 0.01; done
  children=$(cat /proc/$2/task/$2/children)
  kill -$1 $2
  for child in $children; do (signal $1 $child); done
}"""
# The fake criu: a "checkpoint" is the number to which the program has counted. Files in FAKE make it fail.
CRIU = f"""#!/bin/sh
{SIGNAL}
verb=$1
shift
while [ $# -gt 0 ]; do
  case $1 in
  --images-dir) images=$2 ;; --pidfile) pidfile=$2 ;; --tree) tree=$2 ;; --work-dir) work=$2 ;;
  --leave-stopped) stop=yes ;;
  esac
  shift
done
echo "(00.1) Error (criu): a first one" >"$work/criu.log"
if [ -e FAKE/refuse-$verb ]; then
  echo "(00.2) Error (amdgpu): cannot carry: an attached debugger" >>"$work/criu.log"
  exit 1
fi
if [ $verb = dump ]; then
  echo $tree >FAKE/tree
  [ "$stop" != yes ] || [ -e FAKE/late-stop ] || signal STOP $tree
  [ ! -e FAKE/late-stop ] || (sleep 0.5; signal STOP $tree) &
  touch "$images/part"
  [ ! -e FAKE/hang ] || exec sleep 100
  while [ -e FAKE/slow-dump ]; do sleep 0.05; done
  [ ! -e FAKE/signal-dump ] || for signal in $(cat FAKE/signal-dump); do kill -$signal $$; done
  tail -n 1 FAKE/output >"$images/state"
else
  read -r _ count <"$images/state"
  setsid python3 -c "
import os
os.closerange(3, 256)
os.execv('/bin/sh', ['sh', 'FAKE/program', '$count'])" >>FAKE/output 2>&1 &
  echo $! >"$pidfile"
  while [ -e FAKE/slow-restore ]; do sleep 0.05; done
fi
"""
PROGRAM = """count=$1
while [ -e FAKE/program ] && [ ! -e FAKE/stop ]; do count=$((count + 1)); echo "step $count"; sleep 0.05; done
exit $(cat FAKE/stop)
"""
VERIFY = f"""#!/bin/sh
{SIGNAL}
[ ! -e FAKE/signal-verify ] || for signal in $(cat FAKE/signal-verify); do kill -$signal $$; done
read -r tree <FAKE/tree
[ ! -e FAKE/continue ] || signal CONT $tree
[ ! -e FAKE/continue-children ] || signal CONT $(cat /proc/$tree/task/$tree/children)
[ ! -e FAKE/end ] || {{ signal KILL $tree; while [ -e /proc/$tree ]; do sleep 0.01; done; }}
[ ! -e FAKE/damage ] || {{ echo damaged; exit 1; }}
[ ! -e FAKE/verify-status ] || {{ echo an error >&2; exit $(cat FAKE/verify-status); }}
"""
# An orphan of the fake criu becomes a child of the driver, as a sibling of criu would be.
DRIVER = """
import ctypes, sys
sys.path.insert(0, {here!r})
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
import fake_node
sys.exit(fake_node.FakeNode.drive({work!r}, sys.argv[1:]))
"""


def load(name: str) -> ModuleType:
    loader = SourceFileLoader(name.replace("-", "_"), str(HERE / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


class FakeNode:
    """The environment of a job on a node; all nodes share DIRECTORY."""

    def __init__(self, work: Path, name: str = "node") -> None:
        self.work = work
        self.run = work / name
        self.store = work / "checkpoints" / str(os.getuid()) / str(JOB)
        self.output = work / "output"
        self.driver = [sys.executable, "-B", "-c", DRIVER.format(here=str(HERE), work=str(self.run))]
        self.run.mkdir()
        (work / "checkpoints").mkdir(exist_ok=True)
        for file, text in (("criu", CRIU), ("program", PROGRAM), ("verify", VERIFY)):
            (work / file).write_text(text.replace("FAKE", str(work)))
            (work / file).chmod(0o755)

    @staticmethod
    def drive(run: str, words: list[str]) -> int:
        """Runs in the process of the helper."""
        helper = load("job-helper")
        work = Path(run).parent
        if (work / "bad-disk").exists():
            helper.os.fsync = bad_disk
        if (work / "late-continue").exists():
            helper.os.fsync = continue_at_last
        if (work / "busy-disk").exists():
            helper.os.rmdir = bad_disk
        if (work / "full-disk").exists():
            dumps = helper.json.dumps
            helper.json.dumps = lambda state: bad_disk() if state["pid"] else dumps(state)
        patient = (work / "patient").exists()
        settings = helper.Settings(directory=work / "checkpoints", run=Path(run),
                                   criu=(str(work / "criu"),), verify=(str(work / "verify"),),
                                   patience=PATIENCE if patient else 0.5, look=0.05)
        helper.read_settings = lambda _: settings
        helper.CONFIGURATION = Path("/dev/null")
        helper.job_of = lambda *_: helper.Job(JOB, os.getuid(), os.getgid())
        return helper.main(words)

    def spec(self) -> dict:
        return {"argv": ["sh", str(self.work / "program"), "0"], "env": dict(os.environ), "cwd": "/",
                "umask": 0o22, "output": str(self.output), "errors": str(self.output)}

    def start(self) -> subprocess.Popen[str]:
        """Starts `job-helper run`."""
        process = subprocess.Popen([*self.driver, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        assert process.stdin
        process.stdin.write(json.dumps(self.spec()))
        process.stdin.close()
        process.stdin = None  # for communicate()
        return process

    def start_dump(self, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*self.driver, "dump", *options], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def dump(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.driver, "dump", *options], capture_output=True, text=True,
                              check=False)

    def say(self, name: str, text: str = "") -> None:
        (self.work / name).write_text(text)

    def steps(self) -> list[int]:
        text = self.output.read_text() if self.output.exists() else ""
        return [int(line.split()[1]) for line in text.splitlines() if line.startswith("step ")]

    def wait_for_steps(self, more: int) -> None:
        target = len(self.steps()) + more
        wait_until(lambda: len(self.steps()) >= target)


def bad_disk(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, "the disk has lost a write")


def continue_at_last(fd: int) -> None:
    """The last fsync() of a commit is that of the directory of checkpoints."""
    directory = Path(os.readlink(f"/proc/self/fd/{fd}"))
    if directory.name == str(JOB):
        pid = int((directory.parents[2] / "tree").read_text())
        os.kill(pid, signal.SIGCONT)
        wait_until(lambda: ") T " not in Path(f"/proc/{pid}/stat").read_text())


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"the condition did not become true within {PATIENCE} s")
        time.sleep(0.02)
