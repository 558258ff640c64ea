# SPDX-License-Identifier: GPL-2.0
"""Compares the words that the completion files offer with the manual page.

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
MANUAL = (HERE.parent / "man/amdgpu-criu.1").read_text(encoding="utf-8").replace("\\-", "-")
ALWAYS = {"-h", "--help", "--help-all"}


def section(name: str) -> str:
    return MANUAL.split(f".SH {name}\n")[1].split("\n.SH ")[0]


OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][a-z-]*")
ALIASES = {"-t", "--images-dir"}  # not in the synopsis
COMMANDS = set(re.findall(r"^\.TP\n\.B ([a-z-]+)$", section("DESCRIPTION"), re.M))
OPTIONS = {option for line in re.findall(r"^\.TP\n(\.BI? -.*)$", section("OPTIONS"), re.M)
           for option in OPTION.findall(re.sub(r"\\f.", "", line))}


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
                words = set[str]().union(*(offered(file, one) for one in COMMANDS))
                self.assertEqual(words | {"--version"}, OPTIONS | ALWAYS)

    def test_the_synopsis_shows_each_command_with_its_options(self) -> None:
        shown: dict[str, set[str]] = {name: set() for name in COMMANDS}
        for call in section("SYNOPSIS").split(".br\n"):
            first, _, rest = call.partition("\n")
            shown[first.removeprefix(".B amdgpu-criu ")] |= set(OPTION.findall(rest))
        for name, options in shown.items():
            with self.subTest(name):
                self.assertEqual(options | ALIASES | ALWAYS, offered(FILES[0], name) | ALIASES | ALWAYS)


if __name__ == "__main__":
    unittest.main()
