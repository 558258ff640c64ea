# SPDX-License-Identifier: GPL-2.0
"""Compares the words that the completion files offer with the manual pages.

The completion files take commands and options out of the command's help, by a program of awk that all
of them have. TOOL is the command, in the environment.
"""

import functools
import os
import re
import subprocess
import unittest
from pathlib import Path

HERE = Path(__file__).parent
FILES = ("amdgpu-criu", "_amdgpu-criu", "amdgpu-criu.fish")
SNAPSHOT = "snapshot"  # has commands of its own, and a manual page
ALWAYS = {"-h", "--help", "--help-all"}


def manual(page: str) -> str:
    return (HERE.parent / "man" / page).read_text(encoding="utf-8").replace("\\-", "-")


def section(name: str, page: str = "amdgpu-criu.1") -> str:
    return manual(page).split(f".SH {name}\n")[1].split("\n.SH ")[0]


def commands(page: str) -> set[str]:
    return set(re.findall(r"^\.TP\n\.B ([a-z-]+)$", section("DESCRIPTION", page), re.M))


def options(page: str) -> set[str]:
    lines = re.findall(r"^\.T[PQ]\n(\.BI? -.*)$", section("OPTIONS", page), re.M)
    return {option for line in lines for option in OPTION.findall(re.sub(r"\\f.", "", line))}


OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][a-z-]*")
ALIASES = {"-t", "--images-dir"}  # not in the synopsis
COMMANDS = commands("amdgpu-criu.1")
OPTIONS = options("amdgpu-criu.1")


@functools.cache
def help_text(*command: str) -> bytes:
    return subprocess.run([os.environ["TOOL"], *command, "--help"], stdout=subprocess.PIPE,
                          check=True).stdout


def offered(file: str, *command: str) -> set[str]:
    program = re.search(r"awk '(.*?)'", (HERE / file).read_text(encoding="utf-8"), re.S)
    assert program
    words = subprocess.run(["awk", program[1]], input=help_text(*command), stdout=subprocess.PIPE,
                           check=True).stdout
    return set(words.decode().split())


class Completion(unittest.TestCase):
    def test_all_commands_of_the_manual_are_offered(self) -> None:
        for file in FILES:
            with self.subTest(file):
                self.assertEqual(offered(file), COMMANDS | ALWAYS | {"--version"})

    def test_all_options_of_the_manual_are_offered(self) -> None:
        for file in FILES:
            with self.subTest(file):
                words = set[str]().union(*(offered(file, one) for one in COMMANDS - {SNAPSHOT}))
                self.assertEqual(words | {"--version"}, OPTIONS | ALWAYS)

    def test_all_commands_and_options_of_snapshots_are_offered(self) -> None:
        page = "amdgpu-criu-snapshot.1"
        for file in FILES:
            with self.subTest(file):
                self.assertEqual(offered(file, SNAPSHOT), commands(page) | ALWAYS)
                words = set[str]().union(*(offered(file, SNAPSHOT, one) for one in commands(page)))
                self.assertEqual(words, options(page) | ALWAYS)

    def test_the_synopsis_shows_each_command_with_its_options(self) -> None:
        shown: dict[str, set[str]] = {name: set() for name in COMMANDS}
        for call in section("SYNOPSIS").split(".br\n"):
            first, _, rest = call.partition("\n")
            shown[first.removeprefix(".B amdgpu-criu ")] |= set(OPTION.findall(rest))
        del shown[SNAPSHOT]
        for name, words in shown.items():
            with self.subTest(name):
                self.assertEqual(words | ALIASES | ALWAYS, offered(FILES[0], name) | ALIASES | ALWAYS)


if __name__ == "__main__":
    unittest.main()
