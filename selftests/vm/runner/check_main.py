# SPDX-License-Identifier: GPL-2.0
"""`check`: all suites, in as few guests as possible."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import os
import re
import secrets
import shlex
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from . import lab, options, payload, prepare, self_check, skips, suite
from .base import BASES, DEFAULT
from .deadline import Deadline
from .guest import Guest, GuestLost, Setup
from .kernel_image import uncompressed
from .ktap import FAIL, PASS, TestResult, summary
from .leaks import differences
from .record import Record, show, show_at_length
from .results import append_results
from .rundir import LockedDirectory, LogDirectory, memory_parent, remove_logs, short_parent
from .run_main import BROKEN, on_signal

EPILOGUE_SECONDS = 300
# The suite that tests the runner itself; it starts its own guests.
RUNNER = "runner"


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="selftests/vm/check", description="Runs the suites of selftests/vm/suites, each in a "
        "guest with the hardware that it names, and writes build/results/NAME-*.tap.")
    result.add_argument("suites", nargs="*", metavar="SUITE", help="only these (patterns as in a "
                        f"shell, too); '{RUNNER}' is the test of the runner")
    result.add_argument("--except", action="append", default=[], dest="unwanted", metavar="SUITE",
                        help="not these; may be repeated, may be a pattern")
    result.add_argument("--runner-tests", type=int, metavar="N", default=len(self_check.TESTS),
                        help="run this many random tests of the runner (default all)")
    result.add_argument("--name", default="guest",
                        help="for results and logs; checks at the same time need names of their own "
                        "(default %(default)s)")
    result.add_argument("--list", action="store_true", help="list the suites and their guests")
    result.add_argument("--base", choices=tuple(BASES), default=DEFAULT,
                        help="the kernel to boot, and so which suites (default %(default)s)")
    result.add_argument("--module", metavar="PATH|stock|none",
                        help="amdgpu.ko to load (default build/module/BASE/amdgpu.ko)")
    result.add_argument("--kernel", type=Path, metavar="DIR", help="boot this kernel, as in `run`")
    result.add_argument("--epilogue", metavar="COMMAND",
                        help="run this in each guest after its suites, as a suite of its own")
    result.add_argument("--environment", action="append", default=[], type=options.assignment,
                        metavar="NAME=VALUE", help="for the suites' commands; may be repeated")
    result.add_argument("--scratch", type=Path, metavar="FILE", help="keep /scratch in this disk image, "
                        "from which an interrupted suite of a library goes on")
    result.add_argument("--build", type=Path, default=Path("build/release"), metavar="DIR",
                        help="build directory with softgpu and the plugin (default %(default)s)")
    result.add_argument("--directory", type=Path, default=lab.VM / "suites", metavar="DIR",
                        help="where the suites are")
    result.add_argument("--kvm", choices=("auto", "on", "off"), default="auto")
    result.add_argument("--patience", type=options.seconds, default=1, metavar="FACTOR",
                        help="multiplies all time limits, for a slow or busy machine")
    result.add_argument("--trace", action="store_true", help="let softgpu trace")
    result.add_argument("--verbose", action="store_true", help="all output of the tests")
    return result


def main(arguments: list[str]) -> int:
    opts = parser().parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    try:
        names = [name for name in opts.suites if name != RUNNER]
        suites = []
        choice = Choice.of(os.environ)
        opts.environment = [*choice.environment(), *opts.environment]
        opts.module = opts.module or BASES[opts.base].module
        if names or not opts.suites:
            suites = choice.of_suites(suite.load(opts.directory, names, opts.module, opts.base,
                                                 opts.unwanted), names)
        if not suites and RUNNER not in opts.suites:
            raise lab.Failure(f"no suites in {opts.directory}")
        guests = suite.plan(suites)
        if opts.epilogue:
            suite.add_epilogue(guests, opts.epilogue, EPILOGUE_SECONDS)
        if opts.list:
            list_guests(guests)
            return 0
        return check(opts, suites, guests)
    except lab.Failure as error:
        print(f"vm: {error}", file=sys.stderr)
        return BROKEN
    except KeyboardInterrupt:
        print("vm: interrupted", file=sys.stderr)
        return 130


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which of the tests that take turns run: by a seed, or all. Scenarios follow it as well."""

    seed: int
    all: bool

    @staticmethod
    def of(environment: Mapping[str, str]) -> Choice:
        seed = environment.get("SEED") or str(secrets.randbelow(1000000))
        if not seed.isdigit():
            raise lab.Failure(f"SEED={seed} is not a number")
        return Choice(int(seed), environment.get("TURNS") == "all")

    def environment(self) -> list[tuple[str, str]]:
        return [("SEED", str(self.seed)), *([("TURNS", "all")] if self.all else [])]

    def of_suites(self, suites: list[suite.Suite], named: list[str]) -> list[suite.Suite]:
        chosen = suites if self.all else suite.take_turns(suites, named, self.seed)
        others = [one.name for one in suites if one not in chosen]
        if others:
            print(f"not their turn (SEED={self.seed}): {' '.join(others)}", flush=True)
        return chosen


