# SPDX-License-Identifier: GPL-2.0
import io
import json
import tarfile
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from runner.ktap import FAIL, PASS, SKIP, TestResult

from . import archive, machine, report
from .execute import StepResult
from .plan import KSELFTEST, SCENARIO, NotRun, Step

GPU = machine.Gpu("0000:03:00.0", "MI210", "gfx90a", 64 << 30, 104, {}, {"mec": "0x41"})
MACHINE = machine.Machine((GPU,), machine.SERIES, "7.3.4 #1", "Debian", False, {"criu": "4.2.1-1"}, {},
                          criu="4.2.1")


def made() -> report.Report:
    """One test of each outcome, in two steps."""
    query = StepResult(Step(KSELFTEST, "query", 300), 1.25, [
        TestResult("query/a", PASS), TestResult("query/b", SKIP, "no such node")], "logs/001-query.log")
    one_gpu = StepResult(Step(SCENARIO, "one_gpu", 300), 4, [
        TestResult("one_gpu", FAIL, "no \x1b[1m<waves> & more")], "logs/002-one_gpu.log", ["WARNING: x"])
    return report.Report("0.1.0", "quick", "2026-11-26T20:00:00Z", MACHINE, 5.25, [query, one_gpu],
                         [NotRun("scenario rocr", "needs libhsa-runtime64.so.1")], ["a note"])


class ReportTest(unittest.TestCase):
    def test_text_has_machine_failures_skips_and_what_was_not_run(self) -> None:
        text = report.as_text(made())
        for part in ("0000:03:00.0 MI210 (gfx90a), 65536 MiB, 104 compute units", "mec 0x41",
                     "not ok scenario one_gpu: one_gpu\n      no ", "see logs/002-one_gpu.log",
                     "no such node: query/query/b", "needs libhsa-runtime64.so.1: scenario rocr",
                     "a note", "1 passed, 1 failed, 1 skipped, 1 not run"):
            self.assertIn(part, text)

    def test_the_last_line_is_a_row_of_the_table_of_tested_hardware(self) -> None:
        self.assertEqual(report.as_text(made()).splitlines()[-1],
                         "| 1 x MI210 (gfx90a) | 7.3.4, series | 4.2.1 | quick: 1 passed, 1 failed, 1 skipped, "
                         "1 not run | 2026-11-26 |")

    def test_json_has_every_test_with_its_reason(self) -> None:
        read = json.loads(report.as_json(made()))
        self.assertEqual((read["format"], read["passed"], read["failed"], read["skipped"]), (1, 1, 1, 1))
        self.assertEqual(read["steps"][0]["tests"][1],
                         {"name": "query/b", "outcome": "skip", "reason": "no such node"})
        self.assertEqual(read["machine"]["gpus"][0]["isa"], "gfx90a")
        self.assertEqual(read["not_run"][0]["name"], "scenario rocr")

    def test_junit_counts_as_ci_systems_do_and_is_well_formed(self) -> None:
        suites = ElementTree.fromstring(report.as_junit(made()).encode()).findall("testsuite")
        self.assertEqual([(one.get("name"), one.get("tests"), one.get("failures"), one.get("skipped"))
                          for one in suites],
                         [("kselftest query", "2", "0", "1"), ("scenario one_gpu", "1", "1", "0"),
                          ("not run", "1", "0", "1")])
        self.assertEqual(suites[1].find("testcase/failure").get("message"), "no ?[1m<waves> & more")

    def test_a_step_has_failed_if_one_test_has_and_is_skipped_if_all_are(self) -> None:
        for outcomes, whole in (((PASS, SKIP), PASS), ((SKIP,), SKIP), ((PASS, FAIL), FAIL), ((), FAIL)):
            step = StepResult(Step(KSELFTEST, "a", 1), 0, [TestResult("b", one) for one in outcomes], "")
            self.assertEqual(step.outcome, whole)

    def test_an_interrupted_run_says_so(self) -> None:
        interrupted = made()
        interrupted.interrupted = True
        self.assertIn("interrupted", report.as_text(interrupted))
        self.assertTrue(json.loads(report.as_json(interrupted))["interrupted"])

    def test_a_report_without_any_test_can_be_written(self) -> None:
        empty = report.Report("0", "quick", "2026-11-26T20:00:00Z",
                              machine.Machine((), machine.NONE, "", "", False, {}, {}))
        self.assertIn("none that KFD drives", report.as_text(empty))
        self.assertEqual(len(ElementTree.fromstring(report.as_junit(empty).encode())), 0)


