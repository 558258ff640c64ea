# SPDX-License-Identifier: GPL-2.0
"""The report of a run: as text, as JSON and as JUnit."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field

from runner.ktap import FAIL, PASS, SKIP, TestResult

from .execute import StepResult
from .machine import SERIES, Machine
from .plan import NotRun

FORMAT = 1
INTERFACES = {"series": "the amdgpu-criu series", "stock": "the kernel's own ioctl, without the series",
              "none": "none"}
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")


@dataclass
class Report:
    version: str
    stage: str
    started: str                # UTC
    machine: Machine
    seconds: float = 0
    steps: list[StepResult] = field(default_factory=list)
    not_run: list[NotRun] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False

    def tests(self) -> Iterator[tuple[StepResult, TestResult]]:
        return ((step, test) for step in self.steps for test in step.tests)

    def count(self, outcome: str) -> int:
        return sum(test.outcome == outcome for _, test in self.tests())

    def summary(self) -> str:
        return (f"{self.count(PASS)} passed, {self.count(FAIL)} failed, {self.count(SKIP)} skipped, "
                f"{len(self.not_run)} not run")


def hardware_line(report: Report) -> str:
    """A row of the table `Tested hardware` of README.md."""
    names = ", ".join(sorted({f"{gpu.name} ({gpu.isa})" for gpu in report.machine.gpus}))
    kernel = report.machine.kernel.split()[0] if report.machine.kernel else "?"
    criu = report.machine.criu or "none"
    return (f"| {len(report.machine.gpus)} x {names} | {kernel}, {report.machine.interface} | {criu} | "
            f"{report.stage}: {report.summary()} | {report.started[:10]} |")


def machine_lines(machine: Machine) -> list[str]:
    lines = [f"GPU        {gpu}" for gpu in machine.gpus] or ["GPU        none that KFD drives"]
    firmware = {f"{gpu.isa}: " + ", ".join(f"{name} {value}" for name, value in gpu.firmware.items())
                for gpu in machine.gpus if gpu.firmware}
    lines += [f"firmware   {one}" for one in sorted(firmware)]
    lines.append(f"kernel     {machine.kernel}")
    lines.append(f"interface  {INTERFACES[machine.interface]}")
    lines += [f"version    {name} {value}" for name, value in machine.versions.items()]
    lines.append(f"CRIU       {machine.criu or 'none'}")
    lines.append(f"system     {machine.system}{', a virtual machine' if machine.virtual else ''}")
    return lines


def _failures(report: Report) -> list[str]:
    lines = []
    for step, test in report.tests():
        if test.outcome == FAIL:
            lines.append(f"not ok {step.step.name}: {test.name}")
            lines += [f"    {test.reason}"] if test.reason else []
            lines.append(f"    see {step.log}")
    return lines


def _grouped(pairs: Iterator[tuple[str, str]]) -> list[str]:
    """Names by their reason, reasons in order of appearance."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in pairs:
        by_reason.setdefault(reason, []).append(name)
    return [f"{reason}: {', '.join(names)}" for reason, names in by_reason.items()]


def as_text(report: Report) -> str:
    lines = [f"amdgpu-criu-selftest {report.version}, stage {report.stage}, {report.started}, "
             f"{report.seconds:.0f} s", "", *machine_lines(report.machine), ""]
    for step in report.steps:
        word = {PASS: "ok", FAIL: "not ok", SKIP: "skip"}[step.outcome]
        lines.append(f"{word:6} {step.step.name:40} {step.seconds:7.1f} s  {len(step.tests)} tests")
    for title, rows in (
            ("Failures", _failures(report)),
            ("Skipped", _grouped((f"{step.step.test}/{test.name}", test.reason)
                                 for step, test in report.tests() if test.outcome == SKIP)),
            ("Not run", _grouped((one.name, one.reason) for one in report.not_run)),
            ("Notes", report.notes)):
        if rows:
            lines += ["", title, *(f"  {row}" for row in rows)]
    if report.interrupted:
        lines += ["", "The run was interrupted."]
    lines += ["", report.summary(), "", "For the table of tested hardware:", hardware_line(report)]
    return "\n".join(lines) + "\n"


def _of_step(step: StepResult) -> dict[str, object]:
    return {"name": step.step.name, "kind": step.step.kind, "outcome": step.outcome,
            "seconds": round(step.seconds, 2), "limit_seconds": step.step.limit, "log": step.log,
            "disturbs": step.step.disturbs, "kernel_complaints": step.complaints,
            "tests": [{"name": test.name, "outcome": test.outcome, "reason": test.reason}
                      for test in step.tests]}


def as_json(report: Report) -> str:
    return json.dumps({
        "format": FORMAT, "version": report.version, "stage": report.stage, "started": report.started,
        "seconds": round(report.seconds, 1), "interrupted": report.interrupted,
        "series": report.machine.interface == SERIES,
        "passed": report.count(PASS), "failed": report.count(FAIL), "skipped": report.count(SKIP),
        "machine": report.machine.facts(), "steps": [_of_step(step) for step in report.steps],
        "not_run": [{"name": one.name, "reason": one.reason} for one in report.not_run],
        "notes": report.notes,
    }, indent=1) + "\n"


def _printable(text: str) -> str:
    """XML has no control characters."""
    return _NOT_XML.sub("?", text)


def as_junit(report: Report) -> str:
    top = ElementTree.Element("testsuites", name="amdgpu-criu-selftest")
    for step in report.steps:
        suite = ElementTree.SubElement(
            top, "testsuite", name=step.step.name, tests=str(len(step.tests)),
            time=f"{step.seconds:.2f}",
            failures=str(sum(test.outcome == FAIL for test in step.tests)),
            skipped=str(sum(test.outcome == SKIP for test in step.tests)))
        for test in step.tests:
            case = ElementTree.SubElement(suite, "testcase", name=_printable(test.name),
                                          classname=step.step.name.replace(" ", "."))
            if test.outcome != PASS:
                tag = "failure" if test.outcome == FAIL else "skipped"
                ElementTree.SubElement(case, tag, message=_printable(test.reason))
    if report.not_run:
        suite = ElementTree.SubElement(top, "testsuite", name="not run", tests=str(len(report.not_run)),
                                       failures="0", skipped=str(len(report.not_run)))
        for one in report.not_run:
            case = ElementTree.SubElement(suite, "testcase", name=one.name, classname="not-run")
            ElementTree.SubElement(case, "skipped", message=_printable(one.reason))
    ElementTree.indent(top)
    return ElementTree.tostring(top, encoding="unicode", xml_declaration=True) + "\n"
