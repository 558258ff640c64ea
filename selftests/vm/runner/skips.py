# SPDX-License-Identifier: GPL-2.0
"""Tests that are expected to skip, and why. Any other test that skips fails, and so does one of
these that does not skip.

A list has one line for each test, with the reason that the test itself prints:

    skip TEST [when KEY=VALUE[|VALUE]...] # REASON

TEST is the name in the results without that of the suite; in it, "*" stands for any characters, and
the first line that matches a test counts. A REASON that ends with "..." is the
beginning of what the test prints; for a test that prints nothing it is the reason. A line with
conditions applies if all of them are true. The condition missing=PATH is true if /payload has no
PATH. The reader of the list defines all other keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from .ktap import FAIL, NO_REASON, PASS, SKIP, TestResult
from .lab import Failure

_LINE = re.compile(r"skip (?P<test>\S+)(?: when (?P<conditions>[^#]+))? # (?P<reason>.+)$")


@dataclass(frozen=True)
class Skip:
    test: str
    reason: str

    def matches(self, test: str) -> bool:
        return fnmatchcase(test, self.test)

    def gives(self, reason: str) -> bool:
        beginning = self.reason.removesuffix("...")
        return reason.startswith(beginning) if beginning != self.reason else reason == beginning


@dataclass(frozen=True)
class SkipList:
    """The skips that one run of a suite expects."""

    origin: str
    skips: tuple[Skip, ...] = ()

    def judge(self, result: TestResult) -> TestResult:
        """The result, or a failure if it contradicts the list."""
        expected = next((skip for skip in self.skips if skip.matches(result.name)), None)
        if expected and result.outcome == SKIP and result.reason == NO_REASON:
            return replace(result, reason=expected.reason)
        if result.outcome == SKIP and not (expected and expected.gives(result.reason)):
            why = (f"skipped, but {self.origin} expects another reason" if expected else
                   f"skipped, and is not in {self.origin}")
            return replace(result, outcome=FAIL, reason=f"{why}: {result.reason}")
        if result.outcome == PASS and expected:
            return replace(result, outcome=FAIL, reason=f"passed, but {self.origin} expects that it "
                           f"skips: {expected.reason}")
        return result

    def missing(self, seen: Collection[str]) -> list[str]:
        """Lines about tests that did not run at all."""
        return [f"{self.origin} expects that {skip.test} skips, and there is no such test"
                for skip in self.skips if not any(map(skip.matches, seen))]


def _nothing(_path: str) -> bool:
    return False


def parse(text: str, origin: str, facts: Mapping[str, str],
          in_payload: Callable[[str], bool] = _nothing) -> SkipList:
    """The lines of a list whose conditions are true; `facts` has a value for each known key."""
    skips: list[Skip] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.match(line)
        if not match:
            raise Failure(f"{origin}:{number}: expected 'skip TEST [when KEY=VALUE...] # REASON'")
        conditions = [_is_true(condition, facts, in_payload, f"{origin}:{number}")
                      for condition in (match["conditions"] or "").split()]
        if not all(conditions):
            continue
        if any(skip.test == match["test"] for skip in skips):
            raise Failure(f"{origin}:{number}: {match['test']} is expected to skip twice")
        skips.append(Skip(match["test"], match["reason"].strip()))
    return SkipList(origin, tuple(skips))


def _is_true(condition: str, facts: Mapping[str, str], in_payload: Callable[[str], bool],
             where: str) -> bool:
    key, equals, values = condition.partition("=")
    if equals and key == "missing":
        return not in_payload(values)
    if not equals or key not in facts:
        raise Failure(f"{where}: condition {condition}; keys are missing, {', '.join(sorted(facts))}")
    return facts[key] in values.split("|")


def load(file: Path, facts: Mapping[str, str],
         in_payload: Callable[[str], bool] = _nothing) -> SkipList:
    """A suite without a list expects no skips."""
    return parse(file.read_text() if file.exists() else "", file.name, facts, in_payload)
