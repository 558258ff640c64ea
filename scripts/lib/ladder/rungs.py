# SPDX-License-Identifier: GPL-2.0
"""Every rung: its commands, the rungs that must have passed before, and its CPU time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Multiplies time limits of tests, because other rungs run at the same time.
PATIENCE = "3"
# Long series of changed blobs run one case in this many with the second kernel.
SECOND_SAMPLE = "20"
# Everything is about ten times as slow in the debug kernel.
DEBUG_PATIENCE = "10"
# Long series of faults, changed blobs and BOs run one case in this many.
DEBUG_SAMPLE = "20"
DEBUG_SECONDS = 3 * 3600
# Suites by name: these need no turn.
SMP_KSELFTESTS = ("kselftest-smp", "kselftest-smp-again")
DEBUG_KSELFTESTS = ("guest", "kselftest", *SMP_KSELFTESTS, "next-version", "kselftest-hang", "navi31-debug")
DEBUG_CAMPAIGN_SECONDS = 24 * 3600
CAMPAIGN_SUITES = "selftests/vm/campaigns"

Command = tuple[str, ...]


@dataclass(frozen=True)
class Rung:
    """Commands that run one after the other until one fails.

    A rung that builds has one test: its commands succeed. The commands of the others write
    build/results/NAME.tap or build/results/NAME-*.tap themselves.
    """

    name: str
    commands: tuple[Command, ...]
    needs: tuple[str, ...] = ()
    seconds: int = 60  # of CPU time from nothing; only their order counts
    builds: bool = False
    limit: int | None = None  # seconds of wall time


def in_background(*commands: Command) -> tuple[Command, ...]:
    """Commands without time limits yield to guests, which have them."""
    return tuple(("nice", "-n", "5", *command) for command in commands)


def guests(name: str, needs: tuple[str, ...], seconds: int, *arguments: str) -> Rung:
    command = ("selftests/vm/check", "--patience", PATIENCE, *arguments)
    return Rung(name, (command,), needs, seconds)


def debug_guests(name: str, sample: str, limit: int, *suites: str, kernel: str = "debug-kernel") -> Rung:
    command = ("selftests/vm/check", "--name", name, "--kernel", f"build/{kernel}/boot",
               "--module", f"build/module/7.3-{kernel}/amdgpu.ko",
               "--patience", DEBUG_PATIENCE, "--environment", f"CRIU_TEST_SAMPLE={sample}",
               "--epilogue", "/payload/debug-kernel /payload/debug-known.txt", *suites)
    return Rung(name, (command,), (kernel, "host"), limit, limit=limit)


def suites_of_campaigns(name: str, *suites: str, needs: tuple[str, ...] = (), options: Command = ()) -> Rung:
    return Rung(name, (("selftests/vm/check", "--name", name, "--directory", CAMPAIGN_SUITES, *options, *suites),),
                ("module", "host", *needs))


def campaign_in_guest(name: str, *others: str, needs: tuple[str, ...] = ()) -> Rung:
    return suites_of_campaigns(name, name, *others, needs=needs)


# The libraries of ROCm 7.2 whose own tests run, by the names of the images of scripts/rocm.
LIBRARIES = {"hipblaslt": "hipBLASLt", "hipcub": "hipCUB", "miopen": "MIOpen", "opencl": "OpenCL, and piglit",
             "rccl": "RCCL, on two GPUs", "rocblas": "rocBLAS", "rocfft": "rocFFT", "rocprim": "rocPRIM",
             "rocrand": "rocRAND", "rocsolver": "rocSOLVER", "rocsparse": "rocSPARSE", "rocthrust": "rocThrust",
             "rocwmma": "rocWMMA"}


def library(name: str) -> tuple[Rung, Rung]:
    """A library's own tests. A run that was interrupted goes on from the scratch disk."""
    return (Rung(f"library-{name}-image", (("scripts/rocm", "7.2", name),), ("lab",), builds=True),
            suites_of_campaigns(f"library-{name}", f"library-{name}-*", needs=(f"library-{name}-image",),
                                options=("--scratch", f"build/rocm-7.2-{name}/scratch.ext4")))


def every(name: str, *suites: str, base: str = "7.3", unwanted: str = "", needs: tuple[str, ...] = ()) -> Rung:
    """All suites and scenarios of those that take turns in a check."""
    others = ("--except", unwanted) if unwanted else ()
    return Rung(name, (("env", "TURNS=all", "selftests/vm/check", "--name", name, "--base", base,
                        "--patience", PATIENCE, *others, *suites),),
                ("module", "host", *(("module-6.12",) if base == "6.12" else ()), *needs))


