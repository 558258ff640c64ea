#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""junit-to-tap.py FILE: turns a report of ctest into lines of build/results/*.tap."""

import re
import sys
import xml.etree.ElementTree as ElementTree


def skip_reason(case):
    """What the test itself printed on skipping, else what ctest says."""
    output = case.findtext("system-out") or ""
    said = re.search(r": Skipped\n(.+)", output)
    skipped = case.find("skipped")
    message = skipped.get("message", "") if skipped is not None else ""
    return said.group(1).strip() if said else message or "no reason given"


def line(case):
    name = case.get("name")
    status = case.get("status")
    if status == "run":
        return f"ok {name}"
    if status in ("notrun", "disabled") and case.find("skipped") is not None:
        return f"skip {name} # {skip_reason(case)}"
    return f"not ok {name}"


def main():
    cases = ElementTree.parse(sys.argv[1]).getroot().iter("testcase")
    for case in cases:
        print(line(case))


if __name__ == "__main__":
    main()
