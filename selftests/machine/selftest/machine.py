# SPDX-License-Identifier: GPL-2.0
"""Facts about this machine: GPUs, kernel, driver, firmware, CRIU, and who uses the GPUs."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from control import usage

TOPOLOGY = "sys/class/kfd/kfd/topology/nodes"
BUILD_ID = "sys/module/amdgpu/notes/.note.gnu.build-id"
BUILD_ID_HEAD = 16  # bytes: three sizes, and "GNU"
SERIES, STOCK, NONE = "series", "stock", "none"
PACKAGES = ("amdgpu-criu-plugin", "amdgpu-criu-tools", "amdgpu-criu-dkms", "amdgpu-criu-tests", "criu",
            "libhsa-runtime64-1", "libdrm-amdgpu1")

Output = Callable[[Sequence[str]], str]


@dataclass(frozen=True)
class Gpu:
    slot: str
    name: str
    isa: str
    vram: int                   # bytes
    compute_units: int
    properties: Mapping[str, str] = field(default_factory=dict)
    firmware: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return (f"{self.slot} {self.name} ({self.isa}), {self.vram >> 20} MiB, "
                f"{self.compute_units} compute units")


@dataclass(frozen=True)
class Machine:
    gpus: tuple[Gpu, ...]
    interface: str              # SERIES, STOCK or NONE
    kernel: str
    system: str
    virtual: bool               # a guest; its GPUs may be models
    versions: Mapping[str, str]
    parameters: Mapping[str, str]
    check: Sequence[Mapping[str, object]] = ()  # what `amdgpu-criu check` says
    criu: str = ""
    other_crius: tuple[str, ...] = ()
    has_rocr: bool = False

    def facts(self) -> dict[str, object]:
        return asdict(self)


def text(path: Path) -> str:
    """The text of a small file, or an empty one."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def output(command: Sequence[str]) -> str:
    """What a program prints, or an empty text if it cannot be run."""
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              stdin=subprocess.DEVNULL, timeout=60, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def isa_of(target: int) -> str:
    """The compiler's name of a gfx_target_version, such as gfx90a for 90010."""
    return f"gfx{target // 10000}{target // 100 % 100:x}{target % 100:x}"


def properties_of(node: Path) -> dict[str, str]:
    pairs = (line.split(None, 1) for line in text(node / "properties").splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _gpu(root: Path, node: Path) -> Gpu | None:
    properties = properties_of(node)
    if not text(node / "gpu_id").strip("0"):
        return None
    location, domain = int(properties.get("location_id", 0)), int(properties.get("domain", 0))
    slot = f"{domain:04x}:{location >> 8 & 255:02x}:{location >> 3 & 31:02x}.{location & 7:x}"
    device = root / "sys/bus/pci/devices" / slot
    wanted = ("product_name", "vbios_version", "device", "revision", "numa_node", "current_link_speed",
              "current_link_width", "current_compute_partition", "current_memory_partition",
              "mem_info_vram_total", "mem_info_vis_vram_total")
    found = {name: value for name in wanted if (value := text(device / name))}
    firmware = {file.name.removesuffix("_fw_version"): text(file)
                for file in sorted(device.glob("fw_version/*_fw_version"))}
    for name in ("simd_count", "simd_per_cu", "array_count", "simd_arrays_per_engine", "num_xcc",
                 "num_sdma_engines", "num_sdma_xgmi_engines", "num_cp_queues", "hive_id", "capability"):
        if name in properties:
            found[name] = properties[name]
    units = int(properties.get("simd_count", 0)) // max(int(properties.get("simd_per_cu", 1)), 1)
    name = found.get("product_name") or text(node / "name") or found.get("device", "a GPU")
    return Gpu(slot, name, isa_of(int(properties.get("gfx_target_version", 0))),
               int(found.get("mem_info_vram_total", 0)), units, found, firmware)


def gpus(root: Path = Path("/")) -> tuple[Gpu, ...]:
    nodes = sorted((root / TOPOLOGY).glob("*"), key=lambda node: int(node.name))
    return tuple(gpu for node in nodes if (gpu := _gpu(root, node)))


def interface_of(check: Sequence[Mapping[str, object]]) -> str:
    """Which interface `amdgpu-criu check` found."""
    found = next((one for one in check if one.get("what") == "kernel interface"), None)
    if not found:
        return NONE
    if found.get("status") == "ok":
        return SERIES
    return STOCK if "AMDKFD_IOC_CRIU_OP" in str(found.get("found")) else NONE


def _check(run: Output) -> list[Mapping[str, object]]:
    try:
        return json.loads(run(["amdgpu-criu", "check", "--json"]))["checks"]
    except (ValueError, KeyError, TypeError):
        return []


def has_library(name: str) -> bool:
    try:
        ctypes.CDLL(name)
        return True
    except OSError:
        return False


def _versions(root: Path, run: Output) -> dict[str, str]:
    rows = run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *PACKAGES]).splitlines()
    found = dict(row.split(" ", 1) for row in rows if " " in row.strip())
    found["amdgpu.ko"] = " ".join(filter(None, (run(["modinfo", "-F", "filename", "amdgpu"]), _loaded(root))))
    return found


def _loaded(root: Path) -> str:
    """Kernels need not record versions of modules, but all have this of the one that is loaded."""
    try:
        return f"loaded: build ID {(root / BUILD_ID).read_bytes()[BUILD_ID_HEAD:].hex()}"
    except OSError:
        return ""


def read(criu: str = "criu", root: Path = Path("/"), run: Output = output) -> Machine:
    release = dict(line.split("=", 1) for line in text(root / "etc/os-release").splitlines() if "=" in line)
    check = _check(run)
    version = next((line.split()[-1] for line in run([criu, "--version"]).splitlines()
                    if line.startswith("Version")), "")
    parameters = {file.name: text(file)
                  for file in sorted((root / "sys/module/amdgpu/parameters").glob("*"))}
    return Machine(
        gpus(root), interface_of(check), f"{platform.release()} {platform.version()}",
        release.get("PRETTY_NAME", "").strip('"'), " hypervisor" in text(root / "proc/cpuinfo"),
        _versions(root, run), parameters, check, version,
        tuple(sorted(str(one) for one in (root / "opt").glob("criu-*/criu"))),
        has_library("libhsa-runtime64.so.1"))


def users() -> list[str]:
    """Processes other than this one that have a GPU device open."""
    return [one for one in usage.holders() if int(one.split()[0]) != os.getpid()]
