# SPDX-License-Identifier: GPL-2.0
"""The scenarios, their groups and their time limits."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

# Simple scenarios come first in each group. `run` without names runs DEFAULT_GROUP.
DEFAULT_GROUP = "kfd"
GROUPS: dict[str, tuple[str, ...]] = {
    "kfd": (
        "workload_alone", "early_dump", "one_gpu", "unprivileged", "own_pages",
        "own_pages_moved", "own_pages_swapped", "split_mappings", "split_own_pages", "generated",
        "leave_running",
        "leave_stopped", "pre_dump", "three_rounds", "two_gpus", "rocr", "rocr_kernels", "rocr_waves",
        "rocr_waves_moved", "rocr_xnack", "waves_parked", "rocr_train", "train_together", "criu_4_1_1",
        "criu_4_3", "no_plugin", "libraries_missing",
        "wrong_memory", "flipped_byte", "stream_refused", "disk_full", "dump_killed", "stock_ioctl",
        "tool_check", "tool_images", "tool_bench", "late_restore", "lazy_pages", "rocr_grid", "rocr_faults",
        "reloaded_driver"),
    "render": (
        "render_alone", "render_one_gpu", "render_two_gpus", "render_criu_4_1_1",
        "render_criu_4_3", "render_leave_running", "render_three_rounds", "render_many",
        "render_vmm", "render_fork", "render_unrelated", "render_family",
        "render_family_criu_4_1_1", "render_family_criu_4_3", "render_refused",
        "render_after_refusal", "render_in_flight", "render_busy", "render_killed"),
    # With a GPU that has user queues.
    "user_queues": (
        "render_queues", "render_queues_criu_4_1_1", "render_queues_criu_4_3",
        "render_queues_leave_running", "render_queues_three_rounds"),
    "trees": (
        "tree_of_two", "tree_two_gpus", "tree_criu_4_1_1", "tree_criu_4_3", "tree_leave_running",
        "tree_pre_dump", "tree_disk_full", "soak"),
    "contents": (
        "contents_bounded", "contents_elsewhere", "contents_compressed", "contents_incremental",
        "contents_pre_dump", "contents_page_server", "contents_overlap", "contents_disk_fails",
        "contents_disk_hangs", "contents_damaged"),
    "containers": (
        "container_runc", "container_users_runc", "container_criu_4_1_1", "container_criu_4_3",
        "container_podman", "container_moved_runc", "container_moved_crun"),
    "parallel": (
        "parallel", "parallel_criu_4_3", "parallel_criu_4_1_1", "parallel_off",
        "parallel_namespaces", "replicas"),
    "faults": ("faults_dump", "faults_restore", "faults_signals"),
    "commit": ("commit_point", "post_dump_fails", "attached", "restore_bounded", "service",
               "neighbour_plugin"),
    # The last one loads our driver again.
    "stock": ("stock_round_trip", "stock_refused", "foreign_criu_4_1_1", "foreign_criu_4_2_1"),
    # With the image that scripts/rocm makes.
    "rocm": ("hip", "llm", "backend_ops"),
    # With GPUs that reach one another's VRAM through their BARs.
    "peer_bars": ("render_peer_vram",),
    # With GPUs of two generations.
    "mixed": ("other_generation",),
    # With two GPUs of one kind, whose compute units are in different shader engines.
    "uneven": ("uneven_full", "uneven_moved"),
    # With a GPU in partitions.
    "partitions": ("partition_kept", "partition_moved"),
    # With a GPU that the driver can divide into partitions.
    "divided": ("divided_gpu",),
    # With the image that scripts/vulkan makes.
    "vulkan": ("vulkaninfo", "vulkan"),
    # In a pair of guests, on node 2.
    "pair": ("podman_arrives",),
    # Likewise, with the image that scripts/slurm makes; the last one ends node 1.
    "slurm": ("slurm_preempted", "slurm_refused", "slurm_node_lost"),
    # podman_arrives runs this on node 1.
    "node1": ("podman_leaves",),
    # With one GPU.
    "single_gpu": ("faults_reset",),
    # With what `make deb` has built.
    "packaged": ("packages",),
    # The campaign `faults` runs these instead of @faults, which is a sample of them.
    "all_faults": (
        "faults_dump_criu", "faults_dump_criu_4_1_1", "faults_dump_criu_4_3",
        "faults_restore_criu", "faults_restore_criu_4_1_1", "faults_restore_criu_4_3"),
    # Each is one half of a scenario over two boots.
    "two_boots": (
        "own_pages_dump", "own_pages_elsewhere", "fresh_driver_dump", "fresh_driver",
        "train_reboot_dump", "train_reboot",
        "generation_dump", "generation", "generation_render_dump", "generation_render",
        "swapped_gpus_dump", "swapped_gpus",
        "swapped_nodes_dump", "swapped_nodes", "container_swapped_dump", "container_swapped"),
}

# A run of these groups takes one of the other CRIU versions at random; with EVERY=1, all of them.
OTHER_CRIUS = ("criu_4_1_1", "criu_4_3")
TAKING_TURNS = ("kfd", "render", "trees", "parallel")
# A run takes one of each pair, likewise.
PAIRS = (
    ("container_runc", "container_moved_runc"),
    ("container_criu_4_3", "container_podman"),
    ("parallel_off", "parallel_namespaces"),
    ("render_busy", "render_killed"),
)

_DEFINITION = re.compile(r"^scenario_(\w+)\(\)", re.MULTILINE)


class Mistake(Exception):
    """The catalog or the command line is wrong; the text is for the user."""


def listed() -> list[str]:
    return [name for names in GROUPS.values() for name in names]


def defined(directory: Path) -> set[str]:
    """Returns the scenarios that the shell files of a directory define."""
    return {name for file in directory.glob("*.sh")
            for name in _DEFINITION.findall(file.read_text())}


def check(directory: Path) -> None:
    """Fails unless each defined scenario is listed once, and each listed one defined."""
    names = listed()
    twice = {name for name in names if names.count(name) > 1}
    wrong = sorted(twice | set(names) ^ defined(directory))
    if wrong:
        raise Mistake(f"not both defined and listed once in catalog.py: {', '.join(wrong)}")


def _members(group: str, environment: Mapping[str, str]) -> list[str]:
    if _number(environment, "EVERY", 0) != 0:
        return list(GROUPS[group])
    seed = _number(environment, "SEED", secrets.randbelow(1000000))
    turn = seed % 2
    left_out = {pair[1 - turn] for pair in PAIRS}
    if group in TAKING_TURNS:
        left_out |= {name for name in GROUPS[group] if name.endswith(OTHER_CRIUS[1 - turn])}
    return [name for name in GROUPS[group] if name not in left_out]


def select(words: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """Returns the scenarios that these words name: NAME or @GROUP."""
    names: list[str] = []
    for word in list(words) or [f"@{DEFAULT_GROUP}"]:
        if word.removeprefix("@") in GROUPS and word.startswith("@"):
            names += _members(word[1:], environment)
        elif word in listed():
            names.append(word)
        else:
            raise Mistake(f"there is no scenario {word}; see run --list")
    return names


def _number(environment: Mapping[str, str], name: str, otherwise: int) -> int:
    text = environment.get(name) or str(otherwise)
    if not text.isdigit():
        raise Mistake(f"{name}={text} is not a number")
    return int(text)


def patience(environment: Mapping[str, str]) -> int:
    return max(1, _number(environment, "PATIENCE", 1))


def limit(name: str, environment: Mapping[str, str]) -> int:
    """Returns seconds, multiplied by PATIENCE. EVERY=1 is a campaign; ROUNDS are those of `soak`."""
    whole = _number(environment, "EVERY", 0) != 0
    seconds = 300
    if name in ("flipped_byte", "render_many", "tool_bench"):
        seconds = 600
    elif name == "generated":
        seconds = 100000 if whole else 600
    elif name.startswith("faults_"):
        seconds = 7200 if whole else 900
    elif name == "contents_damaged":
        seconds = 36000 if whole else 600
    elif name in GROUPS["rocm"]:
        seconds = 3600
    elif "train" in name and whole:
        seconds = 3600
    elif name == "soak":
        seconds = 240 + _number(environment, "ROUNDS", 1) * 90
    return seconds * patience(environment)
