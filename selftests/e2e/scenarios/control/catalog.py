# SPDX-License-Identifier: GPL-2.0
"""The scenarios, their groups and their time limits."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

# Simple scenarios come first in each group. `run` without names runs DEFAULT_GROUP.
DEFAULT_GROUP = "kfd"
GROUPS: dict[str, tuple[str, ...]] = {
    "kfd": (
        "workload_alone", "early_dump", "one_gpu", "unprivileged", "own_pages",
        "own_pages_moved", "own_pages_swapped", "split_mappings", "split_own_pages", "generated",
        "leave_running",
        "leave_stopped", "kfd_closed", "kfd_closed_ways", "pre_dump", "three_rounds", "two_gpus", "rocr",
        "rocr_kernels", "rocr_waves", "rocr_waves_moved", "rocr_xnack", "waves_parked", "rocr_train", "train_together", "criu_4_1_1",
        "criu_4_3", "no_plugin", "libraries_missing",
        "wrong_memory", "flipped_byte", "stream_refused", "disk_full", "dump_killed", "stock_ioctl",
        "tool_check", "tool_images", "tool_bench", "tool_stalled", "job_helper",
        "suspend", "frozen_memory", "suspend_refused", "suspend_killed", "suspend_render", "suspend_two_gpus",
        "late_restore", "lazy_pages", "rocr_grid", "rocr_faults", "reloaded_driver",
        "other_parameters"),
    "render": (
        "render_alone", "render_one_gpu", "render_two_gpus", "render_criu_4_1_1",
        "render_criu_4_3", "render_leave_running", "render_three_rounds", "render_many",
        "render_vmm", "render_fork", "render_unrelated", "render_family",
        "render_family_criu_4_1_1", "render_family_criu_4_3", "render_refused",
        "render_cut_sharing", "render_after_refusal", "render_in_flight", "render_busy",
        "render_awaits", "render_killed"),
    # With a GPU that has user queues.
    "user_queues": (
        "render_queues", "render_queues_criu_4_1_1", "render_queues_criu_4_3",
        "render_queues_leave_running", "render_queues_three_rounds"),
    "trees": (
        "tree_of_two", "tree_two_gpus", "tree_criu_4_1_1", "tree_criu_4_3", "tree_leave_running",
        "tree_pre_dump", "tree_disk_full", "soak"),
    "contents": (
        "contents_bounded", "contents_elsewhere", "contents_compressed", "contents_encrypted",
        "contents_incremental", "contents_pre_dump", "contents_page_server", "contents_overlap", "contents_disk_fails",
        "contents_two_dumps", "contents_disk_hangs", "contents_damaged", "images_on_overlay"),
    "containers": (
        "container_runc", "container_paused", "container_users_runc", "container_criu_4_1_1", "container_criu_4_3",
        "container_podman", "container_moved_runc", "container_moved_crun", "container_users_moved",
        "container_privileges",
        "container_pre_dump"),
    "parallel": (
        "parallel", "parallel_criu_4_3", "parallel_criu_4_1_1", "parallel_off",
        "parallel_namespaces", "replicas", "neighbour_pids"),
    "snapshots": ("snapshot", "snapshot_replicas", "snapshot_stream"),
    "faults": ("faults_dump", "faults_restore", "faults_signals"),
    "commit": ("commit_point", "post_dump_fails", "attached", "restore_bounded", "service",
               "neighbour_plugin"),
    # The last one loads our driver again.
    "stock": ("stock_round_trip", "stock_refused", "foreign_criu_4_1_1", "foreign_criu_4_2_1"),
    # With the image that scripts/rocm makes.
    "rocm": ("hip", "llm", "whisper", "llm_server", "backend_ops", "library", "rccl_train", "bert", "resnet"),
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
    "vulkan": ("vulkaninfo", "vulkan", "vulkan_compute"),
    # With the image that scripts/dbgapi makes.
    "debugger": ("debugger_parked", "debugger_waves"),
    # With the image of vulkan, for an hour.
    "vulkan_ops": ("vulkan_ops",),
    # In a pair of guests, on node 2.
    "pair": ("podman_arrives",),
    # Likewise, with the image that scripts/slurm makes; the last one ends node 1.
    "slurm": ("slurm_preempted", "slurm_refused", "slurm_node_lost"),
    # Likewise, with the image that scripts/rocm 7.2 rccl makes.
    "rccl-pair": ("rccl_nodes",),
    # podman_arrives, pod_arrives and rccl_nodes run these on node 1.
    "node1": ("podman_leaves", "pod_leaves", "rccl_joins"),
    # The campaign `killed` runs these.
    "killed": ("killed_runc", "killed_crun", "killed_podman"),
    # With the image that scripts/pods makes.
    "pods": ("pod_cdi", "pod_devices", "pod_crun", "pod_image", "pod_readonly", "pod_users", "pod_helper", "pod_helper_restores",
             "container_privileges_least", "container_privileges_shm", "container_moved_readonly"),
    # Likewise, in a pair of guests, on node 2.
    "pods-pair": ("pod_arrives",),
    # Likewise; the campaign `killed` runs it.
    "pods_killed": ("pod_killed",),
    # With one GPU.
    "single_gpu": ("faults_reset", "faults_reset_filled", "faults_reset_saved"),
    # With what `make deb` has built.
    "packaged": ("packages", "packages_selftest", "packages_stock"),
    # The campaign `machine` runs this.
    "packaged_full": ("packages_full",),
    # The campaign `faults` runs these instead of @faults, which is a sample of them.
    "all_faults": (
        "faults_dump_criu", "faults_dump_criu_4_1_1", "faults_dump_criu_4_3",
        "faults_restore_criu", "faults_restore_criu_4_1_1", "faults_restore_criu_4_3"),
    # Each is one half of a scenario over two boots.
    "two_boots": (
        "own_pages_dump", "own_pages_elsewhere", "fresh_driver_dump", "fresh_driver",
        "train_reboot_dump", "train_reboot",
        "generation_dump", "generation", "generation_render_dump", "generation_render",
        "swapped_gpus_dump", "swapped_gpus", "fewer_gpus_dump", "fewer_gpus",
        "swapped_nodes_dump", "swapped_nodes", "container_swapped_dump", "container_swapped"),
}

# A run takes one scenario of each set at random, by SEED; with TURNS=all or EVERY=1, or by its name,
# each. Each set is a draw of its own, and the suites of `check` are another.
TURNS: tuple[tuple[str, ...], ...] = (
    # The other CRIU versions.
    ("criu_4_1_1", "criu_4_3"),
    ("render_criu_4_1_1", "render_criu_4_3", "render_family_criu_4_1_1", "render_family_criu_4_3"),
    # Scenarios of one kind.
    ("own_pages", "own_pages_moved", "own_pages_swapped", "split_own_pages", "split_mappings"),
    ("leave_running", "leave_stopped", "kfd_closed", "kfd_closed_ways", "pre_dump", "three_rounds"),
    ("rocr_kernels", "rocr_grid", "rocr_faults"),
    ("rocr_waves_moved", "rocr_xnack", "waves_parked"),
    ("rocr_train", "train_together", "generated"),
    ("no_plugin", "libraries_missing", "wrong_memory", "flipped_byte", "stream_refused"),
    ("disk_full", "dump_killed", "reloaded_driver", "other_parameters"),
    ("tool_check", "tool_images", "tool_bench", "tool_stalled", "job_helper", "suspend",
     "frozen_memory",
     "suspend_refused", "suspend_killed", "suspend_render", "suspend_two_gpus"),
    ("late_restore", "lazy_pages"),
    ("render_two_gpus", "render_many", "render_fork", "render_unrelated", "render_leave_running",
     "render_three_rounds"),
    ("render_refused", "render_cut_sharing", "render_after_refusal", "render_in_flight",
     "render_busy", "render_awaits", "render_killed"),
    ("render_queues_criu_4_1_1", "render_queues_criu_4_3", "render_queues_leave_running",
     "render_queues_three_rounds"),
    ("tree_two_gpus", "tree_leave_running", "tree_pre_dump", "tree_disk_full", "tree_criu_4_1_1",
     "tree_criu_4_3", "soak"),
    ("contents_bounded", "contents_elsewhere", "contents_compressed", "contents_encrypted",
     "contents_overlap", "contents_disk_fails", "contents_two_dumps", "contents_disk_hangs", "contents_pre_dump",
     "contents_page_server", "contents_incremental", "images_on_overlay"),
    ("container_runc", "container_paused", "container_moved_runc", "container_moved_crun",
     "container_users_runc", "container_criu_4_3", "container_podman", "container_privileges",
     "container_pre_dump"),
    ("parallel_off", "parallel_namespaces", "replicas", "neighbour_pids", "parallel_criu_4_1_1",
     "parallel_criu_4_3"),
    ("snapshot", "snapshot_replicas", "snapshot_stream", "faults_dump", "faults_restore",
     "faults_signals"),
    ("post_dump_fails", "attached", "neighbour_plugin", "restore_bounded", "service"),
    ("stock_refused", "foreign_criu_4_1_1", "foreign_criu_4_2_1"),
    ("packages_selftest", "packages_stock"),
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


def waiting(environment: Mapping[str, str]) -> set[str]:
    """Returns the scenarios whose turn it is not."""
    if environment.get("TURNS") == "all" or _number(environment, "EVERY", 0) != 0:
        return set()
    seed = _number(environment, "SEED", 0)
    chosen = {random.Random(f"{seed} {names[0]}").choice(names) for names in TURNS}
    return {name for names in TURNS for name in names} - chosen


def select(words: Iterable[str], environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Returns the scenarios that these words, NAME or @GROUP, name, and those whose turn it is not."""
    names: list[str] = []
    later: list[str] = []
    wait = waiting(environment)
    for word in list(words) or [f"@{DEFAULT_GROUP}"]:
        if word.removeprefix("@") in GROUPS and word.startswith("@"):
            for name in GROUPS[word[1:]]:
                (later if name in wait else names).append(name)
        elif word in listed():
            names.append(word)
        else:
            raise Mistake(f"there is no scenario {word}; see run --list")
    return names, later


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
    elif name in GROUPS["killed"] + GROUPS["pods_killed"]:
        seconds = 14400
    elif name == "contents_damaged":
        seconds = 36000 if whole else 600
    elif name in (*GROUPS["rocm"], *GROUPS["vulkan_ops"], *GROUPS["rccl-pair"], "rccl_joins"):
        seconds = 3600
    elif "train" in name and whole:
        seconds = 3600
    elif name == "packages_full":
        seconds = 10000
    elif name == "soak":
        seconds = 240 + _number(environment, "ROUNDS", 1) * 90
    return seconds * patience(environment)
