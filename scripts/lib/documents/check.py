#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""check.py TOP: checks that the names in documents exist.

Reads paths of tracked files from standard input. CONTRIBUTING.md says how a document marks names.
These kinds of names are checked: paths, make targets and their arguments, options, environment
variables, options of the plugin, tests, file names, and identifiers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from .names import IS_DOCUMENT, Names, matches
from .spans import Span, spans

# A document of the kernel names files as they are in a kernel tree.
KERNEL_ROOTS = ("kernel", "kernel/base/7.3", "kernel/drivers/gpu/drm/amd",
                "kernel/drivers/gpu/drm/amd/amdgpu")
KERNEL_PATHS = (("include/uapi/", "uapi/"), ("tools/testing/selftests/", "selftests/"))
# Options of programs that only a person calls.
FOREIGN_OPTIONS = {"--plugin-option", "--tcp-established"}
# amdgpu.ko, and the placeholder of the manual page.
NO_PLUGIN_OPTIONS = {"ko", "name"}
# A path that a build or a run creates counts as existing if a script or program names it.
MADE = ("build/", "outgoing/")
OF_THE_GUEST = ("/payload/",)

_ENVIRONMENT = re.compile(r"^(\w+)=")
_PLACEHOLDER = re.compile(r"\b[A-Z]+\b|…")
_PLACEHOLDER_IN_NAME = re.compile(r"(?<=[a-z]_)[A-Z]+$")
_OPTION = re.compile(r"^(--[a-z][a-z-]*)")
_PLUGIN_OPTION = re.compile(r"^(?:--)?amdgpu\.([a-z-]+)")
_PLUGIN_VARIABLE = re.compile(r"^AMDGPU_CRIU_([A-Z_]+)(?:=|$)")
_DOTTED = re.compile(r"^[\w*?{},-]+(\.[\w*?{},-]+)+$")
_IDENTIFIER = re.compile(r"^([A-Za-z_]\w*)(\(\))?$")


def expand(pattern: str) -> list[str]:
    """Expands braces as a shell does."""
    braces = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if not braces:
        return [pattern]
    head, tail = pattern[: braces.start()], pattern[braces.end() :]
    return [path for word in braces[1].split(",") for path in expand(head + word + tail)]


