# SPDX-License-Identifier: GPL-2.0
"""Directories of one run, and the removal of those that a killed run left behind."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType

PREFIX = "amdgpu-vm-"
YOUNG_SECONDS = 60


def _try_lock(directory: Path) -> int | None:
    """A descriptor that holds the directory's lock, or None if another process holds it."""
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def remove_stale(parent: Path) -> None:
    """Removes directories of runs that died without cleaning up, so that their lock is free."""
    for directory in parent.glob(PREFIX + "*"):
        try:
            status = directory.stat()
        except FileNotFoundError:
            continue  # its run has just removed it
        young = status.st_mtime > time.time() - YOUNG_SECONDS  # perhaps not locked yet
        if young or status.st_uid != os.getuid() or (directory / "keep").exists():
            continue
        fd = _try_lock(directory)
        if fd is not None:
            shutil.rmtree(directory, ignore_errors=True)
            os.close(fd)


class LockedDirectory:
    """A new directory that is removed at the end, and by a later run if we are killed."""

    def __init__(self, parent: Path, keep: bool = False) -> None:
        remove_stale(parent)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        fd = _try_lock(self.path)
        assert fd is not None, "a new directory cannot be locked by others"
        self._fd = fd
        self._keep = keep
        if keep:
            (self.path / "keep").touch()

    def __enter__(self) -> LockedDirectory:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if not self._keep:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._fd)


class LogDirectory:
    """build/log/vm/NAME, or NAME-2 and so on while another run writes there. Emptied first."""

    def __init__(self, root: Path, name: str) -> None:
        for number in range(1, 100):
            path = root / (name if number == 1 else f"{name}-{number}")
            path.mkdir(parents=True, exist_ok=True)
            fd = _try_lock(path)
            if fd is not None:
                self.path = path
                self._fd = fd
                break
        else:
            raise RuntimeError(f"{root / name}: 99 runs already write here")
        for entry in self.path.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def __enter__(self) -> LogDirectory:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        os.close(self._fd)


def remove_logs(root: Path, pattern: str) -> None:
    """Removes the directories of logs whose whole name the pattern matches, except those in use."""
    for path in root.iterdir() if root.is_dir() else ():
        fd = _try_lock(path) if re.fullmatch(pattern, path.name) else None
        if fd is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(fd)


def short_parent() -> Path:
    """A place for Unix sockets, whose paths are limited to 107 bytes."""
    return Path(tempfile.gettempdir())


def memory_parent() -> Path:
    """A place for files that stand for video memory: never written to a disk where possible."""
    shm = Path("/dev/shm")
    return shm if os.access(shm, os.W_OK) else short_parent()
