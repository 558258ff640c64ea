# SPDX-License-Identifier: GPL-2.0
"""Prepares the payload disk, firmware and directories of a guest."""

from __future__ import annotations

import lzma
import sys
from collections.abc import Sequence
from pathlib import Path

from . import payload, softgpu
from .base import BASES, DEFAULT
from .lab import ROOT, VM, Failure, cache_root, modules
from .module import module_file, quick_to_load


def payload_image(build: Path, module: str, base: str, with_softgpu: bool, extra: Sequence[Path],
                  run: Path, quiet: bool,
                  function_trace: bool = False) -> tuple[Path, payload.Plan]:
    """The payload disk and its files."""
    entries = payload.manifest_entries(VM / "payload.txt", build)
    file = module_file(module, base)
    if file:
        file = file if function_trace else quick_to_load(file, cache_root())
        entries.append(payload.Entry(file, "module/amdgpu.ko", True, "make module"))
    if file and base == DEFAULT:
        entries.append(payload.Entry(later_driver(module), "module/next/amdgpu.ko", False,
                                     "scripts/module --next"))
    entries += importer(base, run) + pmem(base, run)
    if with_softgpu:
        firmware = run / "firmware"
        softgpu.write_firmware(build, firmware)
        entries.append(payload.Entry(firmware / "*", "firmware/amdgpu", True, "make host"))
    for directory in extra:
        if not directory.is_dir():
            raise Failure(f"--payload {directory}: not a directory")
        entries.append(payload.Entry(directory.resolve() / "*", ".", True, "-"))
    plan = payload.Plan.make(entries)
    if plan.missing and not quiet:
        names = ", ".join(str(entry.destination) for entry in plan.missing)
        print(f"vm: not in the payload, not built yet: {names}", file=sys.stderr)
    return payload.build_image(plan, cache_root()), plan


def importer(base: str, run: Path) -> list[payload.Entry]:
    """vivid, a driver that imports what others export, with what it needs: for /payload/kselftest."""
    names = ("mc/mc", "v4l2-core/videodev", "v4l2-core/v4l2-dv-timings", "common/v4l2-tpg/v4l2-tpg",
             "test-drivers/vivid/vivid",
             *(f"common/videobuf2/videobuf2-{part}"
               for part in ("common", "v4l2", "memops", "vmalloc", "dma-contig")))
    media = modules(base) / "kernel/drivers/media"
    return unpacked([media / f"{name}.ko.xz" for name in names], run / "importer")


def pmem(base: str, run: Path) -> list[payload.Entry]:
    """Drivers of memory that memmap= has reserved as a disk with DAX: for /payload/dax."""
    nvdimm = modules(base) / "kernel/drivers/nvdimm"
    return unpacked([nvdimm / f"{name}.ko.xz" for name in ("libnvdimm", "nd_btt", "nd_pmem", "nd_e820")],
                    run / "pmem")


def unpacked(files: Sequence[Path], place: Path) -> list[payload.Entry]:
    """Modules that exist, unpacked, in the directory of the payload that has the name of `place`."""
    place.mkdir(exist_ok=True)
    for file in files:
        if file.exists():
            (place / file.stem).write_bytes(lzma.decompress(file.read_bytes()))
    return [payload.Entry(place / "*", place.name, False, "make lab")]


def later_driver(module: str) -> Path:
    """What `scripts/module --next` makes of a module of ours; it is beside that."""
    ours = ROOT / (BASES[DEFAULT].module if module == "stock" else module)
    return ours.parent.with_name(f"{ours.parent.name}-next") / ours.name


def build_directory(path: Path) -> Path:
    return path if path.is_absolute() else ROOT / path
