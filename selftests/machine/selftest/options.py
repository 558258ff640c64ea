# SPDX-License-Identifier: GPL-2.0
"""The command line of amdgpu-criu-selftest."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from . import plan

EPILOG = """\
exit status: 0 all tests passed or were skipped; 1 a test failed; 2 wrong usage or no permission;
3 other processes use the GPUs; 4 there is nothing to test; 130 interrupted, with a report.
See amdgpu-criu-selftest(1)."""


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 10000:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _program(text: str) -> str:
    """Tests run in another directory."""
    return os.path.abspath(text) if "/" in text else text


def parse(words: Sequence[str], version: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="amdgpu-criu-selftest", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Tests checkpoint and restore on the GPUs of this machine, and writes a report.")
    parser.add_argument("--stage", choices=plan.STAGES, default="quick",
                        help="quick: two minutes; full: every test; soak: the same, then some again for hours")
    parser.add_argument("--hours", type=_positive, default=4, help="of the stage soak (default: 4)")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN",
                        help="tests of this name alone, such as one_gpu or 'kselftest render_*'; may repeat")
    parser.add_argument("--report", type=Path, metavar="DIRECTORY",
                        help="a new or empty directory (default: amdgpu-criu-report-TIME)")
    parser.add_argument("--disruptive", action="store_true",
                        help="also tests that reset GPUs, reload the driver or change settings for seconds")
    parser.add_argument("--yes", action="store_true", help="although other processes use the GPUs")
    parser.add_argument("--list", action="store_true", help="list the tests, run none")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, run nothing")
    parser.add_argument("--criu", type=_program, default="criu", metavar="PROGRAM", help="the CRIU to test (default: criu)")
    parser.add_argument("--scratch", type=Path, default=Path("/var/tmp"), metavar="DIRECTORY",
                        help="where images are written for a moment (default: /var/tmp)")
    parser.add_argument("--patience", type=int, choices=range(1, 101), default=1, metavar="FACTOR",
                        help="multiplies time limits, for slow machines")
    parser.add_argument("--version", action="version", version=f"amdgpu-criu-selftest {version}")
    return parser.parse_args(words)
