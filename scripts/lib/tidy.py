#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""tidy.py BUILD-TREE CACHE: runs clang-tidy over our C++ (but not over its unit tests).

A file is looked at again only when it, a header of ours that it includes, its compiler options,
or the configuration has changed: the cache holds a mark for each combination found clean.
"""

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def is_ours(path):
    return (
        path.suffix == ".cc"
        and path.is_relative_to(TOP)
        and not path.is_relative_to(TOP / "build")
        and not path.name.endswith("_test.cc")
    )


def included_files(entry):
    """Files of ours that a compilation reads, by the compiler's own account."""
    command = [word for word in shlex.split(entry["command"]) if word != "ccache"]
    output = command.index("-o")
    del command[output : output + 2]
    listed = subprocess.run(
        command + ["-MM", "-MT", "x"],
        cwd=entry["directory"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    paths = re.sub(r"\\\n", " ", listed.partition(":")[2]).split()
    resolved = ((Path(entry["directory"]) / path).resolve() for path in paths)
    return sorted(path for path in resolved if path.is_relative_to(TOP))


def key(entry):
    digest = hashlib.sha256(entry["command"].encode())
    for path in [TOP / ".clang-tidy", *included_files(entry)]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def look_at(entry, tree, cache):
    """Returns what clang-tidy complains about, or an empty string."""
    try:
        mark = cache / key(entry)
    except subprocess.CalledProcessError as error:
        return f"{entry['file']}: does not preprocess\n{error.stderr}"
    if mark.exists():
        return ""
    done = subprocess.run(
        ["clang-tidy", "--quiet", "-p", str(tree), entry["file"]],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        mark.touch()
        return ""
    return done.stdout or done.stderr


def main():
    tree, cache = Path(sys.argv[1]), Path(sys.argv[2])
    cache.mkdir(parents=True, exist_ok=True)
    entries = json.loads((tree / "compile_commands.json").read_text())
    ours = {e["file"]: e for e in entries if is_ours(Path(e["file"]))}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = pool.map(lambda e: look_at(e, tree, cache), ours.values())
        bad = [text for text in complaints if text]
    print("\n".join(bad))
    print(f"{len(ours)} files, {len(bad)} with complaints")
    return 1 if bad or not ours else 0


if __name__ == "__main__":
    sys.exit(main())
