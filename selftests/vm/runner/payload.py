# SPDX-License-Identifier: GPL-2.0
"""The payload disk: a read-only ext4 image with the guest's programs, cached by contents."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .cache import digest, produce
from .lab import ROOT, Failure

LABEL = "lab-payload"
# Files that CMake leaves beside programs.
BUILD_ONLY = ("CMakeFiles", "cmake_install.cmake", "CTestTestfile.cmake", "*.a", "*.o")


@dataclass(frozen=True)
class Entry:
    """One line of the manifest."""

    source: Path
    destination: str
    required: bool
    made_by: str


def parse_manifest(text: str, root: Path, build: Path) -> list[Entry]:
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#", 1)[0].strip()
        if not line:
            continue
        fields = line.split(None, 3)
        if len(fields) != 4 or fields[2] not in ("required", "optional"):
            raise Failure(f"payload manifest, line {number}: "
                          "expected SOURCE DESTINATION required|optional MADE-BY")
        source, destination, need, made_by = fields
        if destination.startswith("/") or ".." in Path(destination).parts:
            raise Failure(f"payload manifest, line {number}: "
                          f"{destination} must be a path below /payload")
        entries.append(Entry(root / source.replace("{build}", str(build)), destination,
                             need == "required", made_by))
    return entries


def _files(entry: Entry) -> Iterator[tuple[Path, Path]]:
    """Pairs of source file and destination."""
    source, destination = entry.source, Path(entry.destination)
    if source.name == "*":
        source = source.parent
    if source.is_dir():
        for directory, subdirectories, names in os.walk(source):
            subdirectories[:] = sorted(name for name in subdirectories if not _build_only(name))
            below = Path(directory).relative_to(source)
            for name in sorted(name for name in names if not _build_only(name)):
                yield Path(directory) / name, destination / below / name
    else:
        yield source, destination


def _build_only(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in BUILD_ONLY)


def _exists(entry: Entry) -> bool:
    source = entry.source
    return source.parent.is_dir() if source.name == "*" else source.exists()


@dataclass(frozen=True)
class Plan:
    """The files of the disk (destination to source; later entries win), and missing ones."""

    files: dict[str, Path]
    missing: list[Entry]

    @staticmethod
    def make(entries: Sequence[Entry]) -> Plan:
        files: dict[str, Path] = {}
        missing = []
        for entry in entries:
            if not _exists(entry):
                missing.append(entry)
                continue
            for source, destination in _files(entry):
                if not source.exists():
                    raise Failure(f"{source} is a link to {os.readlink(source)}, which does not exist")
                files[str(destination)] = source
        needed = [entry for entry in missing if entry.required]
        if needed:
            lines = [f"  {e.source}" + ("" if e.made_by == "-" else f": `{e.made_by}` makes it")
                     for e in needed]
            raise Failure("missing for the guest:\n" + "\n".join(lines))
        return Plan(files, missing)

    def has(self, path: str) -> bool:
        """Whether a file or directory of this name is on the disk."""
        return path in self.files or any(file.startswith(path + "/") for file in self.files)

    def made_by(self, path: str) -> str:
        """What makes a missing path, as the end of a sentence."""
        for entry in self.missing:
            if path == entry.destination or path.startswith(entry.destination + "/"):
                return "" if entry.made_by == "-" else f": `{entry.made_by}` makes it"
        return " from the payload manifest"

    def digest(self) -> str:
        lines = [f"{destination}\0{stat.S_IMODE(source.stat().st_mode):o}\0{digest(source)}\n"
                 for destination, source in sorted(self.files.items())]
        return hashlib.sha256("".join(lines).encode()).hexdigest()[:32]


def build_image(plan: Plan, cache: Path) -> Path:
    """The image for this plan; made only if the cache does not have it."""

    def make(image: Path) -> None:
        tree = image.parent / "tree"
        total = _copy(plan, tree)
        _mke2fs(image, LABEL, total + total // 8 + (8 << 20), tree)

    return produce(cache / f"payload-{plan.digest()}.ext4", make)


def _copy(plan: Plan, tree: Path) -> int:
    total = 0
    for destination, source in plan.files.items():
        target = tree / destination
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(stat.S_IMODE(source.stat().st_mode) | 0o444)
        total += target.stat().st_size + 4096
    return total


def _mke2fs(image: Path, label: str, size: int, tree: Path | None) -> None:
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-L", label, "-m", "0",
               "-O", "^has_journal" if tree else "has_journal", "-E", "root_owner=0:0"]
    if tree:
        command += ["-d", str(tree)]
    command += [str(image), f"{-(-size // 1024)}k"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise Failure(f"mke2fs cannot make {image}:\n{result.stderr}")


def scratch_image(place: Path, size_mib: int) -> Path:
    """A persistent disk for the guest: PLACE itself, or scratch.ext4 in it if it is a directory."""
    image = place / "scratch.ext4" if place.is_dir() else place
    if not image.exists():
        if not image.parent.is_dir():
            raise Failure(f"{image.parent} is not a directory: no place for a scratch disk")
        _mke2fs(image, "lab-scratch", size_mib << 20, None)
    return image


def manifest_entries(manifest: Path, build: Path) -> list[Entry]:
    return parse_manifest(manifest.read_text(), ROOT, build)
