# SPDX-License-Identifier: GPL-2.0
"""The names that exist in a tree: what a document may refer to."""

from __future__ import annotations

import fnmatch
import re
from functools import cached_property
from pathlib import PurePosixPath

IS_DOCUMENT = re.compile(r"\.(md|rst|[1-9])$")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KSELFTEST = re.compile(
    r"\bTEST(?:_SIGNAL|_F|_F_TIMEOUT|_F_SIGNAL)?\(\s*(\w+)(?:,\s*(\w+))?")
_GTEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)")
_KSELFTEST_DIR = "selftests/amdgpu_criu/"
# Programs, and where their options are.
_PROGRAMS = {
    "run": ("selftests/vm/runner/*",),
    "check": ("selftests/vm/runner/*",),
    "softgpu": ("selftests/gpu/main.cc",),
    "amdgpu-criu": ("plugin/tool/*",),
    "measure": ("selftests/bench/guest/*",),
    "amdgpu-criu-selftest": ("selftests/machine/*",),
}


def matches(pattern: str, names) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for name in names)


class Names:
    """Maps the paths of files to their texts; a file that is not text has an empty one."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files
        self.code = {p: text for p, text in files.items() if not IS_DOCUMENT.search(p)}

    def _all(self, pattern: str, expression: str) -> set[str]:
        """Returns what the expression captures in the files of that pattern."""
        found: set[str] = set()
        for path, text in self.code.items():
            if fnmatch.fnmatchcase(path, pattern):
                found.update(re.findall(expression, text, re.M))
        return found

    @cached_property
    def paths(self) -> set[str]:
        """Returns all files and directories."""
        result = set(self.files)
        for path in self.files:
            result.update(str(parent) for parent in PurePosixPath(path).parents)
        return result - {"."}

    @cached_property
    def basenames(self) -> set[str]:
        return {PurePosixPath(path).name for path in self.paths}

    @cached_property
    def words(self) -> set[str]:
        return {word for text in self.code.values() for word in _WORD.findall(text)}

    @cached_property
    def all_code(self) -> str:
        return "\0".join(self.code.values())

    @cached_property
    def messages(self) -> str:
        """Returns the driver's strings, with a space for every conversion."""
        text = "\0".join(text for path, text in self.code.items()
                         if re.match(r"kernel/(base/[^/]+/)?drivers/", path))
        return re.sub(r"%[-#0-9a-z]*[a-z]", "\1", re.sub(r'"\s*\n\s*"', "", text))

    @cached_property
    def targets(self) -> set[str]:
        result: set[str] = set()
        for line in re.findall(r"^\.PHONY:(.*)$", self.files.get("Makefile", ""), re.M):
            result.update(line.split())
        return result

    @cached_property
    def make_variables(self) -> set[str]:
        return set(re.findall(r"\$\([^)]*?\b([A-Z][A-Z_]*)\)", self.files.get("Makefile", "")))

    @cached_property
    def _of_kind(self) -> dict[str, set[str]]:
        return {
            "suite": self._all("selftests/vm/*.suite", r"^name = (\S+)"),
            "scenario": self._all("selftests/e2e/scenarios/*", r"^scenario_(\w+)\(\)")
            | {"@" + group for group in self._all("selftests/e2e/scenarios/control/catalog.py",
                                                  r'^    "(\w+)": \(')},
            "campaign": self._all("scripts/lib/ladder/rungs.py", r'^    "([\w-]+)": \(\(')
            | {"library-" + name for name in self._all("scripts/lib/ladder/rungs.py",
                                                       r'"(\w+)": "(?:hip|roc|RCCL|OpenCL)')},
            "rung": self._all("scripts/lib/ladder/rungs.py", r'^    (?:Rung|\w*guests?)\("([\w.-]+)"')
            | self._all("scripts/lib/ladder/rungs.py", r'^GROUPS = \{"([\w-]+)"'),
            "check": self._all("scripts/*", r"^check_(\w+)\(\)"),
            "workload": self._all("selftests/*CMakeLists.txt", r"(?:add_executable|e2e_program)\((\w+)"),
        }

    def has(self, kind: str, name: str) -> bool:
        return matches(name, self._of_kind[kind])

    @cached_property
    def kselftests(self) -> dict[str, set[str]]:
        """Program -> its tests, alone and with their fixture."""
        result: dict[str, set[str]] = {}
        for path, text in self.code.items():
            if not path.startswith(_KSELFTEST_DIR) or not path.endswith(".c"):
                continue
            tests = result.setdefault(PurePosixPath(path).stem, set())
            for first, second in _KSELFTEST.findall(text):
                tests.update({second, f"{first}.{second}"} if second else {first})
        return {program: tests for program, tests in result.items() if tests}

    @cached_property
    def gtests(self) -> set[str]:
        return {f"{suite}.{test}" for path, text in self.code.items() if path.endswith("_test.cc")
                for suite, test in _GTEST.findall(text)}

    @cached_property
    def plugin_options(self) -> set[str]:
        return self._all("plugin/options/*.cc", r'\{"([a-z-]+)",')

    def options_of(self, program: str) -> str:
        """Returns the text that contains a program's options; for programs of others, all code."""
        name = PurePosixPath(program).name
        patterns = _PROGRAMS.get(name, ())
        if program.startswith("scripts/"):
            patterns = (program, "scripts/lib/*")
        text = "\0".join(text for path, text in self.code.items()
                         if any(fnmatch.fnmatchcase(path, p) for p in patterns))
        return text or self.all_code
