# SPDX-License-Identifier: GPL-2.0
"""From the command line to the report."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import ROOT, archive, execute, machine, options, plan, report
from runner.ktap import FAIL, PASS

try:
    from .version import VERSION
except ImportError:  # in a checkout
    VERSION = "0"

PASSED, FAILED, MISUSED, IN_USE, NOTHING, INTERRUPTED = 0, 1, 2, 3, 4, 130
# Images of the largest workload, and their copies.
SCRATCH_BYTES = 2 << 30
# A GPU may be reset while this is waited for.
GPU_SECONDS = 30


class Refused(Exception):
    """The tests cannot begin."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def say(text: str = "") -> None:
    print(text, flush=True)


def duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def announce(found: machine.Machine, made: plan.Plan, chosen: argparse.Namespace, scratch: Path) -> None:
    say(f"amdgpu-criu-selftest {VERSION}, stage {chosen.stage}")
    for line in report.machine_lines(found):
        say(f"  {line}")
    usual = plan.USUAL_SECONDS.get(chosen.stage)
    hours = f", then {chosen.hours:g} hours of {len(made.repeated)} of them again" if made.repeated else ""
    say(f"It runs {len(made.steps)} tests{f', usually {duration(usual)}' if usual else ''}{hours}. "
        f"Each has a time limit; the limits add up to {duration(sum(s.limit for s in made.steps))}.")
    say(f"It starts programs of its own on all GPUs, dumps and restores them, and writes images to {scratch}.")
    say("It may disturb others: it pauses queues and fills GPU memory for moments, and moves the numbers of "
        "new processes.")
    disturbing = [step for step in made.steps if step.disturbs]
    if disturbing:
        say("--disruptive: save your work. It also")
        for step in disturbing:
            say(f"  {step.name}: {step.disturbs}")
    else:
        say("It resets no GPU, loads and unloads no module, and changes no partitions.")


def list_steps(made: plan.Plan) -> None:
    for step in made.steps:
        say(f"{step.name:45} at most {duration(step.limit)}{f'; {step.disturbs}' if step.disturbs else ''}")
    for one in made.not_run:
        say(f"{one.name:45} not run: {one.reason}")


def report_directory(wanted: Path | None) -> Path:
    """A user who can write there could let root write to other files, by links."""
    directory = wanted or Path(time.strftime("amdgpu-criu-report-%Y%m%d-%H%M%S"))
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        if directory.is_symlink() or not directory.is_dir() or any(directory.iterdir()):
            raise Refused(MISUSED, f"{directory} is there already: choose a new or an empty directory") from None
        status = directory.stat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise Refused(MISUSED, f"other users can write to {directory}: choose a new directory") from None
    (directory / "logs").mkdir()
    return directory.absolute()


def examine(chosen: argparse.Namespace) -> tuple[machine.Machine, plan.Plan]:
    found = machine.read(chosen.criu)
    looking = chosen.list or chosen.dry_run
    if looking and os.geteuid() != 0:
        say("note: without root the kernel's interface is not known; this is for a kernel with the series")
        found = dataclasses.replace(found, interface=machine.SERIES)
    wishes = plan.Wishes(chosen.stage, chosen.disruptive, chosen.patience, tuple(chosen.only))
    return found, plan.make(found, wishes, ROOT)


def may_begin(chosen: argparse.Namespace, found: machine.Machine, made: plan.Plan) -> list[str]:
    """Raises Refused, or returns notes for the report."""
    if not found.gpus:
        raise Refused(NOTHING, "KFD drives no GPU here: load amdgpu, or pass /dev/kfd and /dev/dri into the container")
    if found.interface == machine.NONE:
        raise Refused(NOTHING, "the kernel has no interface to save GPU state: install amdgpu-criu-dkms; "
                               "`amdgpu-criu check` says more")
    if not found.criu:
        raise Refused(NOTHING, f"there is no {chosen.criu}: install criu 4.1 or later")
    if not made.steps:
        raise Refused(NOTHING, "no test is left: see --list")
    notes = []
    if users := machine.users():
        if not chosen.yes:
            raise Refused(IN_USE, "these processes use the GPUs; end them, or add --yes:\n  " + "\n  ".join(users))
        notes.append(f"other processes used the GPUs: {', '.join(users)}")
    return notes


def environment(chosen: argparse.Namespace, found: machine.Machine, scratch: Path, shared: bool) -> dict[str, str]:
    """Nothing of the caller's: a test is the same for everybody."""
    values = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
              "LANG": "C.UTF-8", "PAYLOAD": str(ROOT), "SCRATCH": str(scratch), "CRIU": chosen.criu,
              "SHOW_IMAGES": "1"}
    if found.interface == machine.STOCK:
        values["LOADED_DRIVER"] = "stock"
    if shared:
        values["SHARED_GPU"] = "1"
    return values


