# SPDX-License-Identifier: GPL-2.0
"""Chooses the amdgpu.ko of the guest."""

from __future__ import annotations

import lzma
import subprocess
from pathlib import Path

from .cache import digest, produce
from .lab import ROOT, Failure, cache_root, lab_root


def module_file(choice: str, base: str) -> Path | None:
    """The module file on the host, or None if the guest gets none."""
    if choice == "none":
        return None
    if choice == "stock":
        return _stock(base)
    path = Path(choice) if Path(choice).is_absolute() else ROOT / choice
    if not path.exists():
        raise Failure(f"{path} is missing: `make module BASE={base}` makes it "
                      "(or --module stock, or --module none)")
    return path


def _stock(base: str) -> Path:
    """The kernel package's own amdgpu.ko, which is in the lab's tool chain root."""
    try:
        release = (lab_root() / f"kernel-release-{base}").read_text().strip()
    except FileNotFoundError:
        raise Failure(f"there is no kernel {base} in the lab: `make lab`") from None
    directory = Path("/lib/modules", release, "kernel/drivers/gpu/drm/amd/amdgpu")
    found = sorted(directory.glob("amdgpu.ko*"))
    if not found:
        raise Failure(f"{directory} has no amdgpu.ko: `make lab`")
    packed = found[-1]
    if packed.suffix != ".xz":
        return packed

    def make(plain: Path) -> None:
        plain.write_bytes(lzma.decompress(packed.read_bytes()))

    return produce(cache_root() / f"stock-{digest(packed)}.ko", make)


def quick_to_load(module: Path, cache: Path) -> Path:
    """The module without its list of places where functions can be traced.

    For each of these places the kernel searches the module's whole symbol table (ftrace,
    test_for_valid_rec), which is most of the time that insmod takes in an emulated machine. The
    calls to __fentry__ stay and return at once; symbols and unwinding data stay, too.
    """

    def make(copy: Path) -> None:
        result = subprocess.run(
            ["objcopy", "-R", "__mcount_loc", "-R", ".rela__mcount_loc", module, copy],
            capture_output=True, text=True, check=False)
        if result.returncode:
            raise Failure(f"objcopy cannot read {module}:\n{result.stderr}")

    return produce(cache / f"amdgpu-{digest(module)}.ko", make)
