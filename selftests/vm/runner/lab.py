# SPDX-License-Identifier: GPL-2.0
"""Where things are in the repository and in the lab."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from .base import DEFAULT

ROOT = Path(__file__).resolve().parents[3]
VM = ROOT / "selftests" / "vm"

# Programs that the runner calls; the lab has all of them.
PROGRAMS = ("qemu-system-x86_64", "mke2fs", "setpriv")


class Failure(Exception):
    """The guest cannot be run or did not end as it should; the text is for the user."""


def path_from_env(variable: str, default: Path) -> Path:
    return Path(os.environ.get(variable) or default).resolve()


@dataclass(frozen=True)
class Boot:
    """What the lab makes for us: a kernel, an initrd and a root file system image.

    A directory of another kernel may have, besides vmlinuz and initrd, a file `cmdline` with
    options for it, and a directory `payload` with what the guest needs under /payload.
    """

    kernel: Path
    initrd: Path
    root_disk: Path
    options: str = ""
    payload: tuple[Path, ...] = ()

    @staticmethod
    def find(base: str = DEFAULT, directory: Path | None = None) -> Boot:
        lab = lab_root()
        place = lab / ("boot" if base == DEFAULT else f"boot-{base}")
        place = ROOT / directory if directory else place
        options = place / "cmdline"
        boot = Boot(place / "vmlinuz", place / "initrd", lab / "guest.ext4",
                    options.read_text().strip() if options.exists() else "",
                    tuple(path for path in [place / "payload"] if path.is_dir()))
        for file in (boot.kernel, boot.initrd, boot.root_disk):
            if not file.exists():
                made_by = "" if directory else ": `make lab` makes it"
                raise Failure(f"{file} is missing{made_by}")
        return boot

    @property
    def module_parameters(self) -> tuple[str, ...]:
        """For amdgpu. With RAS and without a PSP, amdgpu_ras_fini() warns."""
        return ("ras_enable=0",) if "panic_on_warn=1" in self.options.split() else ()

    def with_image(self, image: str) -> Boot:
        """The same with the root disk of scripts/IMAGE, if one is named."""
        if not image:
            return self
        disk = ROOT / "build" / image / "guest.ext4"
        if not disk.exists():
            raise Failure(f"{disk} is missing: `scripts/{image}` makes it")
        return replace(self, root_disk=disk)


def lab_root() -> Path:
    return path_from_env("VM_LAB", ROOT / "build" / "lab")


def modules(base: str) -> Path:
    """Returns the directory with all modules of the packaged kernel; the guest has only some of them."""
    release = lab_root() / f"kernel-release-{base}"
    name = release.read_text().strip() if release.exists() else "none"
    return lab_root() / "root" / "usr" / "lib" / "modules" / name


def log_root() -> Path:
    return path_from_env("VM_LOG", ROOT / "build" / "log" / "vm")


def results_root() -> Path:
    return path_from_env("VM_RESULTS", ROOT / "build" / "results")


def cache_root() -> Path:
    return path_from_env("VM_CACHE", ROOT / "build" / "cache" / "vm")


def enter(program: str, arguments: list[str]) -> None:
    """Starts the program again inside the lab, unless it already runs there.

    scripts/in-lab sets IN_LAB to the repository of the lab. VM_NO_LAB=1 is for a host that has
    all programs itself.
    """
    if os.environ.get("IN_LAB") == str(ROOT) or os.environ.get("VM_NO_LAB"):
        os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
        missing = [name for name in PROGRAMS if not shutil.which(name)]
        if missing:
            sys.exit(f"vm: not found: {', '.join(missing)}; `make lab` makes the lab that has them")
        return
    wrapper = ROOT / "scripts" / "in-lab"
    if not wrapper.exists():
        sys.exit(f"vm: {wrapper} is missing")
    os.execv(wrapper, [str(wrapper), str(Path(program).resolve()), *arguments])
