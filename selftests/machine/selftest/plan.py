# SPDX-License-Identifier: GPL-2.0
"""What each stage runs on a machine, and what it leaves out, with the reason."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from control import catalog

from .machine import NONE, SERIES, STOCK, Machine

KSELFTEST, SCENARIO = "kselftest", "scenario"
STAGES = ("quick", "full", "soak")
USUAL_SECONDS = {"quick": 120, "full": 2400}

QUICK_KSELFTESTS = ("query", "session", "pause", "checkpoint", "restore", "kfd_roundtrip", "kinds_queues",
                    "render_gem", "render_ctx")
QUICK_SCENARIOS = ("one_gpu", "render_one_gpu", "rocr", "rocr_waves", "waves_parked")
FULL_GROUPS = ("kfd", "render", "user_queues", "trees", "contents", "parallel", "commit", "peer_bars")
# The kselftest stock_criu_op crashes kernels that have this ioctl without the fixes of the series.
STOCK_KSELFTESTS = ()
STOCK_SCENARIOS = ("workload_alone", "stock_round_trip", "stock_refused")
# Repeated by the stage soak until its time is over.
SOAK_KSELFTESTS = ("kfd_race", "render_race")
SOAK_SCENARIOS = ("one_gpu", "render_one_gpu", "three_rounds", "rocr_waves", "rocr_train", "tree_of_two",
                  "generated")
RACE_SECONDS = 60

# What runs only with --disruptive, and what it disturbs.
RESETS = "resets the GPU: every program on it loses its work"
DISTURBING = {
    (KSELFTEST, "render_hang"): RESETS,
    (KSELFTEST, "unbind"): "takes the GPU from the driver",
    (SCENARIO, "reloaded_driver"): "unloads the driver and loads it again",
    (SCENARIO, "other_parameters"): "loads the driver again and again, with other parameters",
    (SCENARIO, "libraries_missing"): "hides libraries of the system for seconds",
    (SCENARIO, "contents_elsewhere"): "turns io_uring off for seconds",
    (SCENARIO, "tool_stalled"): "mounts a file system that does not answer, for seconds",
    (SCENARIO, "unprivileged"): "opens the device files to everybody and changes Yama for seconds",
}
# kselftest programs outside of kselftest-list.txt that a stage runs.
MORE_KSELFTESTS = ("unbind",)
# Scenarios of FULL_GROUPS that a machine other than the guest of our tests cannot run.
LEFT_OUT = {
    "soak": "the stage soak repeats other scenarios",
    "tool_check": "expects the GPUs of the software GPU",
    "tool_bench": "is for small GPUs: amdgpu-criu bench measures this one",
    "neighbour_plugin": "needs a second plugin, which is not installed",
    "frozen_memory": "searches VRAM through debugfs, which takes hours if there is much",
    "suspend_refused": "fills the memory of the machine",
    "job_helper": "writes the configuration of amdgpu-criu-slurm, and opens the device files to everybody",
}
# Scenarios that use several versions of CRIU besides those whose names say so.
OTHER_CRIUS = ("kfd_closed_ways", "lazy_pages", "commit_point", "restore_bounded", "contents_overlap",
               "contents_disk_hangs")
CRIU_OF = {"criu_4_1_1": "/opt/criu-4.1.1/criu", "criu_4_3": "/opt/criu-4.3/criu"}
# The program of a scenario with compiled kernels; there is one for each supported chip.
KERNELS_OF = {
    "rocr_kernels": "rocr_kernels", "rocr_waves": "rocr_kernels", "rocr_waves_moved": "rocr_kernels",
    "rocr_xnack": "rocr_kernels", "waves_parked": "rocr_parked", "rocr_train": "rocr_train",
    "train_together": "rocr_train", "rocr_grid": "rocr_grid", "rocr_faults": "rocr_faults",
}
# Of a kselftest program, in seconds on a machine that is not busy.
KSELFTEST_SECONDS = 300


@dataclass(frozen=True)
class Step:
    kind: str
    test: str
    limit: int
    environment: Mapping[str, str] = field(default_factory=dict)
    disturbs: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind} {self.test}"


@dataclass(frozen=True)
class NotRun:
    name: str
    reason: str


@dataclass(frozen=True)
class Wishes:
    stage: str = "quick"
    disruptive: bool = False
    patience: int = 1
    only: Sequence[str] = ()


@dataclass(frozen=True)
class Plan:
    steps: tuple[Step, ...]
    not_run: tuple[NotRun, ...]
    repeated: tuple[Step, ...] = ()  # until the time of the stage soak is over


def listed_kselftests(root: Path) -> list[str]:
    lines = (root / "kselftest" / "kselftest-list.txt").read_text().split()
    return [line.partition(":")[2] for line in lines]


def step(kind: str, test: str, wishes: Wishes, seconds: int = 0) -> Step:
    environment = {"PATIENCE": str(wishes.patience)}
    if kind == KSELFTEST:
        limit = KSELFTEST_SECONDS * wishes.patience + seconds
        if seconds:
            environment["CRIU_TEST_SECONDS"] = str(seconds)
        if wishes.stage == "quick":
            environment["CRIU_TEST_SAMPLE"] = "6"
        if not wishes.disruptive:
            environment["CRIU_TEST_NO_RESET"] = "1"
    else:
        limit = catalog.limit(test, environment)
    return Step(kind, test, limit, environment, DISTURBING.get((kind, test), ""))


def _wanted(stage: str, machine: Machine, root: Path) -> list[tuple[str, str]]:
    if machine.interface == STOCK:
        kselftests, scenarios = STOCK_KSELFTESTS, STOCK_SCENARIOS
    elif stage == "quick":
        kselftests, scenarios = QUICK_KSELFTESTS, QUICK_SCENARIOS
    else:
        kselftests = (*listed_kselftests(root), *MORE_KSELFTESTS)
        scenarios = tuple(name for group in FULL_GROUPS for name in catalog.GROUPS[group])
    return [*((KSELFTEST, name) for name in kselftests), *((SCENARIO, name) for name in scenarios)]


def why_not(kind: str, test: str, machine: Machine, wishes: Wishes, root: Path) -> str:
    """Why a test cannot run here, or an empty text."""
    if what := DISTURBING.get((kind, test)):
        if not wishes.disruptive:
            return f"{what} (--disruptive)"
    if kind == KSELFTEST:
        return "" if (root / "kselftest/amdgpu_criu" / test).exists() else "is not installed"
    if test in LEFT_OUT:
        return LEFT_OUT[test]
    needed = {path for suffix, path in CRIU_OF.items() if test.endswith(suffix)}
    if test in OTHER_CRIUS:
        needed = set(CRIU_OF.values())
    if missing := sorted(needed - set(machine.other_crius)):
        return f"needs {' and '.join(missing)}"
    return _why_no_rocr(test, machine, root)


def _why_no_rocr(test: str, machine: Machine, root: Path) -> str:
    program = KERNELS_OF.get(test)
    if not program and test != "rocr":
        return ""
    if not machine.has_rocr:
        return "needs libhsa-runtime64.so.1 (libhsa-runtime64-1)"
    for gpu in machine.gpus:
        if program and not (root / "kernels" / gpu.isa / f"{program}.co").exists():
            return f"has no compiled kernels for {gpu.isa}"
        if test == "rocr_xnack" and not gpu.isa.startswith("gfx9"):
            return f"{gpu.isa} cannot repeat accesses (XNACK)"
    return ""


def _selected(name: str, only: Sequence[str]) -> bool:
    """--only has names, also without their kind, or patterns."""
    return not only or any(fnmatch.fnmatchcase(word, pattern) for pattern in only
                           for word in (name, name.partition(" ")[2]))


def _divide(pairs: Iterable[tuple[str, str]], machine: Machine, wishes: Wishes, root: Path,
            seconds: int = 0) -> tuple[list[Step], list[NotRun]]:
    steps, not_run = [], []
    for kind, test in pairs:
        made = step(kind, test, wishes, seconds if kind == KSELFTEST else 0)
        if not _selected(made.name, wishes.only):
            continue
        if reason := why_not(kind, test, machine, wishes, root):
            not_run.append(NotRun(made.name, reason))
        else:
            steps.append(made)
    return steps, not_run


def make(machine: Machine, wishes: Wishes, root: Path) -> Plan:
    if machine.interface == NONE or not machine.gpus:
        return Plan((), ())
    steps, not_run = _divide(_wanted(wishes.stage, machine, root), machine, wishes, root)
    repeated: list[Step] = []
    if wishes.stage == "soak" and machine.interface == SERIES:
        pairs = [*((KSELFTEST, name) for name in SOAK_KSELFTESTS),
                 *((SCENARIO, name) for name in SOAK_SCENARIOS)]
        repeated, missing = _divide(pairs, machine, wishes, root, RACE_SECONDS)
        not_run += [one for one in missing if one.name not in {other.name for other in not_run}]
    # What disturbs comes last: it may end the driver.
    return Plan(tuple(sorted(steps, key=lambda one: bool(one.disturbs))), tuple(not_run), tuple(repeated))
