# SPDX-License-Identifier: GPL-2.0
"""Reads KTAP (and TAP 13/14) as kselftests and igt wrappers print it.

A parent result line follows its indented subtests. Leaves are counted and named; a parent is counted
only if it fails although none of its leaves did. A leaf that fails with "# TODO" is a failure
here: nothing is expected to fail silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

_RESULT = re.compile(
    r"(?P<indent>\s*)(?P<not>not )?ok +(?P<number>\d+)\b\s*(?:- )?\s*(?P<rest>.*)$")
_PLAN = re.compile(r"(?P<indent>\s*)1\.\.(?P<count>\d+)\s*(?:#\s*(?P<reason>.*))?$")
_BAIL = re.compile(r"\s*Bail out!\s*(?P<reason>.*)$")
_SKIP = re.compile(r"^SKIP\b:?\s*(?P<reason>.*)$", re.IGNORECASE)
_COMMENT = re.compile(r"\s*#")
_ASSERTION = re.compile(r"\s*#\s*(?P<text>\S+\.(c|cc|h):\d+:.*)")
_SUBTEST = re.compile(r"(?P<indent>\s*)# Subtest: (?P<name>.+)$")

PASS, FAIL, SKIP = "pass", "fail", "skip"
NO_REASON = "no reason given"


@dataclass(frozen=True)
class TestResult:
    name: str
    outcome: str
    reason: str = ""

    def line(self, suite: str = "") -> str:
        word = {PASS: "ok", FAIL: "not ok", SKIP: "skip"}[self.outcome]
        name = "/".join(filter(None, (suite, self.name)))
        reason = self.reason.splitlines()[0] if self.reason else ""
        return f"{word} {name}" + (f" # {reason}" if reason else "")


@dataclass
class _Level:
    """The tests of one indentation depth that have not been claimed by a parent yet."""

    indent: int
    plan: int | None = None
    seen: int = 0
    pending: list[TestResult] = field(default_factory=list)


class Parser:
    """Takes lines; `results` and `problems` have the outcome."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._levels: list[_Level] = []
        self._subtests: dict[int, str] = {}  # by indentation: the parent of the next tests
        self._finished: list[TestResult] = []
        self._assertion = ""  # the first that failed since the last result

    def feed(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.line(line)

    def line(self, line: str) -> TestResult | None:
        """Takes one line; returns the result if it counts, with the known part of its path."""
        line = line.rstrip("\r\n")
        if bail := _BAIL.match(line):
            self.problems.append(f"bailed out: {bail['reason'] or NO_REASON}")
            return None
        if subtest := _SUBTEST.match(line):
            self._subtests[len(subtest["indent"].expandtabs())] = subtest["name"].strip()
            return None
        if _COMMENT.match(line):
            if (assertion := _ASSERTION.match(line)) and not self._assertion:
                self._assertion = assertion["text"]
            return None
        if plan := _PLAN.match(line):
            self._plan(len(plan["indent"].expandtabs()), int(plan["count"]), plan["reason"])
            return None
        if result := _RESULT.match(line):
            return self._result(result)
        return None

    def finish(self) -> list[TestResult]:
        """All leaves in order; call it once, at the end of the output."""
        while self._levels:
            level = self._levels.pop()
            self._check_plan(level)
            self._finished.extend(level.pending)
        if not self._finished and not self.problems:
            self.problems.append("no test ran")
        return self._finished

    def _level(self, indent: int) -> _Level:
        """The level of this depth; deeper ones must have been claimed by a parent before."""
        if not self._levels or self._levels[-1].indent < indent:
            self._levels.append(_Level(indent))
        return self._levels[-1]

    def _plan(self, indent: int, count: int, reason: str | None) -> None:
        self._close_deeper(indent)
        level = self._level(indent)
        if level.plan is not None and level.seen == level.plan:
            # The next program of the same depth: several programs ran one after the other.
            level.plan, level.seen = None, 0
        if level.plan is not None:
            self.problems.append(f"a second plan (1..{count}) at test {level.seen} of {level.plan}")
            level.seen = 0
        level.plan = count
        if count == 0:
            skip = _SKIP.match(reason or "")
            if skip:
                level.pending.append(TestResult("", SKIP, skip["reason"] or NO_REASON))
            else:
                self.problems.append("an empty plan (1..0)")

    def _close_deeper(self, indent: int) -> list[TestResult]:
        children: list[TestResult] = []
        while self._levels and self._levels[-1].indent > indent:
            level = self._levels.pop()
            self._check_plan(level)
            children = level.pending + children
        return children

    def _check_plan(self, level: _Level) -> None:
        if level.plan is not None and level.seen != level.plan:
            self.problems.append(f"{level.seen} of {level.plan} planned tests reported a result")

    def _result(self, match: re.Match[str]) -> TestResult | None:
        indent = len(match["indent"].expandtabs())
        name, _, directive = match["rest"].partition(" # ")
        if match["rest"].startswith("# "):
            name, directive = "", match["rest"][2:]
        name, directive = name.strip(), directive.strip()
        outcome = FAIL if match["not"] else PASS
        skip = _SKIP.match(directive)
        if skip and outcome == PASS:
            outcome, directive = SKIP, skip["reason"] or NO_REASON
        if outcome == FAIL and not directive:
            directive = self._assertion
        self._assertion = ""
        children = self._close_deeper(indent)
        self._subtests = {d: name for d, name in self._subtests.items() if d <= indent}
        level = self._level(indent)
        level.seen += 1
        if int(match["number"]) != level.seen:
            self.problems.append(f"test {name or '?'} has number {match['number']}, "
                                 f"expected {level.seen}")
        own = TestResult(name or f"test-{level.seen}", outcome, directive)
        path = [name for depth, name in sorted(self._subtests.items()) if 0 < depth <= indent]
        with_path = replace(own, name="/".join([*path, own.name]))
        if not children:
            level.pending.append(own)
            return with_path
        named = [TestResult(f"{own.name}/{c.name}" if c.name else own.name, c.outcome, c.reason)
                 for c in children]
        level.pending.extend(named)
        if outcome == FAIL and all(c.outcome != FAIL for c in children):
            level.pending.append(own)
            return with_path
        return None


def summary(results: Iterable[TestResult]) -> str:
    outcomes = [result.outcome for result in results]
    return (f"{outcomes.count(PASS)} passed, {outcomes.count(FAIL)} failed, "
            f"{outcomes.count(SKIP)} skipped")
