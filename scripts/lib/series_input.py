# SPDX-License-Identifier: GPL-2.0
"""Reads the input of a series: whole files, hook patches and messages."""

from dataclasses import dataclass
from pathlib import Path


class Fault(Exception):
    """An error in the input, which the user has to correct."""


class Message:
    """SPDX line, "Subject: ..." lines, blank, body; of a hook patch as well."""

    def __init__(self, path):
        lines = path.read_text().splitlines()
        if len(lines) < 4 or "SPDX-License-Identifier:" not in lines[0]:
            raise Fault(f"{path}: expected an SPDX line, a subject and a message")
        if not lines[1].startswith("Subject: ") or lines[2]:
            raise Fault(f"{path}: expected `Subject: ...` and an empty line after the SPDX line")
        self.subject = lines[1].removeprefix("Subject: ").strip()
        body = []
        for line in lines[3:]:
            if line.startswith("--- a/"):
                break
            body.append(line.rstrip())
        self.body = "\n".join(body).strip() + "\n"


@dataclass
class Hook:
    name: str
    path: Path
    sections: dict  # path in the kernel tree -> text of the patch to that file


def read_hook(path):
    name = path.stem.split("-", 1)[1] if path.stem[0].isdigit() else path.stem
    sections, current = {}, None
    for line in path.read_text().splitlines(keepends=True):
        if line.startswith("--- a/"):
            current = line.split()[1].removeprefix("a/")
            if current in sections:
                raise Fault(f"{path}: two parts for {current}")
            sections[current] = ""
        if current:
            sections[current] += line
    if not sections:
        raise Fault(f"{path}: changes nothing")
    return Hook(name, path, sections)


def read_hooks(directories):
    hooks = {}
    for directory in directories:
        for path in sorted(directory.glob("*.patch")):
            hook = read_hook(path)
            if hook.name in hooks:
                raise Fault(f"{path}: there is another hook patch of this name")
            hooks[hook.name] = hook
    return hooks


def files_below(directory):
    return sorted(path for path in directory.rglob("*") if path.is_file())


def read_new_files(top, base):
    """Maps each path in the kernel tree to our file."""
    new = {"include/uapi/drm/amdgpu_criu.h": top / "uapi/drm/amdgpu_criu.h"}
    # The base's own files come last, as in scripts/stage.
    for root in (top / "kernel", top / "kernel/base" / base):
        for path in files_below(root / "drivers"):
            if path.suffix in (".c", ".h") and "_test." not in path.name:
                new[str(path.relative_to(root))] = path
    for path in files_below(top / "kernel/Documentation"):
        new[str(path.relative_to(top / "kernel"))] = path
    for path in files_below(top / "selftests/amdgpu_criu"):
        if path.name not in ("CMakeLists.txt", "README.md"):
            new[f"tools/testing/{path.relative_to(top)}"] = path
    return new