def gpus_are_there(before: machine.Machine) -> bool:
    deadline = time.monotonic() + GPU_SECONDS
    slots = [gpu.slot for gpu in before.gpus]
    while [gpu.slot for gpu in machine.gpus()] != slots or not os.path.exists("/dev/kfd"):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def steps_of(made: plan.Plan, hours: float) -> Iterator[plan.Step]:
    yield from made.steps
    deadline = time.monotonic() + hours * 3600
    for step in itertools.cycle(made.repeated):
        if time.monotonic() > deadline:
            return
        yield step


def run_all(made: plan.Plan, hours: float, executor: execute.Executor, result: report.Report,
            directory: Path) -> None:
    total = f"{len(made.steps)}{'+' if made.repeated else ''}"
    steps = enumerate(steps_of(made, hours), 1)
    for number, step in steps:
        try:
            done = executor.run(step, number)
        except KeyboardInterrupt:
            result.notes.append(f"interrupted during {step.name}")
            raise
        result.steps.append(done)
        archive.keep_files_of(done, executor.scratch, directory / "scenarios")
        word = {PASS: "ok", FAIL: "not ok"}.get(done.outcome, "skip")
        say(f"[{number}/{total}] {word} {step.name}, {done.seconds:.1f} s, {len(done.tests)} tests")
        for test in done.tests:
            if test.outcome == FAIL:
                say(f"    {test.name}: {test.reason}")
        if not gpus_are_there(result.machine):
            result.notes.append(f"after {step.name}, a GPU is missing: nothing else was run")
            ran = {one.step.name for one in result.steps}
            result.not_run += [plan.NotRun(one.name, "a GPU is missing") for one in made.steps if one.name not in ran]
            return


def finish(result: report.Report, executor: execute.Executor, directory: Path, before: str) -> int:
    executor.kernel.complaints()
    archive.write_kernel_log(directory, before, executor.kernel.messages)
    archive.write_topology(directory)
    left = archive.remove_scratch(executor.scratch, Path("/proc/self/mountinfo").read_text())
    if left:
        result.notes.append(left)
    packed = archive.write(result, directory)
    say(f"\n{result.summary()}\nreport: {directory}/report.txt\nto send: {packed}")
    if result.interrupted:
        return INTERRUPTED
    return FAILED if result.count(FAIL) else PASSED


def interrupt(*_: object) -> None:
    """CI systems end jobs by SIGTERM, and a connection that is lost by SIGHUP."""
    raise KeyboardInterrupt


def test(chosen: argparse.Namespace, found: machine.Machine, made: plan.Plan) -> int:
    notes = may_begin(chosen, found, made)
    if not chosen.scratch.is_dir():
        raise Refused(MISUSED, f"there is no directory {chosen.scratch}: create it, or choose another --scratch")
    directory = report_directory(chosen.report)
    scratch = Path(tempfile.mkdtemp(prefix="amdgpu-criu-selftest-", dir=chosen.scratch))
    announce(found, made, chosen, scratch)
    kernel = execute.KernelLog()
    if not kernel.readable:
        notes.append("the kernel's log cannot be read here: its complaints are not judged")
    if (free := shutil.disk_usage(scratch).free) < SCRATCH_BYTES:
        notes.append(f"{chosen.scratch} has only {free >> 20} MiB: images of some tests may not fit")
    for note in notes:
        say(f"note: {note}")
    before = machine.output(["dmesg"])
    executor = execute.Executor(ROOT, scratch, directory / "logs", kernel,
                                environment(chosen, found, scratch, bool(machine.users())))
    result = report.Report(VERSION, chosen.stage, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), found,
                           not_run=list(made.not_run), notes=notes)
    start = time.monotonic()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        run_all(made, chosen.hours, executor, result, directory)
    except KeyboardInterrupt:
        result.interrupted = True
    result.seconds = time.monotonic() - start
    return finish(result, executor, directory, before)


def main(words: Sequence[str]) -> int:
    chosen = options.parse(words, VERSION)
    try:
        if os.geteuid() != 0 and not (chosen.list or chosen.dry_run):
            raise Refused(MISUSED, "root is needed: saving and restoring processes is privileged")
        found, made = examine(chosen)
        if chosen.list or chosen.dry_run:
            if chosen.dry_run:
                announce(found, made, chosen, chosen.scratch)
            list_steps(made)
            return PASSED
        return test(chosen, found, made)
    except Refused as refused:
        print(f"amdgpu-criu-selftest: {refused}", file=sys.stderr)
        return refused.status
