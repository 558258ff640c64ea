# SPDX-License-Identifier: GPL-2.0
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from . import accel


class KvmAnswerTest(unittest.TestCase):
    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = Path(work.name)
        self.cache = self.work / "cache"
        self.boot = "first"
        self.tried: list[Path] = []
        device = self.work / "kvm"
        device.touch()

        def boots(kernel: Path, _seconds: float) -> bool:
            self.tried.append(kernel)
            return kernel.name == "good"

        for name, value in (("KVM", device), ("_boots", boots),
                            ("_host_boot", lambda: self.boot)):
            patch = mock.patch.object(accel, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def kernel(self, name: str) -> Path:
        path = self.work / name
        path.write_text(name)
        return path

    def works(self, kernel: Path) -> bool:
        return accel.kvm_works(kernel, self.cache)[0]

    def test_a_kernel_is_tried_once_though_each_run_touches_it(self) -> None:
        kernel = self.kernel("good")
        for seconds in (1, 2, 3):
            os.utime(kernel, (seconds, seconds))
            self.assertTrue(self.works(kernel))
        self.assertEqual(len(self.tried), 1)

    def test_two_kernels_have_an_answer_each(self) -> None:
        good, bad = self.kernel("good"), self.kernel("bad")
        for _ in range(3):
            self.assertTrue(self.works(good))
            self.assertFalse(self.works(bad))
        self.assertEqual(self.tried, [good, bad])

    def test_a_new_file_that_replaces_the_old_one_is_tried(self) -> None:
        kernel = self.kernel("good")
        self.works(kernel)
        self.kernel("other").rename(kernel)
        self.works(kernel)
        self.assertEqual(len(self.tried), 2)

    def test_the_answer_ends_with_the_boot_of_the_host(self) -> None:
        kernel = self.kernel("good")
        self.works(kernel)
        self.boot = "second"
        self.works(kernel)
        self.assertEqual(len(self.tried), 2)
        self.assertEqual(len(list(self.cache.iterdir())), 1)

    def test_a_damaged_answer_is_ignored(self) -> None:
        kernel = self.kernel("good")
        self.works(kernel)
        next(self.cache.iterdir()).write_text("{")
        self.assertTrue(self.works(kernel))
        self.assertEqual(len(self.tried), 2)

    def test_nothing_is_tried_without_the_device(self) -> None:
        accel.KVM.unlink()
        self.assertFalse(self.works(self.kernel("good")))
        self.assertEqual(self.tried, [])


if __name__ == "__main__":
    unittest.main()