def pair_of_guests(name: str, needs: tuple[str, ...], seconds: int, options: str = "--vram 256M") -> Rung:
    """Runs the scenarios of that group on node 2, whose GPUs have other numbers than that of node 1."""
    both = f"{options} --param lockup_timeout=60000 --check-leaks"
    command = ("selftests/vm/pair", "--name", name, "--both", both, "--node1", "--gpus 1",
               "--node2", f"--gpus 2 --empty-slots 1 --ktap {name}",
               "--", f"PATIENCE={PATIENCE} /payload/e2e/run @{name}")
    return Rung(name, (command,), needs, seconds)


def table(*rungs: Rung) -> dict[str, Rung]:
    return {rung.name: rung for rung in rungs}


# The rungs of `make check`.
CHECK = table(
    Rung("lab", (("scripts/lab",),), seconds=150, builds=True),
    Rung("module", (("scripts/module",),), ("lab",), 280, builds=True),
    Rung("module-6.12", in_background(("scripts/module", "6.12")), ("lab",), 250, builds=True),
    Rung("host", (("scripts/host", "release"),), ("lab",), 500, builds=True),
    guests("suites", ("module", "host"), 600, "--name", "suites", "e2e-*"),
    guests("e2e", ("module", "host"), 250, "--name", "e2e", "e2e"),
    guests("guest", ("module", "host"), 500, "--except", "e2e*", "--runner-tests", "2",
           "runner", "*"),
    guests("guest-6.12", ("module-6.12", "module", "host"), 300, "--base", "6.12",
           "--environment", f"CRIU_TEST_SAMPLE={SECOND_SAMPLE}"),
    Rung("unit", in_background(("env", f"PATIENCE={PATIENCE}", "scripts/unit")), ("lab",), 450),
    Rung("static", in_background(("scripts/static",)), ("module", "module-6.12", "host"), 200),
    Rung("demo", (("scripts/check-demo",),), ("module", "host"), 30),
    pair_of_guests("pair", ("module", "host"), 100),
    Rung("deb", in_background(("scripts/deb",), ("scripts/check-packages",)), ("module", "host"), 100),
    guests("deb-guest", ("deb",), 120, "--name", "deb-guest", "packages"),
)

# The suites in the debug kernel, except those that boot other kernels or drivers, or need more than
# kernel/debug.config has.
DEBUG = table(
    Rung("debug-kernel", (("scripts/debug-kernel",), ("scripts/module", "--debug-kernel", "--next")),
         ("lab",), 1200, builds=True),
    debug_guests("debug-kselftests", DEBUG_SAMPLE, DEBUG_SECONDS, *DEBUG_KSELFTESTS),
    debug_guests("debug-rest", DEBUG_SAMPLE, DEBUG_SECONDS, "e2e-debug"),
)

# Suites whose guests have two CPUs, in a kernel that finds data races.
KCSAN = table(
    Rung("kcsan-kernel", (("scripts/debug-kernel", "--kcsan"), ("scripts/module", "--kcsan-kernel")),
         ("lab",), 1000, builds=True),
    debug_guests("kcsan-kselftests", DEBUG_SAMPLE, DEBUG_SECONDS, "guest", *SMP_KSELFTESTS,
                 kernel="kcsan-kernel"),
    debug_guests("kcsan-rest", DEBUG_SAMPLE, DEBUG_SECONDS, "e2e-debug", kernel="kcsan-kernel"),
)

# Chips of the software GPU besides its default, and their smallest sizes.
OTHER_ASICS = {"mi300x": "mi300x-small", "navi31": "navi31"}

