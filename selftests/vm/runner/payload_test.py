# SPDX-License-Identifier: GPL-2.0
import tempfile
import unittest
from pathlib import Path

from .lab import Failure
from .payload import Entry, Plan, parse_manifest
from .prepare import later_driver


class ManifestTest(unittest.TestCase):
    def test_reads_lines_and_comments(self) -> None:
        entries = parse_manifest("# a comment\n\n{build}/a b/c optional make host # why\n",
                                 Path("/top"), Path("/top/build/x"))
        self.assertEqual(entries, [Entry(Path("/top/build/x/a"), "b/c", False, "make host")])

    def test_refuses_bad_lines(self) -> None:
        for line in ("a b required", "a b needed -", "a /b required -", "a ../b required -"):
            with self.assertRaises(Failure, msg=line):
                parse_manifest(line, Path("/"), Path("/"))


class LaterDriverTest(unittest.TestCase):
    def test_is_beside_the_driver_that_it_is_made_of(self) -> None:
        for module, beside in (("stock", "7.3-next"), ("build/module/7.3/amdgpu.ko", "7.3-next"),
                               ("/m/7.3-debug-kernel/amdgpu.ko", "7.3-debug-kernel-next")):
            driver = later_driver(module)
            self.assertEqual((driver.parent.name, driver.name), (beside, "amdgpu.ko"))


class PlanTest(unittest.TestCase):
    def setUp(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.addCleanup(self._directory.cleanup)
        self.top = Path(self._directory.name)
        (self.top / "d" / "e").mkdir(parents=True)
        (self.top / "d" / "one").write_text("1")
        (self.top / "d" / "e" / "two").write_text("2")

    def entry(self, source: str, destination: str, required: bool = True) -> Entry:
        return Entry(self.top / source, destination, required, "make it")

    def test_a_directory_is_copied_with_its_contents(self) -> None:
        plan = Plan.make([self.entry("d", "x")])
        self.assertEqual(sorted(plan.files), ["x/e/two", "x/one"])
        self.assertTrue(plan.has("x/one") and plan.has("x/e") and plan.has("x"))
        self.assertFalse(plan.has("x/on"))

    def test_leaves_out_files_that_only_a_build_needs(self) -> None:
        (self.top / "d" / "CMakeFiles").mkdir()
        for name in ("CMakeFiles/rules", "x.a", "cmake_install.cmake"):
            (self.top / "d" / name).write_text("")
        self.assertEqual(sorted(Plan.make([self.entry("d", "x")]).files), ["x/e/two", "x/one"])

    def test_a_link_to_no_file_is_named(self) -> None:
        (self.top / "d" / "gone").symlink_to("nowhere")
        with self.assertRaisesRegex(Failure, "gone is a link to nowhere, which does not exist"):
            Plan.make([self.entry("d", "x")])

    def test_contents_of_a_directory(self) -> None:
        self.assertEqual(sorted(Plan.make([self.entry("d/*", ".")]).files), ["e/two", "one"])

    def test_a_missing_required_source_names_its_make_target(self) -> None:
        with self.assertRaisesRegex(Failure, "nothing: `make it` makes it"):
            Plan.make([self.entry("nothing", "x")])

    def test_a_missing_optional_source_is_named(self) -> None:
        plan = Plan.make([self.entry("nothing", "bin", False)])
        self.assertEqual([entry.destination for entry in plan.missing], ["bin"])
        self.assertEqual(plan.made_by("bin/tool"), ": `make it` makes it")

    def test_the_digest_changes_with_contents_mode_and_name(self) -> None:
        digests = {Plan.make([self.entry("d", "x")]).digest(),
                   Plan.make([self.entry("d", "y")]).digest()}
        (self.top / "d" / "one").write_text("another 1")
        digests.add(Plan.make([self.entry("d", "x")]).digest())
        (self.top / "d" / "one").chmod(0o755)
        digests.add(Plan.make([self.entry("d", "x")]).digest())
        self.assertEqual(len(digests), 4)
        self.assertEqual(Plan.make([self.entry("d", "x")]).digest(),
                         Plan.make([self.entry("d", "x")]).digest())


if __name__ == "__main__":
    unittest.main()
