# SPDX-License-Identifier: GPL-2.0
import os
import tempfile
import time
import unittest
from pathlib import Path

from .rundir import PREFIX, YOUNG_SECONDS, LockedDirectory, LogDirectory, remove_logs, remove_stale


def make_old(path: Path) -> None:
    long_ago = time.time() - YOUNG_SECONDS - 10
    os.utime(path, (long_ago, long_ago))


class RunDirectoryTest(unittest.TestCase):
    def setUp(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.addCleanup(self._directory.cleanup)
        self.top = Path(self._directory.name)

    def test_is_gone_afterwards(self) -> None:
        with LockedDirectory(self.top) as run:
            (run.path / "file").touch()
        self.assertEqual(list(self.top.iterdir()), [])

    def test_stays_if_asked_to(self) -> None:
        with LockedDirectory(self.top, keep=True) as run:
            pass
        make_old(run.path)
        remove_stale(self.top)
        self.assertTrue(run.path.exists())

    def test_the_directory_of_a_killed_run_is_removed(self) -> None:
        left = self.top / (PREFIX + "left")
        left.mkdir()
        remove_stale(self.top)
        self.assertTrue(left.exists(), "its run may not have locked it yet")
        make_old(left)
        remove_stale(self.top)
        self.assertFalse(left.exists())

    def test_the_directory_of_a_running_run_is_not_removed(self) -> None:
        with LockedDirectory(self.top) as run:
            make_old(run.path)
            remove_stale(self.top)
            self.assertTrue(run.path.exists())


class LogDirectoryTest(unittest.TestCase):
    def test_is_emptied_and_never_shared(self) -> None:
        with tempfile.TemporaryDirectory() as top:
            with LogDirectory(Path(top), "a") as first:
                (first.path / "old").touch()
                with LogDirectory(Path(top), "a") as second:
                    self.assertEqual(second.path.name, "a-2")
                self.assertTrue((first.path / "old").exists())
            with LogDirectory(Path(top), "a") as again:
                self.assertEqual(list(again.path.iterdir()), [])

    def test_old_ones_are_removed_by_name_unless_in_use(self) -> None:
        with tempfile.TemporaryDirectory() as top:
            for name in ("check-a-1", "check-a-2", "check-a-b-1"):
                (Path(top) / name).mkdir()
            with LogDirectory(Path(top), "check-a-2"):
                remove_logs(Path(top), r"check-a-\d+")
            self.assertEqual({path.name for path in Path(top).iterdir()}, {"check-a-2", "check-a-b-1"})

    def test_where_there_are_none_nothing_is_removed(self) -> None:
        remove_logs(Path("/nonexistent"), ".*")


if __name__ == "__main__":
    unittest.main()
