# SPDX-License-Identifier: GPL-2.0
import re
import unittest
from pathlib import Path

SCENARIOS = Path(__file__).resolve().parents[1]
MANUAL = SCENARIOS.parents[2] / "plugin/man/criu-amdgpu.1"


def tested(use: str) -> set[str]:
    """The capabilities of a variable of privileges.sh."""
    words = re.search(rf"^{use.upper()}_CAPS='(.*)'$", (SCENARIOS / "privileges.sh").read_text(), re.M)
    return {f"CAP_{word.upper()}" for word in words[1].split()} if words else set()


def documented(use: str) -> set[str]:
    """Those in the list of the manual page that have the use in parentheses."""
    lines = re.findall(r"^(CAP_.*) \((.*)\)$", MANUAL.read_text(), re.M)
    return {name for names, uses in lines if use in uses.split(", ")
            for name in re.findall(r"CAP_\w+", names)}


class PrivilegesTest(unittest.TestCase):
    def test_the_manual_page_lists_those_that_container_privileges_least_shows(self) -> None:
        for use in ("dump", "restore"):
            self.assertTrue(tested(use))
        self.assertEqual(documented("checkpoint"), tested("dump"))
        self.assertEqual(documented("restore"), tested("restore"))

    def test_the_manual_page_lists_the_calls_of_pod_helper_restores(self) -> None:
        calls = re.search(r"^HELPER_CALLS='(.*)'$", (SCENARIOS / "privileges.sh").read_text(), re.M)
        listed = re.search(r"seccomp profile that also allows\n((?:\.BR \w+ .*\n)+)", MANUAL.read_text())
        assert calls and listed
        self.assertEqual(re.findall(r"^\.BR (\w+)", listed[1], re.M), calls[1].split())


if __name__ == "__main__":
    unittest.main()
