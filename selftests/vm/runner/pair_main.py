# SPDX-License-Identifier: GPL-2.0
"""`pair`: two guests on one network. `run` boots each; node 1 runs the commands of node 2."""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import lab
from .rundir import LockedDirectory, short_parent
from .run_main import BROKEN, on_signal

# Time for node 1 to notice the end and to power off.
END_SECONDS = 120
SERVE = "/payload/serve"


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="selftests/vm/pair", usage="%(prog)s [options] -- COMMAND...",
        description="Boots the guests node1 (10.0.0.1) and node2 (10.0.0.2), which share the "
                    "directory /shared, and runs COMMAND in node2. To run something in node1, "
                    "COMMAND calls on_node1 of scenarios/lib/pair.sh.",
        epilog="Exit status: that of `run` for node2 or, if that is 0, for node1.")
    result.add_argument("--node1", default="", metavar="OPTIONS", help="options of `run` for node1")
    result.add_argument("--node2", default="", metavar="OPTIONS", help="options of `run` for node2")
    result.add_argument("--both", default="", metavar="OPTIONS", help="options of `run` for both")
    result.add_argument("--name", default="pair", help="prefix of log directories (default pair)")
    result.add_argument("command", nargs="+", metavar="COMMAND")
    return result


def run_command(opts: argparse.Namespace, place: Path, number: int) -> list[str]:
    """The command that boots one guest."""
    own = opts.node1 if number == 1 else opts.node2
    command = ["--", SERVE] if number == 1 else ["--", *opts.command]
    may_reset = ["--may-reset"] if number == 1 else []
    return [str(lab.VM / "run"), "--name", f"{opts.name}-node{number}", "--network",
            f"{place},{number}", *may_reset, *shlex.split(opts.both), *shlex.split(own), *command]


def main(arguments: list[str]) -> int:
    opts = parser().parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    with LockedDirectory(short_parent()) as place:
        (place.path / "shared" / "asked").mkdir(parents=True)
        return both(opts, place.path)


def both(opts: argparse.Namespace, place: Path) -> int:
    log = lab.log_root() / f"{opts.name}-node1.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        node1 = subprocess.Popen(run_command(opts, place, 1), stdin=subprocess.DEVNULL, stdout=file,
                                 stderr=subprocess.STDOUT)
    node2 = subprocess.Popen(run_command(opts, place, 2), stdin=subprocess.DEVNULL)
    try:
        status2 = wait_for(node2, node1)
        (place / "shared" / "end").touch()
        status1 = node1.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        status1 = BROKEN
    except KeyboardInterrupt:
        return 130
    finally:
        stop(node1, node2)
    if status1:
        print(f"vm: node1 ended with status {status1}:\n{log.read_text(errors='replace')}",
              file=sys.stderr, flush=True)
    return status2 or status1


def wait_for(node2: subprocess.Popen[bytes], node1: subprocess.Popen[bytes]) -> int:
    """Waits for node 2. If node 1 fails, the result of node 2 is useless, and this ends node 2."""
    while node2.poll() is None:
        if node1.poll():
            print("vm: node1 is lost; ending node2", file=sys.stderr, flush=True)
            node2.terminate()
            node2.wait()
            break
        time.sleep(0.2)
    return node2.returncode


def stop(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        process.wait()
