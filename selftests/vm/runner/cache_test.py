# SPDX-License-Identifier: GPL-2.0
import tempfile
import time
import unittest
from pathlib import Path

from .cache import UNUSED_SECONDS, produce, prune


class CacheTest(unittest.TestCase):
    def setUp(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.addCleanup(self._directory.cleanup)
        self.top = Path(self._directory.name)

    def test_makes_a_file_once(self) -> None:
        calls = []

        def make(path: Path) -> None:
            calls.append(path)
            path.write_text("made")

        for _ in range(2):
            self.assertEqual(produce(self.top / "c" / "a-1.x", make).read_text(), "made")
        self.assertEqual(len(calls), 1)

    def test_a_failure_leaves_nothing(self) -> None:
        def make(path: Path) -> None:
            path.write_text("half")
            raise OSError("no space")

        with self.assertRaises(OSError):
            produce(self.top / "a-1.x", make)
        self.assertEqual(list(self.top.iterdir()), [])

    def test_removes_only_what_is_old(self) -> None:
        (self.top / "a-1.x").touch()
        prune(self.top, "a-*.x")
        self.assertEqual(len(list(self.top.iterdir())), 1)
        prune(self.top, "a-*.x", lambda: time.time() + UNUSED_SECONDS + 10)
        self.assertEqual(list(self.top.iterdir()), [])

    def test_keeps_what_a_run_holds(self) -> None:
        made = produce(self.top / "a-1.x", lambda path: path.touch())
        prune(self.top, "a-*.x", lambda: time.time() + UNUSED_SECONDS + 10)
        self.assertTrue(made.exists())


if __name__ == "__main__":
    unittest.main()
