# SPDX-License-Identifier: GPL-2.0
import fnmatch
import tempfile
import unittest
from pathlib import Path

from . import campaign_results as tested
from . import place
from .rungs import ALL


class CampaignResults(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.top = Path(work.name)
        (self.top / "build" / "results").mkdir(parents=True)
        (self.top / tested.FILE).parent.mkdir(parents=True)
        (self.top / tested.FILE).write_text(tested.HEAD)
        for suite in ("hip", "hip-navi31"):
            (self.top / tested.FILE.parent / f"{suite}.suite").touch()
        for file in (tested.README, tested.GUEST_README):
            (self.top / file).write_text("before\n" + tested.BEGIN + tested.END + "after\n")

    def ran(self, stem, *lines):
        (self.top / "build" / "results" / f"{stem}.tap").write_text("\n".join(lines) + "\n")

    def note(self, *rungs, date="2026-01-02"):
        tested.note(self.top, rungs, ["hip", "every-e2e", "module", "library-rocblas"], date)

    def readme(self):
        return (self.top / tested.README).read_text()

    def test_each_suite_of_a_campaign_has_a_line_and_a_cell(self):
        self.ran("hip-hip", "ok a", "ok b", "skip c # no GPU")
        self.ran("hip-navi31", "ok a", "not ok b # wrong")
        self.note("hip")
        lines = (self.top / tested.FILE).read_text().splitlines()
        self.assertIn("hip 2026-01-02 2 passed 0 failed 1 skipped 0 seconds", lines)
        self.assertIn("hip-navi31 2026-01-02 1 passed 1 failed 0 skipped 0 seconds", lines)
        self.assertIn("| 2 passed, 2026-01-02 | not run | 1 of 2 passed, 2026-01-02 |", self.readme())
        self.assertTrue(self.readme().startswith("before\n") and self.readme().endswith("after\n"))

    def test_a_file_may_have_a_suite_for_each_of_several_words(self):
        (self.top / tested.FILE).parent.joinpath("library.suite").write_text(
            "[suite]\neach library = rocblas rocfft\nname = library-{library}-navi31\n")
        self.ran("library-rocblas-navi31", "ok a", "ok b")
        log = self.top / "build" / "log" / "check-library-rocblas.log"
        log.parent.mkdir()
        log.write_text("suite library-rocblas-navi31\n  pass  library-rocblas-navi31/a  (1.6 s)\n"
                       "  pass  library-rocblas-navi31/b  (2.0 s)\n  pass  library-rocblas-mi210/b  (9.0 s)\n")
        self.note("library-rocblas")
        self.assertIn("library-rocblas-navi31 2026-01-02 2 passed 0 failed 0 skipped 4 seconds",
                      (self.top / tested.FILE).read_text())
        self.assertIn("| rocBLAS | – | – | 2 passed, 2026-01-02, 4 s |",
                      (self.top / tested.GUEST_README).read_text())

    def test_a_cell_says_whether_dumped_cases_passed(self):
        known = {"library-rocblas-mi210": tested.Outcome("2026-01-02", 7),
                 "dumped-rocblas-mi210": tested.Outcome("2026-03-04", 1),
                 "dumped-rocblas-navi31": tested.Outcome("2026-03-05", 0, 1)}
        suites = {"library-rocblas-mi210", "library-rocblas-navi31"}
        self.assertIn("| rocBLAS | 7 passed, 2026-01-02; dumped: passed, 2026-03-04 | – "
                      "| not run; dumped: failed, 2026-03-05 |",
                      tested.library_table(known, suites, {"rocblas": "rocBLAS"}))

    def test_other_suites_add_up_to_their_rung(self):
        self.ran("every-e2e-e2e", "ok a")
        self.ran("every-e2e-e2e-trees", "ok a", "ok b")
        self.note("every-e2e")
        self.assertIn("| 3 passed, 2026-01-02 |", self.readme())

    def test_a_later_run_replaces_the_line_and_keeps_the_others(self):
        self.ran("hip-hip", "ok a")
        self.note("hip")
        self.ran("hip-hip", "ok a", "ok b")
        (self.top / "build" / "results" / "hip-navi31.tap").unlink(missing_ok=True)
        self.ran("every-e2e-e2e", "ok a")
        self.note("hip", date="2026-03-04")
        known = tested.parse((self.top / tested.FILE).read_text())
        self.assertEqual({"hip": tested.Outcome("2026-03-04", 2)}, known)
        self.assertIn("| 2 passed, 2026-03-04 |", self.readme())

    def test_rungs_that_build_have_no_line(self):
        self.ran("module", "ok module builds")
        self.note("hip")
        self.assertEqual(tested.HEAD, (self.top / tested.FILE).read_text())


class Readme(unittest.TestCase):
    def test_its_table_names_what_exists(self):
        names = tested.suite_names((place.TOP / tested.FILE).parent) | set(ALL)
        patterns = [one for _, shown in tested.STACKS for words in shown if words for one in words.split()]
        self.assertEqual([], [one for one in patterns if not fnmatch.filter(names, one)])

    def test_tables_are_made_of_the_results(self):
        known = tested.parse((place.TOP / tested.FILE).read_text())
        suites = tested.suite_names((place.TOP / tested.FILE).parent)
        for file, table in tested.tables(known, suites).items():
            text = (place.TOP / file).read_text()
            self.assertEqual(tested.replace_table(text, table), text, "scripts/campaign makes the table")


if __name__ == "__main__":
    unittest.main()
