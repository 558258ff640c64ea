# SPDX-License-Identifier: GPL-2.0
"""`run`: one guest, one command."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import re
import signal
import sys
from pathlib import Path

from . import lab, options, prepare, terminal
from .deadline import Deadline
from .guest import Guest, GuestLost, Setup, SwitchedOff, TimedOut
from .kernel_image import uncompressed
from .ktap import FAIL, Parser, TestResult, summary
from .leaks import differences
from .payload import scratch_image
from .results import append_results
from .rundir import LockedDirectory, LogDirectory, memory_parent, short_parent

TIMED_OUT = 124
BROKEN = 125


class Output:
    """Passes the command's output to our standard output, a log file and the KTAP parser."""

    def __init__(self, log: Path, ktap: bool) -> None:
        self._file = log.open("wb")
        self.parser = Parser() if ktap else None
        self._line = b""

    def __call__(self, data: bytes) -> None:
        terminal.write_all(sys.stdout.fileno(), data)
        self._file.write(data)
        self._file.flush()
        if self.parser:
            *lines, self._line = (self._line + data).split(b"\n")
            self.parser.feed(line.decode(errors="replace") for line in lines)

    def close(self) -> None:
        if self.parser and self._line:
            self.parser.line(self._line.decode(errors="replace"))
        self._file.close()


def say(text: str) -> None:
    print(f"vm: {text}", file=sys.stderr, flush=True)


def on_signal(number: int, _frame: object) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def default_name(opts: argparse.Namespace) -> str:
    if opts.ktap:
        return opts.ktap
    if opts.shell:
        return "shell"
    first = re.split(r"[\s;|&]", opts.command[0].strip(), maxsplit=1)[0]
    return re.sub(r"[^A-Za-z0-9._-]", "", Path(first).name) or "run"


def main(arguments: list[str]) -> int:
    opts = options.parse(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    try:
        return run(opts)
    except TimedOut as error:
        say(str(error))
        return TIMED_OUT
    except lab.Failure as error:
        say(str(error))
        return BROKEN
    except KeyboardInterrupt as error:
        say(f"ended by {str(error) or 'SIGINT'}")
        return 128 + (signal.Signals[str(error)] if str(error) else signal.SIGINT)


def run(opts: argparse.Namespace) -> int:
    hardware = options.hardware(opts)
    build = prepare.build_directory(opts.build)
    boot = lab.Boot.find(opts.base, opts.kernel).with_image(opts.image)
    boot = dataclasses.replace(boot, kernel=uncompressed(boot.kernel, lab.cache_root()))
    with contextlib.ExitStack() as stack:
        work = stack.enter_context(LockedDirectory(short_parent(), opts.keep))
        shared = stack.enter_context(LockedDirectory(memory_parent(), opts.keep))
        log = stack.enter_context(LogDirectory(lab.log_root(), opts.name or default_name(opts)))
        if opts.keep:
            say(f"run directory {work.path}, shared files {shared.path}")
        image, _ = prepare.payload_image(build, opts.module, opts.base, bool(opts.gpus),
                                         [*boot.payload, *opts.payload], work.path, opts.quiet,
                                         opts.function_trace)
        scratch = scratch_image(opts.scratch.absolute() if opts.scratch else work.path,
                                opts.scratch_size)
        setup = Setup(name=log.path.name, boot=boot, build=build, payload=image, run=work.path,
                      shared=shared.path, log=log.path, scratch=scratch, kvm=opts.kvm,
                      trace=opts.trace, shell=opts.shell, quiet=opts.quiet,
                      patience=opts.patience, network=opts.network)
        guest = stack.enter_context(Guest(hardware, setup))
        return shell(guest) if opts.shell else command(guest, opts, log.path)


def shell(guest: Guest) -> int:
    say("a shell in the guest; leave it with `exit` or ^D; /payload has what was built")
    with terminal.RawTerminal():
        status = guest.interact(1, terminal.size())
    problem = guest.halt()
    if problem:
        say(problem)
    return status


def command(guest: Guest, opts: argparse.Namespace, log: Path) -> int:
    output = Output(log / "output.log", bool(opts.ktap))
    guest.sink = output
    try:
        before = guest.usage() if opts.check_leaks or opts.unload else {}
        status = guest.run(1, options.command_text(opts.command), Deadline(opts.timeout))
        problems = leaks(guest, before) if before else []
        if opts.unload:
            problems += [f"rmmod: {text}" for text in [guest.unload()] if text]
        problems += [text for text in [guest.halt()] if text]
    except SwitchedOff as error:
        if not opts.may_reset:
            raise
        output.close()
        say(str(error).splitlines()[0])
        return verdict(guest, 0, [str(complaint) for complaint in guest.kernel.complaints], opts.quiet)
    except GuestLost as error:
        output.close()
        if output.parser:
            lost = TestResult("run", FAIL, str(error).splitlines()[0])
            append_results(opts.ktap, opts.ktap, output.parser.finish() + [lost])
        raise
    output.close()
    problems += [str(complaint) for complaint in guest.kernel.complaints]
    problems += guest.kernel.refused.table(1)
    if output.parser:
        problems += ktap(opts.ktap, output.parser)
    return verdict(guest, status, problems, opts.quiet)


def leaks(guest: Guest, before: dict[str, str]) -> list[str]:
    return [f"left behind: {text}" for text in differences(guest.usage, before)]


def ktap(suite: str, parser: Parser) -> list[str]:
    results = parser.finish()
    results += [TestResult("run", FAIL, problem) for problem in parser.problems]
    failed = [f"{result.name} failed" for result in results if result.outcome == FAIL]
    append_results(suite, suite, results)
    say(f"{suite}: {summary(results)}")
    return failed + parser.problems


def verdict(guest: Guest, status: int, problems: list[str], quiet: bool) -> int:
    for problem in problems:
        say(problem)
    if problems or (status and not quiet):
        say(f"command ended with status {status}; logs in {guest.setup.log}")
    if status and not quiet:
        say(guest.last_words(10))
    if not quiet:
        say(f"done after {guest.elapsed():.1f} s")
    return status or (1 if problems else 0)
