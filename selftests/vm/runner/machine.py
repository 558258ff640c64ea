# SPDX-License-Identifier: GPL-2.0
"""The hardware of a guest, and the QEMU command line for it. Only this file uses QEMU."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import tsc
from .base import DEFAULT
from .lab import Boot, Failure

MAX_GPUS = 8
DEFAULT_VRAM_MIB = 1024
# Emulated CPUs that wait for each other take a fifth more of the machine's time. Suites that test
# races request two.
DEFAULT_CPUS = 1
# Names as in softgpu.
DEFAULT_ASIC = "mi210"

KERNEL_OPTIONS = (
    "console=hvc0", "panic=-1", "oops=panic", "ignore_loglevel", "log_buf_len=4M",
    "printk.devkmsg=on", "sysrq_always_enabled",
    # TCG on a busy host is slow enough to exceed limits that are meant for hardware.
    "tsc=reliable", "no_timer_check", "rcupdate.rcu_cpu_stall_timeout=120", "watchdog_thresh=60",
    # Together with an uncompressed kernel, these halve the time to boot under TCG. Memory that is
    # not cleared on allocation also makes leaks of uninitialised bytes visible.
    "mitigations=off", "nokaslr", "init_on_alloc=0", "apparmor=0", "cryptomgr.notests",
    "random.trust_cpu=on",
)

# An emulated CPU is cheaper without AVX and XSAVE: scenarios take a quarter less.
# Both have addresses of 40 bits: the suite kselftest-svm reserves most of them.
CPU = {"kvm": "max,-hypervisor,host-phys-bits-limit=40", "tcg": "Nehalem,-hypervisor,+rdrand"}

# The kernel gives init this variable. CRIU then stops tasks at a system call, as it does where CPUs
# have no breakpoints: it once waited forever for a breakpoint of the emulated CPU.
CRIU_WITHOUT_BREAKPOINTS = "CRIU_FAULT=130"

# It precedes the devices below it. With the caching mode, QEMU learns of each new mapping, which the
# GPU models need. An address space of 48 bits has room for the apertures of the GPUs.
IOMMU = "intel-iommu,caching-mode=on,aw-bits=48"


def parse_size_mib(text: str) -> int:
    """A size such as 512, 512M or 2G, in MiB."""
    match = re.fullmatch(r"(\d+)([MmGg]?)(?:i?[Bb])?", text)
    if not match or int(match[1]) == 0:
        raise ValueError(f"'{text}' is not a size such as 512M or 2G")
    return int(match[1]) * (1024 if match[2] in ("G", "g") else 1)


@dataclass(frozen=True)
class Hardware:
    """The guest's hardware: two guests with equal hardware can be one guest."""

    gpus: int = 0
    asics: tuple[str, ...] = (DEFAULT_ASIC,)         # the last one holds for all further GPUs
    vram_mib: tuple[int, ...] = (DEFAULT_VRAM_MIB,)  # likewise
    order: tuple[int, ...] = ()                      # which GPU sits in the 1st, 2nd ... slot
    empty_slots: int = 0                             # root ports before the first GPU
    hive: bool = True                                # XGMI between the GPUs
    switch: bool = False                             # a PCIe switch above the GPUs
    iommu: bool = False                              # an IOMMU that translates DMA of the GPUs
    bar_mib: int = 0                                 # of VRAM that the CPU sees; 0: all
    hold_cpu_writes: bool = False                    # to VRAM, until the driver flushes the HDP
    delays: bool = False                             # queues of the GPUs pause at random
    smp: int = DEFAULT_CPUS
    memory_mib: int = 3072
    sockets: tuple[str, ...] = ()                    # external GPU models instead of softgpu
    base: str = DEFAULT                              # the kernel that it boots
    image: str = ""                                  # its root disk, other than the lab's
    module: str = ""
    module_parameters: tuple[str, ...] = ()
    append: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.gpus <= MAX_GPUS:
            raise Failure(f"{self.gpus} GPUs: expected 0 to {MAX_GPUS}")
        if self.order and sorted(self.order) != list(range(self.gpus)):
            raise Failure(f"order {','.join(map(str, self.order))}: expected each of the numbers "
                          f"0 to {self.gpus - 1} once")
        if len(self.vram_mib) > max(1, self.gpus):
            raise Failure(f"{len(self.vram_mib)} VRAM sizes for {self.gpus} GPUs")
        if len(self.asics) > max(1, self.gpus):
            raise Failure(f"{len(self.asics)} ASICs for {self.gpus} GPUs")

    def vram_of(self, gpu: int) -> int:
        return self.vram_mib[min(gpu, len(self.vram_mib) - 1)]

    def asic_of(self, gpu: int) -> str:
        return self.asics[min(gpu, len(self.asics) - 1)]

    def slots(self) -> Sequence[int]:
        return self.order or range(self.gpus)


@dataclass
class Channels:
    """File descriptors of the sockets that are connected to QEMU's guest ports."""

    fds: Mapping[str, int] = field(default_factory=dict)  # kernel, control, output, shell


