# SPDX-License-Identifier: GPL-2.0
"""The command line of `run`."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from .base import BASES, DEFAULT
from .machine import (
    DEFAULT_ASIC, DEFAULT_CPUS, DEFAULT_VRAM_MIB, MAX_GPUS, Hardware, Network, parse_size_mib)
from .lab import Failure

# The largest images are those of a process with the code of a library: rocSOLVER's has gigabytes.
SCRATCH_MIB = 12288


def sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(parse_size_mib(part) for part in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def size(text: str) -> int:
    values = sizes(text)
    if len(values) != 1:
        raise argparse.ArgumentTypeError("one size is required")
    return values[0]


def numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of numbers") from None


def names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds above 0")
    return value


def assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value


def network(text: str) -> Network:
    place, comma, number = text.rpartition(",")
    try:
        if not comma:
            raise ValueError
        return Network(Path(place).absolute(), int(number))
    except (ValueError, Failure):
        raise argparse.ArgumentTypeError(f"'{text}' is not DIR,1 or DIR,2") from None


def _add_hardware(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("hardware")
    group.add_argument("--gpus", type=int, default=None, metavar="N",
                       help=f"software GPUs, 0 to {MAX_GPUS} (default 0)")
    group.add_argument("--gpu-socket", action="append", default=[], metavar="PATH",
                       help="attach this vfio-user GPU model instead; may be repeated")
    group.add_argument("--asic", type=names, default=(DEFAULT_ASIC,), metavar="NAME[,NAME]",
                       help="which chip each GPU is, as `softgpu --help` lists them; the last is "
                            f"for all others (default {DEFAULT_ASIC})")
    group.add_argument("--vram", type=sizes, default=(DEFAULT_VRAM_MIB,), metavar="SIZE[,SIZE]",
                       help="video memory of each GPU, 512M or 2G; the last is for all others "
                            f"(default {DEFAULT_VRAM_MIB}M)")
    group.add_argument("--order", type=numbers, default=(), metavar="1,0",
                       help="which GPU sits in the first, second ... slot")
    group.add_argument("--empty-slots", type=int, default=0, metavar="N",
                       help="leave N slots empty before the first GPU: other PCI addresses, "
                            "so other KFD gpu_ids")
    group.add_argument("--no-hive", dest="hive", action="store_false",
                       help="no XGMI between the GPUs")
    group.add_argument("--switch", action="store_true",
                       help="a PCIe switch above the GPUs: atomics, which HIP's printf and malloc in "
                            "kernels need; GPUs without XGMI reach one another's VRAM")
    group.add_argument("--iommu", action="store_true",
                       help="an IOMMU that translates DMA of the GPUs")
    group.add_argument("--bar", type=size, default=0, metavar="SIZE",
                       help="how much VRAM the CPU sees (default: all)")
    group.add_argument("--hold-cpu-writes", action="store_true",
                       help="hold what the CPU writes to VRAM until the driver flushes the HDP; slow")
    group.add_argument("--smp", type=int, default=DEFAULT_CPUS, metavar="N",
                       help=f"CPUs (default {DEFAULT_CPUS})")
    group.add_argument("--memory", type=size, default=3072, metavar="SIZE",
                       help="memory (default 3G)")
    group.add_argument("--scratch", type=Path, metavar="DIR|FILE",
                       help="keep the contents of /scratch in this disk image; made when it "
                            "is missing (default: a new disk, removed afterwards)")
    group.add_argument("--scratch-size", type=size, default=SCRATCH_MIB, metavar="SIZE",
                       help="size of /scratch when it is made (default 12G; the host stores what is used)")
    group.add_argument("--network", type=network, metavar="DIR,NUMBER",
                       help="be guest 1 or 2 of a network of two; both have DIR/shared at /shared")
    group.add_argument("--kvm", choices=("auto", "on", "off"), default="auto",
                       help="auto: use KVM if a trial boot works (default)")


def _add_software(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("software")
    group.add_argument("--base", choices=tuple(BASES), default=DEFAULT,
                       help="the kernel to boot (default %(default)s)")
    group.add_argument("--image", default="", metavar="NAME",
                       help="the root disk that scripts/NAME has made, as rocm: with HIP and llama.cpp")
    group.add_argument("--kernel", type=Path, metavar="DIR",
                       help="boot vmlinuz and initrd of this directory, with the options in "
                            "its cmdline and the files in its payload/ (default build/lab/boot)")
    group.add_argument("--patience", type=seconds, default=1, metavar="FACTOR",
                       help="multiplies the time limits of the guest itself")
    group.add_argument("--module", metavar="PATH|stock|none",
                       help="amdgpu.ko to load; stock: the kernel package's "
                            "(default build/module/BASE/amdgpu.ko)")
    group.add_argument("--function-trace", action="store_true",
                       help="load the module as it is, with ftrace: takes 5 s longer")
    group.add_argument("--param", action="append", default=[], metavar="NAME=VALUE",
                       help="a further module parameter; may be repeated")
    group.add_argument("--append", default="", metavar="OPTIONS",
                       help="further options for the kernel's command line")
    group.add_argument("--payload", action="append", default=[], type=Path, metavar="DIR",
                       help="files that appear in /payload as well; may be repeated")
    group.add_argument("--build", type=Path, default=Path("build/release"), metavar="DIR",
                       help="build directory with softgpu and the plugin (default %(default)s)")


def _add_run(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("run")
    group.add_argument("--timeout", type=seconds, metavar="SECONDS",
                       help="kill the guest when the command takes longer; exit status 124")
    group.add_argument("--may-reset", action="store_true",
                       help="the command may reset the guest, which counts as status 0")
    group.add_argument("--shell", action="store_true",
                       help="an interactive shell in the guest; also without a COMMAND")
    group.add_argument("--ktap", metavar="SUITE",
                       help="read KTAP from the output, add the results to "
                            "build/results/SUITE.tap, fail unless all passed")
    group.add_argument("--check-leaks", action="store_true",
                       help="afterwards, device fds, BOs and memory in use must be as before")
    group.add_argument("--unload", action="store_true",
                       help="afterwards, rmmod amdgpu must succeed; implies --check-leaks")
    group.add_argument("--name", metavar="NAME", help="name of the log directory")
    group.add_argument("--trace", action="store_true", help="let softgpu trace to the logs")
    group.add_argument("--keep", action="store_true", help="keep the run's temporary directory")
    group.add_argument("--quiet", action="store_true", help="print the command's output only")


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="selftests/vm/run", usage="%(prog)s [options] [-- COMMAND...]",
        description="Boots a guest with software GPUs, runs COMMAND in it and exits with its "
                    "status. One argument is a shell command; several are taken as they are.",
        epilog="Exit status: the command's; 1 when a check after it failed; 124 time limit; "
               "125 the guest or a GPU model failed or something is missing.")
    _add_hardware(result)
    _add_software(result)
    _add_run(result)
    result.add_argument("command", nargs="*", metavar="COMMAND")
    return result


def parse(arguments: list[str]) -> argparse.Namespace:
    """Options, with all checks that are possible without the lab."""
    p = parser()
    options = p.parse_args(arguments)
    if options.shell and options.command:
        p.error("--shell and a command exclude each other")
    options.shell = not options.command
    options.module = options.module or BASES[options.base].module
    if options.gpu_socket and options.gpus is not None:
        p.error("--gpus and --gpu-socket exclude each other")
    if options.shell and options.ktap:
        p.error("--shell and --ktap exclude each other")
    if options.unload and options.module == "none":
        p.error("--unload needs a module")
    if options.smp < 1 or options.empty_slots < 0:
        p.error("--smp and --empty-slots need a positive number")
    try:
        options.param = [*BASES[options.base].parameters(options.asic), *options.param]
    except ValueError as error:
        p.error(str(error))
    return options


def command_text(words: list[str]) -> str:
    return words[0] if len(words) == 1 else shlex.join(words)


def hardware(options: argparse.Namespace) -> Hardware:
    gpus = len(options.gpu_socket) if options.gpu_socket else options.gpus or 0
    return Hardware(
        gpus=gpus, asics=options.asic, vram_mib=options.vram, order=options.order, empty_slots=options.empty_slots,
        hive=options.hive, switch=options.switch, iommu=options.iommu,
        bar_mib=options.bar, hold_cpu_writes=options.hold_cpu_writes, smp=options.smp, memory_mib=options.memory,
        sockets=tuple(options.gpu_socket),
        base=options.base, image=options.image, module=module_in_guest(options.module),
        module_parameters=tuple(options.param),
        append=options.append)


def module_in_guest(choice: str) -> str:
    return "none" if choice == "none" else "/payload/module/amdgpu.ko"