def list_guests(guests: list[suite.PlannedGuest]) -> None:
    for number, guest in enumerate(guests, 1):
        hardware = guest.hardware
        order = f", order {','.join(map(str, hardware.order))}" if hardware.order else ""
        print(f"guest {number}: kernel {hardware.base}, {hardware.gpus} GPUs{order}, "
              f"{hardware.memory_mib} MiB")
        for step in guest.steps:
            print(f"  {step.title}: {step.command}")


def check(opts: argparse.Namespace, suites: list[suite.Suite],
          guests: list[suite.PlannedGuest]) -> int:
    start = time.monotonic()
    with contextlib.ExitStack() as stack:
        checker = Checker(opts, stack)
        checker.remove_old_results()
        missing = checker.refuse_incomplete(suites)
        if RUNNER in opts.suites or (not opts.suites and opts.base == DEFAULT):
            checker.check_runner()
        for number, planned in enumerate(guests, 1):
            steps = [step for step in planned.steps if step.suite not in missing]
            if steps:
                checker.run_guest(f"check-{checker.prefix}{number}", planned.hardware, steps)
    print(f"guest suites: {summary(checker.results)} in {time.monotonic() - start:.0f} s")
    return 1 if not checker.results or any(r.outcome == FAIL for r in checker.results) else 0


@dataclasses.dataclass(frozen=True)
class Equipment:
    """The common parts of the guests of one base."""

    boot: lab.Boot
    payload: Path
    contents: payload.Plan


def results_prefix(name: str, base: str) -> str:
    return f"{name}-" if base == DEFAULT else f"{name}-{base}-"