class Document:
    def __init__(self, names: Names, path: str) -> None:
        self.names = names
        self.path = path
        self.directory = str(PurePosixPath(path).parent)

    def faults(self) -> Iterator[tuple[int, str]]:
        for span in spans(self.path, self.names.files[self.path]):
            for fault in self._of(span):
                yield span.line, fault

    def _of(self, span: Span) -> Iterator[str]:
        if span.kind == "code":
            yield from self._code(span.text)
        elif span.kind == "link":
            if "://" not in span.text and not span.text.startswith("#"):
                yield from self._path(span.text.split("#")[0])
        elif not self.names.has(span.kind, span.text):
            yield f"there is no {span.kind} {span.text}"

    # --- A command, or words of one

    def _code(self, text: str) -> Iterator[str]:
        if self.path.endswith(".rst") and " " in text:
            yield from self._message(text)
            return
        quoted = re.sub(r"'[^']*'", lambda match: match[0].replace(" ", "\0"), text)
        stripped = (word.strip("\"'[],;:|&()…<>") for word in quoted.split())
        words = [word for word in stripped if word]
        if "--" in words:  # a command follows
            place = words.index("--")
            yield from self._command(words[place + 1 :])
            del words[place:]
        yield from self._command(words)

    def _command(self, words: list[str]) -> Iterator[str]:
        while words and (words[0] in ("sudo", "env") or _ENVIRONMENT.match(words[0])):
            yield from self._word(words.pop(0), "")
        if words and words[0] == "make":
            yield from self._make(words[1:])
            return
        program = words[0] if words else ""
        yield from self._arguments(program, words[1:])
        for word in words:
            yield from self._word(word, program)

    def _message(self, text: str) -> Iterator[str]:
        """Checks a message of the kernel's log. Words in capitals are placeholders."""
        for piece in re.split(r"\b[A-Z_]+\b", text):
            if len(piece.strip()) > 3 and piece not in self.names.messages:
                yield f"no message has: {piece.strip()}"

    def _make(self, words: list[str]) -> Iterator[str]:
        targets = [word for word in words if "=" not in word and not word.startswith("-")]
        if "-C" in words:  # of another tree
            return
        for target in targets:
            if not matches(_PLACEHOLDER.sub("*", target), self.names.targets):
                yield f"there is no make target {target}"
        for word in words:
            variable, equals, value = word.partition("=")
            if equals and variable not in self.names.make_variables:
                yield f"the Makefile has no variable {variable}"
            kind = {"campaign": "campaign", "static": "check"}.get(targets[0] if targets else "")
            if variable == "ARGS" and kind and not _PLACEHOLDER.search(value):
                if not self.names.has(kind, value.strip("'")):
                    yield f"there is no {kind} {value}"

    def _arguments(self, program: str, words: list[str]) -> Iterator[str]:
        """Checks names that certain programs accept as arguments."""
        kinds: dict[str, str] = {
            "/payload/e2e/run": "scenario",
            "selftests/e2e/scenarios/run": "scenario",
            "scripts/campaign": "campaign",
            "scripts/static": "check",
            "scripts/check": "rung",
        }
        if program in kinds:
            for word in words:
                if re.match(r"^@?[a-z]", word) and not self.names.has(kinds[program], word):
                    yield f"there is no {kinds[program]} {word}"

    # --- One word

    def _word(self, word: str, program: str) -> Iterator[str]:
        checks: tuple[tuple[bool, Callable[[str], Iterator[str]]], ...] = (
            (bool(_PLUGIN_OPTION.match(word)), self._plugin_option),
            (bool(_PLUGIN_VARIABLE.match(word)), self._plugin_variable),
            (word.startswith("--"), lambda option: self._option(option, program)),
            ("/" in word, self._path),
            (bool(_ENVIRONMENT.match(word)), self._variable),
            (bool(_DOTTED.match(word)), self._dotted),
            (bool(_IDENTIFIER.match(word)), self._identifier),
        )
        for applies, check in checks:
            if applies:
                yield from check(word)
                return

    def _plugin_option(self, word: str) -> Iterator[str]:
        name = _PLUGIN_OPTION.match(word)[1]
        if name not in self.names.plugin_options | NO_PLUGIN_OPTIONS:
            yield f"the plugin has no option {name}"

    def _plugin_variable(self, word: str) -> Iterator[str]:
        name = _PLUGIN_VARIABLE.match(word)[1]
        if name.lower().replace("_", "-") not in self.names.plugin_options:
            yield from self._identifier("AMDGPU_CRIU_" + name)

    def _option(self, word: str, program: str) -> Iterator[str]:
        option = _OPTION.match(word)
        if not option or option[1] in FOREIGN_OPTIONS:
            return
        if not re.search(re.escape(option[1]) + r"(?![\w-])", self.names.options_of(program)):
            yield f"{program or 'no program'} has no option {option[1]}"

    def _variable(self, word: str) -> Iterator[str]:
        yield from self._identifier(_ENVIRONMENT.match(word)[1])

    def _path(self, word: str) -> Iterator[str]:
        word = word.split("=")[-1].rstrip("/.:")
        if word.startswith(OF_THE_GUEST):
            name = PurePosixPath(word).name
            if name not in self.names.basenames and name not in self.names.all_code:
                yield f"nothing named {name} is made for the guest"
        elif f"{word}/" in MADE:
            return
        elif word.startswith(MADE):
            made = "/".join(_PLACEHOLDER.split(word)[0].split("*")[0].rstrip("/").split("/")[:2])
            if made not in self.names.all_code:
                yield f"nothing makes {made}"
        elif word.startswith(("/", "~", "$", "<", "http")) or "://" in word:
            return
        elif not all(self._exists(path) for path in expand(word)):
            yield f"there is no {word}"

    def _exists(self, path: str) -> bool:
        pattern = _PLACEHOLDER.sub("*", path)
        roots = ["", self.directory]
        if self.path.endswith(".rst"):
            roots += KERNEL_ROOTS
            for kernel, ours in KERNEL_PATHS:
                if pattern.startswith(kernel):
                    pattern = ours + pattern.removeprefix(kernel)
        for root in roots:
            whole = _normal(f"{root}/{pattern}" if root else pattern)
            if whole in self.names.paths or matches(whole, self.names.paths):
                return True
        return False

    def _dotted(self, word: str) -> Iterator[str]:
        """Checks the name of a test or of a file."""
        program, _, test = word.partition(".")
        if program in self.names.kselftests:
            if not matches(test, self.names.kselftests[program]):
                yield f"{program} has no test {test}"
            return
        for name in expand(word):
            known = matches(_PLACEHOLDER.sub("*", name), self.names.basenames | self.names.gtests)
            parts = re.split(r"[A-Z]+|[*?]", name)
            if not known and not all(part in self.names.all_code for part in parts):
                yield f"nothing is named {name}"

    def _identifier(self, word: str) -> Iterator[str]:
        """Checks a word that looks like a name of the code: with an underscore, in capitals, or called."""
        name = _IDENTIFIER.match(word)[1]
        looks = "_" in name or word.endswith("()") or (name.isupper() and len(name) > 4)
        if not looks or name in self.names.words:
            return
        pieces = _PLACEHOLDER_IN_NAME.split(name)
        if len(pieces) == 1 or not all(piece in self.names.all_code for piece in pieces):
            yield f"no code has the name {name}"


def _normal(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def read(top: Path, paths: list[str]) -> dict[str, str]:
    def text(path: str) -> str:
        data = (top / path).read_bytes()
        return "" if b"\0" in data else data.decode(errors="replace")

    return {path: text(path) for path in paths}


def faults(files: dict[str, str]) -> list[str]:
    names = Names(files)
    return [f"{path}:{line}: {fault}" for path in sorted(files) if IS_DOCUMENT.search(path)
            for line, fault in Document(names, path).faults()]


def main() -> int:
    found = faults(read(Path(sys.argv[1]), sys.stdin.read().split()))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
