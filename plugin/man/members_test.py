# SPDX-License-Identifier: GPL-2.0
"""Compares the members of the JSON that programs write with those that the manual pages describe."""

import re
import unittest
from pathlib import Path

PLUGIN = Path(__file__).parents[1]
# Sources, and the page and section that describe what they write.
SECTIONS = {
    "tool/check.cc": ("amdgpu-criu.1", "OUTPUT OF CHECK AS JSON"),
    "tool/check_process.cc": ("amdgpu-criu.1", "OUTPUT OF CHECK AS JSON"),
    "tool/suspend.cc": ("amdgpu-criu.1", "OUTPUT OF STATE AS JSON"),
    "tool/show.cc": ("amdgpu-criu.1", "OUTPUT OF SHOW AS JSON"),
    "tool/verify.cc": ("amdgpu-criu.1", "OUTPUT OF VERIFY AS JSON"),
    "tool/requirements.cc": ("amdgpu-criu.1", "OUTPUT OF REQUIREMENTS AS JSON"),
    "tool/stack.cc": ("amdgpu-criu.1", "OUTPUT OF REQUIREMENTS AS JSON"),
    "tool/options.cc": ("amdgpu-criu.1", "OUTPUT OF OPTIONS AS JSON"),
    "tool/bench.cc": ("amdgpu-criu.1", "OUTPUT OF BENCH AS JSON"),
    "snapshot/inspect.cc": ("amdgpu-criu-snapshot.1", "OUTPUT AS JSON"),
    "snapshot/restore.cc": ("amdgpu-criu-snapshot.1", "OUTPUT AS JSON"),
    "snapshot/manifest.cc": ("amdgpu-criu-snapshot.1", "OUTPUT AS JSON"),
    "dump/dump.cc": ("criu-amdgpu.1", "STATISTICS"),
    "restore/restore.cc": ("criu-amdgpu.1", "STATISTICS"),
    "base/statistics.cc": ("criu-amdgpu.1", "STATISTICS"),
}
MEMBER = re.compile(r'(?<=[{\s])\{"([a-z_]+)", |[\w)]\["([a-z_]+)"\] =|\{"([a-z_]+)":')
DEFINED = re.compile(r"^NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE\(\w+, ([^)]*)\)", re.M)
WRITES = re.compile(r"\bprint_json\(|\bwrite_statistics\(k")


def members(source: str) -> set[str]:
    text = (PLUGIN / source).read_text(encoding="utf-8")
    return {"".join(found) for found in MEMBER.findall(text)} | {
        name for names in DEFINED.findall(text) for name in re.findall(r"\w+", names)}


def described(page: str, section: str) -> set[str]:
    """The words in bold."""
    text = (PLUGIN / "man" / page).read_text(encoding="utf-8")
    body = text.split(f".SH {section}\n")[1].split("\n.SH ")[0]
    return set(re.findall(r"[a-z_]+", " ".join(re.findall(r"^\.(?:B|BR|RB) (.*)$", body, re.M))))


class Members(unittest.TestCase):
    def test_each_member_is_described(self) -> None:
        for source, (page, section) in SECTIONS.items():
            with self.subTest(source):
                self.assertTrue(members(source))
                self.assertEqual(members(source) - described(page, section), set())

    def test_each_source_that_writes_json_is_compared(self) -> None:
        writers = {str(path.relative_to(PLUGIN)) for path in PLUGIN.glob("*/*.cc")
                   if WRITES.search(path.read_text(encoding="utf-8"))
                   and not path.name.endswith("_test.cc")}
        # The members that cdi writes are those of the Container Device Interface.
        self.assertEqual(writers - {"tool/output.cc", "tool/cdi.cc"}, set(SECTIONS) - {"base/statistics.cc"})


if __name__ == "__main__":
    unittest.main()
