# SPDX-License-Identifier: GPL-2.0
"""Files that are made once and used by many runs, also by runs at the same time."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

# A file in use was recently touched by its user, or is held open by QEMU.
UNUSED_SECONDS = 3600


def digest(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()[:32]


def produce(path: Path, make: Callable[[Path], None]) -> Path:
    """`path`, made by `make` unless it exists; it appears atomically."""
    if path.exists():
        os.utime(path)
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        unfinished = Path(work) / path.name
        make(unfinished)
        unfinished.rename(path)
    kind = path.name.split("-", 1)[0]
    prune(path.parent, f"{kind}-*{path.suffix}")
    return path


def prune(directory: Path, pattern: str, now: Callable[[], float] = time.time) -> None:
    """Removes files that no run has used for a while."""
    for file in directory.glob(pattern):
        try:
            if file.stat().st_mtime < now() - UNUSED_SECONDS:
                file.unlink()
        except FileNotFoundError:
            pass  # another run has removed it