class Checker:
    """Keeps what all guests of a check share: payloads, scratch disk, results."""

    def __init__(self, opts: argparse.Namespace, stack: contextlib.ExitStack) -> None:
        self.opts = opts
        self.results: list[TestResult] = []
        self.build = prepare.build_directory(opts.build)
        self.prefix = results_prefix(opts.name, opts.base)
        self.run = stack.enter_context(LockedDirectory(short_parent())).path
        self._equipment: dict[str, Equipment] = {}
        self.contents = self.equipment(opts.base).contents
        self.scratch = payload.scratch_image(opts.scratch.absolute() if opts.scratch else self.run,
                                             options.SCRATCH_MIB)

    def equipment(self, base: str) -> Equipment:
        """The kernel and the payload for a base; made when the first guest needs them."""
        if base not in self._equipment:
            own = base == self.opts.base
            boot = lab.Boot.find(base, self.opts.kernel if own else None)
            boot = dataclasses.replace(boot, kernel=uncompressed(boot.kernel, lab.cache_root()))
            module = self.opts.module if own else BASES[base].module
            image, contents = prepare.payload_image(self.build, module, base, module != "none",
                                                    boot.payload, self.run, not own)
            self._equipment[base] = Equipment(boot, image, contents)
        return self._equipment[base]

    def remove_old_results(self) -> None:
        prefixes = [results_prefix(self.opts.name, base) for base in BASES]
        others = tuple(other for other in prefixes
                       if other.startswith(self.prefix) and other != self.prefix)
        for old in lab.results_root().glob(f"{self.prefix}*.tap"):
            if not old.name.startswith(others):
                old.unlink()
        remove_logs(lab.log_root(), rf"check-{re.escape(self.prefix)}\d+(-\d+)?")

    def record(self, suite_name: str, title: str, results: list[TestResult]) -> None:
        self.results += results
        append_results(self.prefix + suite_name.removeprefix(self.prefix), title, results)

    def check_runner(self) -> None:
        print(f"suite {RUNNER}", flush=True)
        module = self.opts.module if self.opts.module != "none" else "stock"
        options_for_gpus = ["--module", module, "--build", str(self.build), "--kvm", self.opts.kvm]
        for result, seconds in self_check.run(options_for_gpus, self.opts.runner_tests):
            show_at_length(RUNNER, result, seconds)
            self.record(RUNNER, RUNNER, [result])

    def refuse_incomplete(self, suites: list[suite.Suite]) -> set[str]:
        """Fails suites whose programs are not in the payload, and names what makes them."""
        refused = set()
        for one in suites:
            for path in one.needs:
                if self.contents.has(path):
                    continue
                result = TestResult("needs", FAIL, f"/payload/{path} is missing"
                                    f"{self.contents.made_by(path)}")
                show(one.name, result)
                self.record(one.name, one.name, [result])
                refused.add(one.name)
        return refused

    def run_guest(self, name: str, hardware: suite.Hardware, steps: list[suite.Step]) -> None:
        """Runs the steps; after a lost guest the rest runs in a fresh one."""
        attempt = 0
        while steps:
            attempt += 1
            this = name if attempt == 1 else f"{name}-{attempt}"
            print(f"guest {this}: kernel {hardware.base}, {hardware.gpus} GPUs, "
                  f"{len(steps)} suites", flush=True)
            steps = self._one_boot(this, hardware, steps)

    def _one_boot(self, name: str, hardware: suite.Hardware,
                  steps: list[suite.Step]) -> list[suite.Step]:
        """Runs one guest. Returns the remaining steps if it is lost in a step."""
        left = list(steps)
        doing = "boot"
        try:
            with (LogDirectory(lab.log_root(), name) as log,
                  LockedDirectory(memory_parent()) as shared, LockedDirectory(short_parent()) as run,
                  Guest(hardware,
                        self._setup(hardware, run.path, shared.path, log.path)) as guest):
                while left:
                    step = left.pop(0)
                    doing = "step"
                    self._step(guest, len(steps) - len(left), step, log.path)
                doing = "unload"
                self._leave(guest, name)
        except GuestLost as error:
            if doing != "step":
                self._fail(doing, f"{doing}/{name}", str(error))
        except lab.Failure as error:
            self._fail(doing, f"{doing}/{name}", str(error))
        if doing == "boot":  # it did not boot: no step can run
            for step in left:
                self._fail(step.suite, step.title, f"not run: guest {name} did not come up")
            return []
        return left

    def _setup(self, hardware: suite.Hardware, run: Path, shared: Path, log: Path) -> Setup:
        equipment = self.equipment(hardware.base)
        boot = equipment.boot.with_image(hardware.image)
        return Setup(name=log.name, boot=boot, build=self.build, payload=equipment.payload,
                     run=run, shared=shared, log=log, scratch=self.scratch, kvm=self.opts.kvm,
                     trace=self.opts.trace, patience=self.opts.patience)

    def _environment(self, step: suite.Step) -> str:
        """The environment of every command: its scratch directory, and how slow the guest is."""
        values = [("SCRATCH", f"/scratch/{step.suite}"),
                  ("PATIENCE", str(math.ceil(self.opts.patience))),
                  *self.opts.environment]
        return "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in values)

    def _skips(self, step: suite.Step) -> skips.SkipList:
        return skips.load(self.opts.directory / f"{step.suite}.skips", {
            "base": step.hardware.base, "boot": step.boot,
            "kernel": "own" if self.opts.kernel else "packaged"}, self.contents.has)

    def _step(self, guest: Guest, number: int, step: suite.Step, log: Path) -> None:
        print(f"suite {step.title}", flush=True)
        file = log / f"{step.title.replace('/', '-')}.log"
        record = Record(step.title, step.protocol == "ktap", file, self.opts.verbose,
                        self._skips(step), guest.how_to_repeat())
        guest.sink = record
        before = guest.usage()
        try:
            status = guest.run(number, step.command, Deadline(step.timeout * self.opts.patience),
                               environment=self._environment(step))
        except GuestLost as error:
            self.record(step.suite, step.title, record.finish(None, [str(error)]))
            raise
        record.note(guest.kernel.refused.table(number))
        problems = [f"left behind: {text}" for text in differences(guest.usage, before)]
        problems += [str(complaint) for complaint in guest.kernel.of(number)]
        self.record(step.suite, step.title, record.finish(status, problems))

    def _leave(self, guest: Guest, name: str) -> None:
        """The end of a guest is a test, too: rmmod succeeds, and there was no complaint."""
        problems = []
        if guest.hardware.module != "none":
            problems += [text for text in [guest.unload()] if text]
        problems += [text for text in [guest.halt()] if text]
        problems += [str(complaint) for complaint in guest.kernel.rest()]
        for problem in problems:
            self._fail("unload", f"unload/{name}", problem)
        if not problems:
            result = TestResult(name, PASS)
            show("unload", result)
            self.record("unload", "unload", [result])

    def _fail(self, suite_name: str, title: str, problem: str) -> None:
        result = TestResult("", FAIL, problem)
        show_at_length(title, result)
        self.record(suite_name, title, [result])
