#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Compares operations of ggml on the GPU with those on the CPU, by ggml's own program.

    backend_ops.py PROGRAM BACKEND KNOWN SECONDS

PROGRAM is test-backend-ops of llama.cpp. It runs the smallest case of each operation with each
combination of types, one after the other, for at most SECONDS. With CRIU_TEST_SAMPLE=K in the
environment it runs one case in K, those of part CRIU_TEST_SEED % K. Cases that do not pass must be in the
file KNOWN: lines "REGEX # REASON", matched against OPERATION(PARAMETERS) and its result. Exit code 1:
another case does not pass, an entry of KNOWN does not occur in a run of all cases, or time ran out.
"""

from __future__ import annotations

import csv
import os
import re
import secrets
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path

# More work than a software GPU does in minutes.
MOST_WORK = 10**9
_TYPES = re.compile(r"type\w*=(\w+)")
_SIZES = re.compile(r"(?<=[=\[,])\d+(?=[,\]]|$)")
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_BEGUN = re.compile(r"^  (\w+\(.*\)): ")
_CASE = re.compile(r"^\s*(\w+\(.*\)): (.*)$")


@dataclass(frozen=True)
class Case:
    operation: str
    parameters: str

    def __str__(self) -> str:
        return f"{self.operation}({self.parameters})"

    def work(self) -> int:
        """Returns the approximate work: the product of all sizes."""
        return prod(max(1, int(size)) for size in _SIZES.findall(self.parameters))


def choose(cases: Iterable[Case]) -> list[Case]:
    """Returns the smallest case of each operation with each combination of types."""
    chosen: dict[tuple[str, ...], Case] = {}
    for case in cases:
        key = (case.operation, *_TYPES.findall(case.parameters))
        if key not in chosen or case.work() < chosen[key].work():
            chosen[key] = case
    return [case for case in chosen.values() if case.work() <= MOST_WORK]


def parse(line: str) -> tuple[str, str] | None:
    """Returns the case and its result: ok, not supported, or the text of the failure."""
    found = _CASE.match(_COLOR.sub("", line).rstrip())
    if not found:
        return None
    text = found[2].strip()
    if text.startswith("not supported"):
        return found[1], "not supported"
    return found[1], "ok" if text == "OK" else text


class Known:
    def __init__(self, text: str) -> None:
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        self.patterns = [line.split(" # ")[0].strip() for line in lines]
        self.seen: set[str] = set()

    def has(self, case: str, result: str) -> bool:
        for pattern in self.patterns:
            if re.search(pattern, f"{case}: {result}"):
                self.seen.add(pattern)
                return True
        return False

    def unseen(self) -> list[str]:
        return [pattern for pattern in self.patterns if pattern not in self.seen]


def list_cases(program: str, backend: str) -> list[Case]:
    done = subprocess.run([program, "support", "-b", backend, "--output", "csv"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return [Case(row["op_name"], row["op_params"]) for row in csv.DictReader(done.stdout.splitlines())
            if row["supported"] == "1"]


def sample(cases: list[Case]) -> list[Case]:
    """Returns the part of the cases that the environment selects."""
    parts = int(os.environ.get("CRIU_TEST_SAMPLE") or 1)
    seed = int(os.environ.get("CRIU_TEST_SEED") or secrets.randbelow(1000000))
    if parts > 1:
        print(f"part {seed % parts} of {parts}: CRIU_TEST_SAMPLE={parts} CRIU_TEST_SEED={seed}")
    return cases[seed % parts::parts]


def run_until_end(program: str, backend: str, cases: list[Case], seconds: float) -> dict[str, str]:
    """Returns the results of the cases up to the end of the program, and that a case has ended it."""
    results: dict[str, str] = {}
    begun = ""  # the case that the program has named last
    # Not buffered, so that the program names a case before it ends in it.
    command = ["stdbuf", "-o0", program, "test", "-b", backend, "-o", ",".join(map(str, cases))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        # The time limit also applies to a program that prints nothing.
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        before = time.monotonic()
        assert process.stdout
        for line in process.stdout:
            named = _BEGUN.match(_COLOR.sub("", line))
            begun = named[1] if named else begun
            result = parse(line)
            if result:
                now = time.monotonic()
                results[result[0]] = result[1]
                print(f"{result[0]}: {result[1]} ({now - before:.1f} s)", flush=True)
                before = now
        timer.cancel()
    if process.returncode not in (0, 1, -9):
        left = [str(case) for case in cases if str(case) not in results]
        if left:
            culprit = begun if begun in left else left[0]
            results[culprit] = f"ends the program with {process.returncode}"
            print(f"{culprit}: {results[culprit]}", flush=True)
    return results


def run(program: str, backend: str, cases: list[Case], seconds: float) -> dict[str, str]:
    deadline = time.monotonic() + seconds
    results: dict[str, str] = {}
    while left := [case for case in cases if str(case) not in results]:
        remaining = deadline - time.monotonic()
        new = run_until_end(program, backend, left, remaining) if remaining > 0 else {}
        if not new:
            break
        results |= new
    return results


def main(words: list[str]) -> int:
    if len(words) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    program, backend, known_file, seconds = words
    known = Known(Path(known_file).read_text())
    everything = choose(list_cases(program, backend))
    cases = sample(everything)
    print(f"{len(cases)} of {len(everything)} cases, of {len({case.operation for case in cases})} operations")
    results = run(program, backend, cases, float(seconds))
    bad = {case: result for case, result in results.items() if result not in ("ok", "not supported")}
    unknown = [f"{case}: {result}" for case, result in bad.items() if not known.has(case, result)]
    count = Counter("fail" if case in bad else result for case, result in results.items())
    print(f"{count['ok']} pass, {count['fail']} do not, {count['not supported']} are not supported, "
          f"{len(cases) - len(results)} were not run")
    problems = [f"does not pass: {text}" for text in unknown]
    if len(cases) == len(everything):
        problems += [f"known, but does not occur: {pattern}" for pattern in known.unseen()]
    if left := [str(case) for case in cases if str(case) not in results]:
        problems.append(f"the time was too short, it ended during {left[0]}")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