class ArchiveTest(unittest.TestCase):
    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = Path(work.name)
        self.directory = self.work / "out"
        self.directory.mkdir()

    def test_the_archive_has_every_file_of_the_report_once(self) -> None:
        (self.directory / "logs").mkdir()
        (self.directory / "logs" / "001-query.log").write_text("ok 1 a\n")
        packed = archive.write(made(), self.directory)
        archive.write(made(), self.directory)
        with tarfile.open(fileobj=io.BytesIO(packed.read_bytes())) as tar:
            self.assertEqual(tar.getnames(), ["out/junit.xml", "out/logs/001-query.log", "out/report.json",
                                              "out/report.txt"])

    def scenario(self, outcome: str) -> list[str]:
        """The files that are kept of a scenario that left images, logs and a link."""
        left = self.work / "e2e" / "one_gpu"
        left.mkdir(parents=True, exist_ok=True)
        for name in ("show-images.json", "criu-dump.log", "pages-1.img"):
            (left / name).write_text("x" * 10)
        (left / "show-link.json").unlink(missing_ok=True)
        (left / "show-link.json").symlink_to("/proc/kcore")
        step = StepResult(Step(SCENARIO, "one_gpu", 1), 0, [TestResult("one_gpu", outcome)], "")
        archive.keep_files_of(step, self.work, self.directory / outcome)
        return sorted(file.name for file in (self.directory / outcome).rglob("*") if file.is_file())

    def test_images_are_described_and_never_kept(self) -> None:
        self.assertEqual(self.scenario(PASS), ["show-images.json"])
        self.assertEqual(self.scenario(FAIL), ["criu-dump.log", "show-images.json"])

    def test_large_files_are_cut(self) -> None:
        (self.work / "large").write_bytes(b"x" * (archive.FILE_BYTES + 1))
        archive.copy_bounded(self.work / "large", self.directory / "a" / "large")
        self.assertEqual((self.directory / "a" / "large").stat().st_size, archive.FILE_BYTES)

    def test_before_the_tests_only_messages_of_the_driver_are_kept(self) -> None:
        archive.write_kernel_log(self.directory, "[1] wifi: MAC 00:11\n[2] amdgpu 0000:03:00.0: ready", ["x"])
        self.assertEqual((self.directory / "dmesg.txt").read_text(),
                         "[2] amdgpu 0000:03:00.0: ready\n--- tests\nx\n")

    def test_the_topology_is_copied_without_files_that_cannot_be_read(self) -> None:
        node = self.work / machine.TOPOLOGY / "1"
        node.mkdir(parents=True)
        (node / "properties").write_text("simd_count 32\n")
        (node / "gone").symlink_to("nowhere")
        archive.write_topology(self.directory, self.work)
        self.assertEqual([file.name for file in (self.directory / "topology" / "1").iterdir()], ["properties"])

    def test_nothing_is_removed_below_a_mount(self) -> None:
        scratch = self.work / "scratch"
        (scratch / "e2e" / "usr").mkdir(parents=True)
        mount = f"36 35 98:0 /usr {scratch}/e2e/usr rw - ext4 /dev/root rw"
        self.assertIn("is mounted", archive.remove_scratch(scratch, mount))
        self.assertTrue(scratch.exists())
        self.assertEqual(archive.remove_scratch(scratch, "36 35 98:0 / /usr rw - ext4 /dev/root rw"), "")
        self.assertFalse(scratch.exists())


if __name__ == "__main__":
    unittest.main()
