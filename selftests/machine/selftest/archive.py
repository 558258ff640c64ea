# SPDX-License-Identifier: GPL-2.0
"""The files of a report, and their archive. None has contents of memory."""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path

from . import machine, report
from .execute import StepResult
from .plan import SCENARIO
from runner.ktap import FAIL

ARCHIVE = "report.tar.gz"
_OF_DRIVER = re.compile(r"amdgpu|kfd|\[drm|criu", re.IGNORECASE)
# More of one file is not kept.
FILE_BYTES = 4 << 20


def copy_bounded(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as file:
        target.write_bytes(file.read(FILE_BYTES))


def keep_files_of(step: StepResult, scratch: Path, directory: Path) -> None:
    """What images contain, as text; of a scenario that failed also its logs."""
    if step.step.kind != SCENARIO:
        return
    name = step.step.test
    patterns = ("show-*.json", "*.log") if step.outcome == FAIL else ("show-*.json",)
    for pattern in patterns:
        for file in sorted((scratch / "e2e" / name).glob(pattern)):
            if file.is_file() and not file.is_symlink():
                copy_bounded(file, directory / name / file.name)


def write_kernel_log(directory: Path, before: str, messages: Iterable[str]) -> None:
    """The driver's messages since the boot, and all since the start of the tests."""
    lines = [line for line in before.splitlines() if _OF_DRIVER.search(line)]
    (directory / "dmesg.txt").write_text("\n".join([*lines, "--- tests", *messages]) + "\n")


def write_topology(directory: Path, root: Path = Path("/")) -> None:
    """KFD's nodes and their links; files that cannot be read are left out."""
    nodes = root / machine.TOPOLOGY
    for file in sorted(nodes.glob("**/*")):
        if file.is_file() and (value := machine.text(file)):
            target = directory / "topology" / file.relative_to(nodes)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(value + "\n")


def write(made: report.Report, directory: Path) -> Path:
    """Writes the three forms of the report, and the archive of all files of the directory."""
    (directory / "report.txt").write_text(report.as_text(made))
    (directory / "report.json").write_text(report.as_json(made))
    (directory / "junit.xml").write_text(report.as_junit(made))
    archive = directory / ARCHIVE
    with tarfile.open(archive, "w:gz") as tar:
        for file in sorted(directory.rglob("*")):
            if file.is_file() and file != archive:
                tar.add(file, f"{directory.name}/{file.relative_to(directory)}")
    return archive


def mounts_below(directory: Path, mountinfo: str) -> list[str]:
    """What is mounted there, as /proc/self/mountinfo says."""
    places = [line.split()[4] for line in mountinfo.splitlines() if len(line.split()) > 4]
    return [place for place in places if Path(place).is_relative_to(directory)]


def remove_scratch(directory: Path, mountinfo: str) -> str:
    """Removes it unless something is mounted below; returns why it is left, or an empty text."""
    if mounts := mounts_below(directory, mountinfo):
        return f"{directory} is left, because {', '.join(mounts)} is mounted"
    shutil.rmtree(directory, ignore_errors=True)
    return ""
