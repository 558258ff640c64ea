# SPDX-License-Identifier: GPL-2.0
"""Files that are made once and used by many runs, also by runs at the same time."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

# What no run holds is kept that long for the next one.
UNUSED_SECONDS = 3600

_held: list[BinaryIO] = []  # until this program ends


def digest(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()[:32]


def produce(path: Path, make: Callable[[Path], None]) -> Path:
    """`path`, made by `make` unless it exists; it appears atomically, and this program holds it."""
    while not _hold(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as work:
            unfinished = Path(work) / path.name
            make(unfinished)
            unfinished.rename(path)
        kind = path.name.split("-", 1)[0]
        prune(path.parent, f"{kind}-*{path.suffix}")
    return path


def _hold(path: Path) -> bool:
    """False if there is no such file. Guests of one check may boot with it for hours."""
    try:
        file = path.open("rb")
        fcntl.flock(file, fcntl.LOCK_SH)
        if path.stat().st_ino != os.fstat(file.fileno()).st_ino:
            return False  # another run has removed it, and made it anew
    except FileNotFoundError:
        return False
    os.utime(path)
    _held.append(file)
    return True


def prune(directory: Path, pattern: str, now: Callable[[], float] = time.time) -> None:
    """Removes files that no run holds or has used for a while."""
    for path in directory.glob(pattern):
        try:
            if path.stat().st_mtime >= now() - UNUSED_SECONDS:
                continue
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
        except (FileNotFoundError, BlockingIOError):
            pass  # another run has removed it, or holds it
