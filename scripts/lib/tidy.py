#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""tidy.py BUILD-TREE CACHE [CHECKS]: runs clang-tidy over our C++, except its unit tests.

CHECKS takes the place of the list in .clang-tidy. A file is looked at again only when it, a header
of ours that it includes, its compiler options, the list of checks or the configuration changed:
the cache holds a mark for each combination that was found clean.
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

# Options of the project's compiler, g++, that clang does not know, or minds in macros of the kernel.
GCC_ONLY = {"-fno-gnu-unique", "-Wzero-as-null-pointer-constant"}


def is_ours(path):
    return (
        path.suffix == ".cc"
        and path.is_relative_to(TOP)
        and not path.is_relative_to(TOP / "build")
        and not path.name.endswith("_test.cc")
    )


def included_files(entry):
    """Files of ours that a compilation reads, by the compiler's own account."""
    command = [word for word in shlex.split(entry["command"]) if not word.endswith("ccache")]
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


class Tidy:
    def __init__(self, tree, cache, checks):
        self.cache = cache
        self.options = [f"--checks={checks}"] if checks else []
        entries = json.loads((tree / "compile_commands.json").read_text())
        ours = {e["file"]: e for e in entries if is_ours(Path(e["file"]))}
        self.entries = sorted(ours.values(), key=lambda entry: entry["file"])
        for entry in self.entries:
            words = [w for w in shlex.split(entry["command"]) if w not in GCC_ONLY]
            entry["command"] = shlex.join(words)
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "compile_commands.json").write_text(json.dumps(self.entries))

    def _mark(self, entry):
        digest = hashlib.sha256("\0".join([entry["command"], *self.options]).encode())
        for path in [TOP / ".clang-tidy", *included_files(entry)]:
            digest.update(path.read_bytes())
        return self.cache / digest.hexdigest()

    def complaint(self, entry):
        """What clang-tidy says about a file; an empty string when it is clean."""
        try:
            mark = self._mark(entry)
        except subprocess.CalledProcessError as error:
            return f"{entry['file']}: does not preprocess\n{error.stderr}"
        if mark.exists():
            return ""
        done = subprocess.run(
            ["clang-tidy", "--quiet", "-p", str(self.cache), *self.options, entry["file"]],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            mark.touch()
            return ""
        return done.stdout or done.stderr


def main():
    checks = sys.argv[3] if len(sys.argv) > 3 else ""
    tidy = Tidy(Path(sys.argv[1]), Path(sys.argv[2]), checks)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        bad = [text for text in pool.map(tidy.complaint, tidy.entries) if text]
    print("\n".join(bad))
    print(f"{len(tidy.entries)} files, {len(bad)} with complaints")
    return 1 if bad or not tidy.entries else 0


if __name__ == "__main__":
    sys.exit(main())
