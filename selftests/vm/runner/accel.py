# SPDX-License-Identifier: GPL-2.0
"""Determines whether KVM runs our kernel by booting it, once per boot of the host.

KVM can be present and still not work, for example where it is nested in a hypervisor that does
not emulate all instructions. So the existence of /dev/kvm is not sufficient.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

from .deadline import Deadline
from .lab import Failure
from .process import Child

PROBE_SECONDS = 10
MARK = "kvm-probe-reached-user-space"
KVM = Path("/dev/kvm")


def newc(files: dict[str, tuple[int, bytes]]) -> bytes:
    """A cpio archive in the form that the kernel takes as initramfs: name -> (mode, contents)."""
    archive = bytearray()

    def add(name: str, mode: int, data: bytes, inode: int) -> None:
        encoded = name.encode() + b"\0"
        fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
        archive.extend(b"070701" + b"".join(b"%08x" % field for field in fields) + encoded)
        archive.extend(b"\0" * (-len(archive) % 4))
        archive.extend(data + b"\0" * (-len(data) % 4))

    for inode, (name, (mode, data)) in enumerate(files.items(), 1):
        add(name, mode, data, inode)
    add("TRAILER!!!", 0, b"", 0)
    return bytes(archive)


def probe_initrd(busybox: Path) -> bytes:
    init = (f"#!/bin/busybox sh\n/bin/busybox mount -t devtmpfs dev /dev\n"
            f"echo {MARK} >/dev/hvc0\n/bin/busybox poweroff -f\n")
    return gzip.compress(newc({
        "dev": (0o040755, b""), "bin": (0o040755, b""),
        "bin/busybox": (0o100755, busybox.read_bytes()),
        "init": (0o100755, init.encode()),
    }), 1)


def _boots(kernel: Path, seconds: float) -> bool:
    busybox = shutil.which("busybox")
    if not busybox:
        raise Failure("busybox (static) is missing in the lab: KVM cannot be tried")
    with tempfile.TemporaryDirectory(prefix="kvm-probe-") as work:
        initrd, console = Path(work) / "initrd", Path(work) / "console"
        initrd.write_bytes(probe_initrd(Path(busybox)))
        command = [
            "qemu-system-x86_64", "-M", "q35", "-accel", "kvm", "-cpu", "max,-hypervisor",
            "-smp", "2", "-m", "512M", "-nodefaults", "-no-user-config", "-display", "none",
            "-no-reboot", "-kernel", str(kernel),
            "-initrd", str(initrd), "-append", "console=hvc0 quiet panic=-1",
            "-device", "virtio-serial-pci", "-chardev", f"file,id=c,path={console}",
            "-device", "virtconsole,chardev=c",
        ]
        child = Child("KVM probe", command, Path(work) / "log")
        try:
            _wait(child, seconds)
        finally:
            child.close()
        return console.exists() and MARK in console.read_text(errors="replace")


def _wait(child: Child, seconds: float) -> None:
    """Waits until it ends, its time is over, or KVM fails (QEMU then hangs)."""
    limit = Deadline(seconds)
    while child.wait(0.1) is None and not limit.passed():
        if "KVM internal error" in child.log.read_text(errors="replace"):
            return


def _host_boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _answer(kernel: Path, cache: Path) -> Path:
    """Returns the file that keeps the answer for this kernel until the host boots again.

    Its name does not depend on the times of the kernel's file, which each run that uses it changes.
    """
    stat = kernel.stat()
    identity = f"{kernel.resolve()} {stat.st_ino} {stat.st_size}"
    return cache / f"kvm-{_host_boot()}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"


def _keep(file: Path, text: str) -> None:
    """Writes the file atomically, and removes results of earlier boots."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as unfinished:
        unfinished.write(text)
    Path(unfinished.name).rename(file)
    for old in file.parent.glob("kvm*.json"):
        if not old.name.startswith(f"kvm-{_host_boot()}-"):
            old.unlink(missing_ok=True)


def kvm_works(kernel: Path, cache: Path) -> tuple[bool, str]:
    """Whether KVM boots this kernel, and a sentence with the reason."""
    if not os.access(KVM, os.R_OK | os.W_OK):
        return False, "no access to /dev/kvm" if KVM.exists() else "no /dev/kvm"
    file = _answer(kernel, cache)
    try:
        known = json.loads(file.read_text())
        return bool(known["works"]), str(known["why"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not probed yet, or the file is damaged
    start = time.monotonic()
    works = _boots(kernel, PROBE_SECONDS)
    took = time.monotonic() - start
    why = (f"KVM booted the kernel in {took:.1f} s" if works else
           f"KVM is present but did not boot the kernel, tried for {took:.1f} s")
    _keep(file, json.dumps({"works": works, "why": why}))
    return works, why


def choose(mode: str, kernel: Path, cache: Path) -> tuple[str, str]:
    """(accelerator, why) for --kvm auto|on|off."""
    if mode == "off":
        return "tcg", "--kvm off"
    if mode == "on":
        return "kvm", "--kvm on"
    works, why = kvm_works(kernel, cache)
    return ("kvm" if works else "tcg"), why
