#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""junit-to-tap.py FILE: turns a report of ctest into lines of build/results/*.tap."""

import re
import sys
import xml.etree.ElementTree as ElementTree


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


def line(case):
    name = case.get("name")
    if case.get("status") == "run":
        return f"ok {name}"
    reason = skip_reason(case)
    return f"skip {name} # {reason}" if reason else f"not ok {name}"


def main():
    cases = ElementTree.parse(sys.argv[1]).getroot().iter("testcase")
    for case in cases:
        print(line(case))


if __name__ == "__main__":
    main()