@dataclass(frozen=True)
class Network:
    """A network of two guests, and a directory that both have at /shared."""

    place: Path  # of the sockets; its path is short
    number: int  # of this guest, 1 or 2

    def __post_init__(self) -> None:
        if self.number not in (1, 2):
            raise Failure(f"guest {self.number} of a network: there are 1 and 2")

    @property
    def shared(self) -> Path:
        return self.place / "shared"

    def socket(self, number: int) -> Path:
        return self.place / f"net{number}"


def command_line(name: str, hardware: Hardware, boot: Boot, accelerator: str, payload: Path,
                 scratch: Path | None, gpu_sockets: Sequence[Path], channels: Channels,
                 network: Network | None = None) -> list[str]:
    memory = f"{hardware.memory_mib}M"
    cpu_threads = "tcg,thread=multi" if accelerator == "tcg" else accelerator
    command = [
        "qemu-system-x86_64", "-name", name, "-M", "q35,memory-backend=mem",
        "-accel", cpu_threads, "-cpu", CPU[accelerator], "-smp", str(hardware.smp),
        "-m", memory,
        # Shared, so that the GPU models can map the guest's memory.
        "-object", f"memory-backend-memfd,id=mem,size={memory},share=on",
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-kernel", str(boot.kernel), "-initrd", str(boot.initrd),
        "-append", " ".join(filter(None, [*KERNEL_OPTIONS, *_emulation(accelerator), boot.options,
                                              hardware.append])),
    ]
    if hardware.iommu:
        command += ["-device", IOMMU]
    command += _disk("root", boot.root_disk, "snapshot=on,cache.no-flush=on")
    command += _disk("payload", payload, "readonly=on")
    if scratch:
        command += _disk("scratch", scratch, "cache.no-flush=on")
    command += _ports(channels)
    if network:
        command += _network(network)
    command += _gpus(hardware, gpu_sockets)
    return command


def _emulation(accelerator: str) -> list[str]:
    if accelerator != "tcg":
        return []
    rate = tsc.rate_khz()
    clock = [f"tsc_early_khz={rate}"] if rate else []
    return [*clock, CRIU_WITHOUT_BREAKPOINTS]


def _disk(name: str, image: Path, options: str) -> list[str]:
    file = str(image).replace(",", ",,")
    return ["-drive", f"if=none,id={name},format=raw,file={file},{options}",
            "-device", f"virtio-blk-pci,drive={name}"]


def _ports(channels: Channels) -> list[str]:
    command = ["-device", "virtio-serial-pci,id=serial"]
    for name, fd in channels.fds.items():
        command += ["-chardev", f"socket,id={name},fd={fd}"]
    # The kernel's console comes first: it is hvc0. The interactive one is hvc1.
    command += ["-device", "virtconsole,bus=serial.0,chardev=kernel"]
    if "shell" in channels.fds:
        command += ["-device", "virtconsole,bus=serial.0,chardev=shell"]
    for name in ("control", "output"):
        command += ["-device", f"virtserialport,bus=serial.0,chardev={name},name={name}"]
    return command


def _network(network: Network) -> list[str]:
    """Each guest sends datagrams to the other's socket: neither has to be there first."""
    mine, other = network.number, 3 - network.number
    link = {"type": "dgram", "id": "net",
            "local": {"type": "unix", "path": str(network.socket(mine))},
            "remote": {"type": "unix", "path": str(network.socket(other))}}
    shared = str(network.shared).replace(",", ",,")
    return ["-netdev", json.dumps(link),
            "-device", f"virtio-net-pci,netdev=net,mac=52:54:00:00:00:0{mine},romfile=",
            # As root, QEMU keeps owners and modes as the guests set them.
            "-fsdev", f"local,id=shared,path={shared},security_model=none,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=shared,mount_tag=shared"]


def _gpus(hardware: Hardware, sockets: Sequence[Path]) -> list[str]:
    command = []
    # QEMU's root ports complete no atomics of vfio-user devices, and Linux does not know that its chipset
    # passes accesses from one port to another. The driver assumes that the root port of a switch that has
    # none is hidden by the hypervisor.
    if hardware.switch:
        command += ["-device", "x3130-upstream,id=switch,bus=pcie.0"]
    port = "xio3130-downstream,bus=switch" if hardware.switch else "pcie-root-port"
    for number in range(hardware.empty_slots):
        command += ["-device", f"{port},id=empty{number},chassis={number + 1},slot={number + 1}"]
    for number, gpu in enumerate(hardware.slots(), hardware.empty_slots + 1):
        command += ["-device", f"{port},id=port{number},chassis={number},slot={number}"]
        device = {"driver": "vfio-user-pci", "id": f"gpu{gpu}", "bus": f"port{number}",
                  "socket": {"path": str(sockets[gpu]), "type": "unix"}}
        command += ["-device", json.dumps(device)]
    return command
