#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turns a report of ctest into lines of build/results/*.tap."""

import argparse
import ctypes
import errno
import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "selftests" / "vm"))

from runner import skips  # noqa: E402
from runner.ktap import FAIL, PASS, SKIP, TestResult  # noqa: E402


def skip_reason(case):
    """What the test itself printed on skipping; None if it was not the test that skipped.

    ctest reports a program that was not built as skipped, too.
    """
    skipped = case.find("skipped")
    message = skipped.get("message", "") if skipped is not None else ""
    if not message.startswith("SKIP_"):
        return None
    said = re.search(r": Skipped\n(.+)", case.findtext("system-out") or "")
    return said.group(1).strip() if said else "no reason given"


def result(case):
    # ctest appends the value of a test's parameter.
    name = case.get("name").partition("  # GetParam()")[0]
    if case.get("status") == "run":
        return TestResult(name, PASS, f"{float(case.get('time') or 0):.1f} s")
    reason = skip_reason(case)
    return TestResult(name, SKIP, reason) if reason else TestResult(name, FAIL)


def io_uring_works():
    """True if the kernel looks at the arguments of io_uring_setup(2), which are wrong."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(425, 1, None)
    return ctypes.get_errno() == errno.EFAULT


def facts():
    """What tests on the host depend on."""
    true = {"gpu": os.path.exists("/dev/kfd"), "root": os.geteuid() == 0,
            "io_uring": io_uring_works()}
    return {name: "yes" if value else "no" for name, value in true.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", metavar="FILE")
    parser.add_argument("--skips", type=Path, metavar="LIST", required=True,
                        help="tests that are expected to skip, as selftests/vm/runner/skips.py has it")
    parser.add_argument("--all", action="store_true", help="all tests ran: none of LIST is missing")
    options = parser.parse_args()
    expected = skips.load(options.skips, facts())
    results = [result(case) for case in ElementTree.parse(options.report).getroot().iter("testcase")]
    for seen in results:
        print(expected.judge(seen).line())
    missing = expected.missing({seen.name for seen in results}) if options.all else []
    for text in missing:
        print(f"not ok {options.skips.name} # {text}")


if __name__ == "__main__":
    main()
