#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs clang-tidy over our C++, except its unit tests.

The cache holds, for each file, a digest of what clang-tidy read when it found the file clean: the
file, headers of ours that it includes, compiler options, the list of checks and the configuration.
A file that has the same digest is not read again.

With --sample N, at most N of the files that were never found clean are read, chosen by a random seed:
up to two thirds of them are files that the last commits or the working tree changed.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]

# Options of g++ that clang does not have, or that make it report kernel macros.
GCC_ONLY = {"-fno-gnu-unique", "-Wzero-as-null-pointer-constant"}
RECENT_COMMITS = 10


def clang_command(command):
    """Returns the command without options and precompiled headers that only g++ accepts."""
    words = [word for word in shlex.split(command) if word not in GCC_ONLY]
    included = [at for at, word in enumerate(words)
                if word == "-include" and words[at + 1].endswith("/cmake_pch.hxx")]
    for at in reversed(included):
        del words[at:at + 2]
    return shlex.join(words)


def is_ours(path):
    return (
        path.suffix == ".cc"
        and path.is_relative_to(TOP)
        and not path.is_relative_to(TOP / "build")
        and not path.name.endswith("_test.cc")
    )


def parse_dependencies(text):
    """Object -> paths, of the output of `ninja -t deps`."""
    found, current = {}, None
    for line in text.splitlines():
        if line.startswith("    ") and current is not None:
            current.append(line.strip())
        elif ": #deps" in line:
            current = found.setdefault(line.partition(": #deps")[0], [])
        else:
            current = None
    return found


def single_files(entry):
    """The entry, or one for each file that its file only includes (CMakeLists.txt, BATCH)."""
    file = Path(entry["file"])
    if file.parent.name != "batch":
        return [entry]
    parts = [str(TOP / part) for part in re.findall(r'^#include "(.*)"$', file.read_text(), re.MULTILINE)]
    return [{**entry, "file": part, "command": entry["command"].replace(entry["file"], part)}
            for part in parts]


def our_dependencies(tree):
    """Object -> files of ours that its last compilation read."""
    listed = subprocess.run(["ninja", "-C", str(tree), "-t", "deps"],
                            capture_output=True, text=True, check=True).stdout
    result = {}
    for output, paths in parse_dependencies(listed).items():
        resolved = {(tree / path).resolve() for path in paths}
        result[output] = sorted(path for path in resolved if path.is_relative_to(TOP))
    return result


def git_lines(*arguments):
    done = subprocess.run(["git", "-C", str(TOP), "-c", f"safe.directory={TOP}", *arguments],
                          capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def recently_changed():
    """Files that the last commits or the working tree changed."""
    commits = git_lines("rev-list", f"--max-count={RECENT_COMMITS + 1}", "HEAD")
    changed = git_lines("diff", "--name-only", commits[-1]) if commits else []
    changed += git_lines("ls-files", "--others", "--exclude-standard")
    return {TOP / path for path in changed}


def choose(never, changed, reads, count, rng):
    """Selects files to read from those that were never found clean."""
    recent = {file for file in never if file in changed}
    for header in sorted(changed):
        users = sorted(file for file in never if header in reads[file])
        if users and not recent.intersection(users):
            recent.add(users[0])
    chosen = set(rng.sample(sorted(recent), min(len(recent), count * 2 // 3)))
    rest = sorted(set(never) - chosen)
    return chosen.union(rng.sample(rest, min(len(rest), count - len(chosen))))


class Tidy:
    def __init__(self, tree, cache, checks):
        self.cache = cache
        self.options = [f"--checks={checks}"] if checks else []
        entries = json.loads((tree / "compile_commands.json").read_text())
        entries = [part for entry in entries for part in single_files(entry)]
        for entry in entries:
            entry["command"] = clang_command(entry["command"])
        ours = [entry for entry in entries if is_ours(Path(entry["file"]))]
        self.commands = {Path(entry["file"]): entry["command"] for entry in ours}
        dependencies = our_dependencies(tree)
        self.reads = {Path(entry["file"]): dependencies.get(entry["output"], []) for entry in ours}
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "compile_commands.json").write_text(json.dumps(ours))

    def _mark(self, file):
        name = hashlib.sha256("\0".join([str(file.relative_to(TOP)), *self.options]).encode())
        return self.cache / f"{name.hexdigest()}.clean"

    def _digest(self, file):
        digest = hashlib.sha256("\0".join([self.commands[file], *self.options]).encode())
        for path in [TOP / ".clang-tidy", file, *self.reads[file]]:
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def stale(self):
        """(files that changed since they were found clean, files that never were)"""
        changed, never = [], []
        for file in sorted(self.commands):
            mark = self._mark(file)
            if not mark.exists():
                never.append(file)
            elif mark.read_text() != self._digest(file):
                changed.append(file)
        return changed, never

    def complaint(self, file):
        """What clang-tidy reports about a file; an empty string when it is clean."""
        digest = self._digest(file)
        done = subprocess.run(
            ["clang-tidy", "--quiet", "-p", str(self.cache), *self.options, str(file)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            self._mark(file).write_text(digest)
            return ""
        return done.stdout or done.stderr


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path, help="a current build directory")
    parser.add_argument("cache", type=Path)
    parser.add_argument("--checks", default="", help="replaces the list in .clang-tidy")
    parser.add_argument("--sample", type=int, metavar="N", help="see above")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    tidy = Tidy(arguments.tree.resolve(), arguments.cache.resolve(), arguments.checks)
    files, never = tidy.stale()
    if arguments.sample:
        seed = int(os.environ.get("TIDY_SEED") or random.randrange(2**32))
        chosen = choose(never, recently_changed(), tidy.reads, arguments.sample,
                        random.Random(seed))
        print(f"TIDY_SEED={seed}: {len(chosen)} of {len(never)} files that were never read")
        never = sorted(chosen)
    files += never
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        bad = [text for text in pool.map(tidy.complaint, files) if text]
    print("\n".join(bad))
    print(f"{len(tidy.commands)} files, {len(files)} read, {len(bad)} with complaints")
    return 1 if bad or not tidy.commands else 0


if __name__ == "__main__":
    sys.exit(main())
