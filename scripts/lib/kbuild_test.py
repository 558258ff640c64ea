# SPDX-License-Identifier: GPL-2.0
"""Functions of kbuild.sh, called from bash."""

from __future__ import annotations

import platform
import subprocess
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def call(command: str) -> str:
    """What it prints."""
    script = f'. "{TOP}/scripts/lib/common.sh"; . "{TOP}/scripts/lib/kbuild.sh"; {command}'
    return subprocess.run(["bash", "-c", script, f"{TOP}/scripts/test"], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


class Install(unittest.TestCase):
    def test_a_module_for_another_kernel_is_announced(self) -> None:
        self.assertIn("is for Linux 1.2.3-other", call("warn_of_other_kernel 1.2.3-other"))

    def test_a_module_for_this_kernel_is_not(self) -> None:
        self.assertEqual("", call(f"warn_of_other_kernel {platform.release()}"))


if __name__ == "__main__":
    unittest.main()