# Tests that take too long for every check.
CAMPAIGN = table(
    Rung("deb-source", (("scripts/deb",), ("scripts/deb", "--source"), ("scripts/check-deb-source",)),
         ("lab", "host")),
    Rung("dkms", (("scripts/deb",), ("scripts/check-dkms",)), ("lab", "host")),
    debug_guests("debug-all-kselftests", "1", DEBUG_CAMPAIGN_SECONDS, *DEBUG_KSELFTESTS),
    debug_guests("debug-all-rest", "1", DEBUG_CAMPAIGN_SECONDS,
                 "e2e", "e2e-render", "e2e-trees", "e2e-reboot", "e2e-swapped"),
    *(Rung(f"asics-{chip}", (("selftests/vm/check", "--name", f"asics-{chip}",
                              "--directory", "selftests/vm/campaigns", f"asics-{chip}*"),
                             ("env", f"ASIC={asic}", "scripts/demo")), ("module", "host"))
      for chip, asic in OTHER_ASICS.items()),
    every("every-e2e", "e2e*"),
    Rung("module-next", (("scripts/module", "--next"),), ("module",), builds=True),
    every("every-guest", "runner", "*", "next-version", unwanted="e2e*", needs=("module-next",)),
    every("every-6.12", "*", base="6.12"),
    Rung("refusals", (("scripts/refusals", "every-guest"),), ("every-guest",)),
    campaign_in_guest("criu"),
    campaign_in_guest("faults", "faults-reset"),
    campaign_in_guest("generated"),
    Rung("rocm", (("scripts/rocm",),), ("lab",), builds=True),
    campaign_in_guest("hip", "hip-navi31", needs=("rocm",)),
    Rung("rocm-7.2-image", (("scripts/rocm", "7.2"),), ("lab",), builds=True),
    campaign_in_guest("rocm-7.2", "rocm-7.2-*", needs=("rocm-7.2-image",)),
    *(rung for name in LIBRARIES for rung in library(name)),
    suites_of_campaigns("libraries-dumped", "dumped-*", "rccl-train",
                        needs=tuple(f"library-{name}-image" for name in LIBRARIES)),
    # A process has 3 GB of RCCL's code.
    pair_of_guests("rccl-pair", ("module", "host", "library-rccl-image"), 900,
                   "--image rocm-7.2-rccl --switch --memory 7G --vram 1G --timeout 3600"),
    Rung("decode", (("scripts/decode-everywhere",),), ("rocm",)),
    campaign_in_guest("igt"),
    Rung("igt-test", (("scripts/igt",),), ("lab",), builds=True),
    campaign_in_guest("igt-criu", "igt-criu-navi31", needs=("igt-test",)),
    campaign_in_guest("images"),
    campaign_in_guest("killed", "killed-pods", needs=("pods-image",)),
    campaign_in_guest("llm", "llm-navi31", "llm-vulkan", needs=("rocm", "vulkan-image")),
    campaign_in_guest("machine", needs=("deb",)),
    Rung("migraphx-image", (("scripts/rocm", "migraphx"),), ("lab",), builds=True),
    # The scratch disk keeps the compiled models.
    Rung("migraphx", (("selftests/vm/check", "--name", "migraphx", "--directory", "selftests/vm/campaigns",
                       "--scratch", "build/rocm-migraphx/scratch.ext4", "migraphx"),),
         ("module", "host", "migraphx-image")),
    campaign_in_guest("ops", "ops-navi31", "ops-vulkan", needs=("rocm", "vulkan-image")),
    Rung("runner", (("selftests/vm/check", "--name", "runner", "runner"),), ("module", "host")),
    Rung("next-kernel", (("scripts/next-kernel",),), ("lab", "host")),
    campaign_in_guest("parameters", "parameters-bar"),
    Rung("pods-image", (("scripts/pods",),), ("lab",), builds=True),
    campaign_in_guest("pods", needs=("pods-image",)),
    pair_of_guests("pods-pair", ("module", "host", "pods-image"), 300, "--image pods --vram 256M"),
    campaign_in_guest("races"),
    campaign_in_guest("serve", "serve-navi31", needs=("rocm",)),
    Rung("slurm-image", (("scripts/slurm",),), ("lab",), builds=True),
    pair_of_guests("slurm", ("module", "host", "slurm-image"), 300, "--image slurm --vram 256M"),
    campaign_in_guest("soak"),
    campaign_in_guest("train", "train-navi31"),
    Rung("vulkan-image", (("scripts/vulkan",),), ("lab",), builds=True),
    campaign_in_guest("vulkan", needs=("vulkan-image",)),
    Rung("dbgapi-image", (("scripts/dbgapi",),), ("lab",), builds=True),
    Rung("waves", (("scripts/suspend-everywhere",),
                   *campaign_in_guest("waves", "waves-debugger*").commands),
         ("module", "host", "dbgapi-image")),
    Rung("static-all", (("scripts/static", "--results", "static-all", "clang_tidy_all",
                         "clang_analyzer", "kernel_sparse_all"),), ("module", "module-6.12", "host")),
)

ALL = CHECK | DEBUG | KCSAN | CAMPAIGN

# A name for several rungs.
GROUPS = {"debug": tuple(DEBUG), "kcsan": tuple(KCSAN)}

