#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""series-known.py KNOWN PATCHES SAID: prints the reports of checkpatch that KNOWN does not explain.

KNOWN has lines "TYPE PATTERN why", PATTERN being of names of patches; PATCHES lines "PART NAME [NEEDS...]",
in order; SAID the output of checkpatch --terse --show-types. Exits with 1 if anything is left.
"""

import fnmatch
import re
import sys
from pathlib import Path

LINE = re.compile(r"(?:.*/)?([^/]+)/(\d{4})-[^:]*\.patch:\d+: (?:ERROR|WARNING|CHECK):(\w+):")


def read_known(path, names):
    known = {}
    for line in path.read_text().splitlines():
        words = line.split("#")[0].split(maxsplit=2)
        if not words:
            continue
        if len(words) < 3 or not fnmatch.filter(names, words[1]):
            sys.exit(f"{path}: a line must have TYPE, a pattern of patches, and a reason: {line}")
        known[tuple(words[:2])] = 0
    return known


def main():
    known_path, names_path, said_path = (Path(word) for word in sys.argv[1:])
    parts = {}
    for part, name, *_needs in (line.split() for line in names_path.read_text().splitlines()):
        parts.setdefault(part, []).append(name)
    known = read_known(known_path, [name for names in parts.values() for name in names])
    bad = False
    for line in said_path.read_text().splitlines():
        match = LINE.match(line)
        if not match:
            print(line)
            bad = True
            continue
        name, kind = parts[match[1]][int(match[2]) - 1], match[3]
        entry = next((key for key in known if key[0] == kind and fnmatch.fnmatch(name, key[1])), None)
        if entry:
            known[entry] += 1
        else:
            print(line)
            bad = True
    for (kind, name), used in known.items():
        print(f"known: {kind} {name}: {used}" + ("" if used else ", so the entry can be removed"))
    sys.exit(bad)


if __name__ == "__main__":
    main()
