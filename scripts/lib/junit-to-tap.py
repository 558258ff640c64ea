#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turns the reports of ctest and of GoogleTest in a build tree into lines of build/results/*.tap."""

import argparse
import ctypes
import errno
import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "selftests" / "vm"))

from runner import skips  # noqa: E402
from runner.ktap import FAIL, PASS, SKIP, TestResult  # noqa: E402


def of_gtest(case):
    """The result of one test in a report of GoogleTest."""
    name = f"{case.get('classname')}.{case.get('name')}"
    skipped = case.find("skipped")
    if case.find("failure") is not None:
        return TestResult(name, FAIL)
    if skipped is not None:
        # The first line is the place in the source; the test's message follows.
        said = skipped.get("message", "").split("\n", 1)[-1].strip()
        return TestResult(name, SKIP, said.splitlines()[0] if said else "no reason given")
    return TestResult(name, PASS, f"{float(case.get('time') or 0):.1f} s")


def of_program(case, tree):
    """The results of a program. One that died, or failed without a failed test, is a failed test."""
    name, passed = case.get("name"), case.get("status") == "run"
    report = tree / "reports" / f"{name}.xml"
    if not report.exists():
        return [TestResult(name, PASS, f"{float(case.get('time') or 0):.1f} s") if passed else
                TestResult(name, FAIL)]
    tests = [of_gtest(test) for test in ElementTree.parse(report).getroot().iter("testcase")
             if test.get("status") == "run"]
    if not passed and all(test.outcome != FAIL for test in tests):
        tests.append(TestResult(name, FAIL, "it ended with an error after its tests"))
    return tests


def io_uring_works():
    """True if io_uring_setup(2) fails because of its arguments, not because it is disabled."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(425, 1, None)
    return ctypes.get_errno() == errno.EFAULT


def facts():
    """What tests on the host depend on."""
    true = {"gpu": os.path.exists("/dev/kfd"), "root": os.geteuid() == 0,
            "io_uring": io_uring_works(), "fuse": os.access("/dev/fuse", os.R_OK | os.W_OK)}
    return {name: "yes" if value else "no" for name, value in true.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path, metavar="DIRECTORY")
    parser.add_argument("--skips", type=Path, metavar="LIST", required=True,
                        help="tests that are expected to skip, as selftests/vm/runner/skips.py has it")
    parser.add_argument("--all", action="store_true", help="all tests ran: none of LIST is missing")
    options = parser.parse_args()
    expected = skips.load(options.skips, facts())
    programs = ElementTree.parse(options.tree / "junit.xml").getroot().iter("testcase")
    results = [result for case in programs for result in of_program(case, options.tree)]
    for seen in results:
        print(expected.judge(seen).line())
    missing = expected.missing({seen.name for seen in results}) if options.all else []
    for text in missing:
        print(f"not ok {options.skips.name} # {text}")


if __name__ == "__main__":
    main()