# The rungs of each campaign, and a line that describes it.
CAMPAIGNS = {
    "deb-source": (("deb-source",), "the source package is built in a root of its own (ten minutes)"),
    "dkms": (("dkms",), "the driver's package is installed, boots, and is removed (minutes)"),
    "debug": (("debug-all-kselftests", "debug-all-rest"),
              "the suites in the debug kernel; each allocation of each operation fails once (hours)"),
    "asics": (("asics-mi300x", "asics-navi31"),
              "all kselftests, scenarios, igt and the demo on MI300X and Navi 31 (an hour)"),
    "every": (("every-e2e", "every-guest", "refusals", "every-6.12"),
              "the suites and scenarios that take turns in check, all of them (an hour)"),
    "criu": (("criu",), "scenarios of render nodes, trees and containers, with each CRIU (an hour)"),
    "faults": (("faults",), "dump and restore are interrupted at every step (two hours)"),
    "generated": (("generated",), "3000 processes with random valid state (hours)"),
    "decode": (("decode",), "the decoder and LLVM's, on all of llama.cpp (minutes; the disk of hip)"),
    "hip": (("hip",), "programs of Debian's HIP runtime, also on Navi 31 (minutes; 10 GB more of disk)"),
    "rocm-7.2": (("rocm-7.2",), "the same of ROCm 7.2, on all chips (minutes; 5 GB of disk)"),
    "libraries": ((*(f"library-{name}" for name in LIBRARIES), "libraries-dumped", "rccl-pair"),
                  "the own tests of libraries of ROCm 7.2 (hours, interruptible; 30 GB of disk)"),
    "libraries-dumped": (("libraries-dumped", "rccl-pair"), "tests of them, dumped at random moments (two hours)"),
    **{f"library-{name}": ((f"library-{name}",), f"the own tests of {title} (30 minutes; 8 GB of disk)")
       for name, title in LIBRARIES.items()},
    "igt": (("igt",), "igt-gpu-tools' stress tests of userptrs (minutes)"),
    "igt-criu": (("igt-criu",), "our test of igt-gpu-tools, and its mails (a minute; igt's source)"),
    "killed": (("killed",), "checkpoints and restores of containers are killed at every step (hours)"),
    "llm": (("llm",), "a language model of llama.cpp, by HIP and RADV (minutes; the disk of hip and vulkan)"),
    "machine": (("machine",), "the installed tests of a machine with a GPU, all of them (an hour)"),
    "migraphx": (("migraphx",), "BERT and ResNet18 by MIGraphX, dumped during inferences (an hour; 10 GB of disk)"),
    "ops": (("ops",), "ggml's operations by HIP and RADV, and the CPU's (an hour; the disk of hip and vulkan)"),
    "images": (("images",), "image files changed at 5000 places and cut at 1000 (hours)"),
    "next-kernel": (("next-kernel",), "what the series lacks for the archive's newest kernel (an hour)"),
    "parameters": (("parameters",), "restores under other values of module parameters (minutes)"),
    "pods": (("pods", "pods-pair"), "pods of containerd move to another GPU or node, by CRI (minutes; 1 GB of disk)"),
    "races": (("races",), "processes and threads race, and are killed, on two CPUs (half an hour)"),
    "runner": (("runner",), "the tests of the guest runner, which boot guests (minutes)"),
    "serve": (("serve",), "snapshots and replicas of llama-server, also on Navi 31 (minutes; the disk of hip)"),
    "slurm": (("slurm",), "jobs of Slurm move between two guests (minutes)"),
    "soak": (("soak",), "processes that share everything, restored 100 times (two hours)"),
    "train": (("train",), "training runs, dumped and restored again and again, also on Navi 31 (minutes)"),
    "vulkan": (("vulkan",), "Vulkan programs of Debian's RADV, on Navi 31 (2 GB of disk; a minute)"),
    "waves": (("waves",), "waves are saved at every instruction, withheld, or read by a debugger (half an hour)"),
    "static": (("static-all",), "clang-tidy and sparse on all files, clang's analyzer (an hour)"),
}


class UnknownRung(Exception):
    """The message contains the unknown name and the known ones."""


def expand(names: Iterable[str], groups: Mapping[str, tuple[str, ...]] = GROUPS,
           rungs: Mapping[str, Rung] = ALL) -> list[Rung]:
    """The named rungs and all that they need, each once and after what it needs."""
    chosen: dict[str, Rung] = {}

    def add(name: str) -> None:
        if name in chosen:
            return
        for need in rungs[name].needs:
            add(need)
        chosen[name] = rungs[name]

    for name in names:
        for member in groups.get(name, (name,)):
            if member not in rungs:
                raise UnknownRung(f"no rung {name}; there are: {' '.join([*CHECK, *groups])}")
            add(member)
    return list(chosen.values())
