# SPDX-License-Identifier: GPL-2.0
"""Functions of lab-kernels.sh, called from bash, with an archive that is a table."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]

Package = tuple[str, str, str]  # name, version, suite

# Both functions are called with the options of apt-cache: a search for names, then `madison NAME...`.
FAKE_APT = """
answer() {
  local name version suite
  while read -r name version suite; do
    case $2 in
    --names-only) echo "$name - a package" ;;
    madison) [[ " ${*:3} " != *" $name "* ]] ||
      echo "$name | $version | http://archive $suite/main amd64 Packages" ;;
    esac
  done <"$1"
}
lab_apt_cache() { answer "$TABLES/lab" "$@"; }
archive_apt_cache() { answer "$TABLES/archive" "$@"; }
read_archive() { touch "$TABLES/was-read"; }
"""


def kernel(version: str, suite: str, release: str) -> list[Package]:
    return [(f"linux-source-{base_of(version)}", version, suite), *binaries(version, suite, release)]


def base_of(version: str) -> str:
    return ".".join(version.replace("~", ".").split(".")[:2])


def binaries(version: str, suite: str, release: str) -> list[Package]:
    return [(f"linux-{kind}-{release}{flavour}-amd64", version, suite)
            for kind in ("headers", "image") for flavour in ("", "-rt")]


BACKPORT = kernel("7.3.4-1~bpo13+1", "trixie-backports", "7.3.4+deb13")
OLDER = kernel("7.3.10-1~bpo13+1", "trixie-backports", "7.3.10+deb13")
STABLE = kernel("6.12.117-1", "trixie", "6.12.117+deb13")
EXPERIMENTAL = kernel("7.4~rc7-1~exp1", "experimental", "7.4")
SID = kernel("7.3.9-1", "sid", "7.3.9+deb14")


class Kernels(unittest.TestCase):
    def setUp(self) -> None:
        self.tables = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def call(self, command: str, lab: Sequence[Package],
             others: Sequence[Package] = ()) -> subprocess.CompletedProcess[str]:
        for name, packages in (("lab", lab), ("archive", [*lab, *others])):
            (self.tables / name).write_text("".join(f"{' '.join(one)}\n" for one in packages))
        libraries = "; ".join(f'. "{TOP}/scripts/lib/{name}.sh"'
                              for name in ("common", "lab-toolchain", "lab-kernels"))
        return subprocess.run(
            ["bash", "-c", f"{libraries}; TABLES={self.tables}; {FAKE_APT}\n{command}",
             f"{TOP}/scripts/test"], check=False, text=True, capture_output=True)

    def refusal(self, lab: Sequence[Package], others: Sequence[Package] = ()) -> str:
        result = self.call("newest_kernel 7.3", lab, others)
        self.assertNotEqual(0, result.returncode)
        self.assertEqual("", result.stdout)
        self.assertTrue((self.tables / "was-read").exists())
        return result.stderr

    def test_the_newest_complete_version_is_taken(self) -> None:
        result = self.call("newest_kernel 7.3", [*OLDER, *BACKPORT, *STABLE])
        self.assertEqual("7.3.10+deb13-amd64 7.3.10-1~bpo13+1\n", result.stdout)
        self.assertFalse((self.tables / "was-read").exists())

    def test_a_version_without_headers_is_passed_over(self) -> None:
        lab = [one for one in [*OLDER, *BACKPORT] if "headers-7.3.10" not in one[0]]
        self.assertEqual("7.3.4+deb13-amd64 7.3.4-1~bpo13+1\n",
                         self.call("newest_kernel 7.3", lab).stdout)

    def test_headers_of_another_version_are_not_enough(self) -> None:
        lab = [("linux-source-7.3", "7.3.4-2", "trixie-backports"), *BACKPORT[1:]]
        self.assertIn("7.3.4-2 in trixie-backports, source only", self.refusal(lab))

    def test_other_suites_are_searched(self) -> None:
        text = self.refusal(STABLE, [*SID, *EXPERIMENTAL])
        for line in ("kernel 7.3: 7.3.9-1 in sid\n", "kernel 7.4: 7.4~rc7-1~exp1 in experimental\n",
                     "kernel 6.12: 6.12.117-1 in trixie\n", "next-kernel"):
            self.assertIn(line, text)

    def test_a_base_that_can_be_had_is_named(self) -> None:
        wanted = "LAB_BASES=6.12 BASE=6.12 with each make"
        self.assertIn(wanted, self.refusal(STABLE, SID))
        self.assertNotIn("LAB_BASES", self.refusal([], [*STABLE, *SID]))

    def test_of_each_suite_the_newest_is_named(self) -> None:
        text = self.refusal([], [*OLDER, *BACKPORT, *SID])
        self.assertIn("7.3.10-1~bpo13+1 in trixie-backports", text)
        self.assertNotIn("7.3.4-1", text)

    def test_a_lab_can_have_one_base(self) -> None:
        for value, bases in (("", "7.3 6.12"), ("6.12", "6.12 6.12"), ("7.4 6.12", "7.4 6.12")):
            script = f'. "{TOP}/scripts/lib/common.sh"; . "{TOP}/scripts/lib/lab-toolchain.sh"; ' \
                     'echo "$KERNEL_BASE $LTS_BASE"'
            result = subprocess.run(["bash", "-c", script, f"{TOP}/scripts/test"], check=True,
                                    text=True, capture_output=True,
                                    env={"LAB_BASES": value, "PATH": "/usr/bin:/bin"})
            self.assertEqual(f"{bases}\n", result.stdout)


if __name__ == "__main__":
    unittest.main()
