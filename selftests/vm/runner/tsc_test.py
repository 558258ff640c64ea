# SPDX-License-Identifier: GPL-2.0
import unittest
from unittest import mock

from . import tsc


class Rate(unittest.TestCase):
    def setUp(self) -> None:
        tsc.rate_khz.cache_clear()
        self.addCleanup(tsc.rate_khz.cache_clear)

    @unittest.skipUnless(tsc.platform.machine() == "x86_64", "the machine has no such counter")
    def test_two_measurements_agree_within_a_hundredth(self) -> None:
        first = tsc.rate_khz()
        tsc.rate_khz.cache_clear()
        second = tsc.rate_khz()
        assert first and second
        self.assertGreater(first, 100_000)
        self.assertLess(abs(first - second), first / 100)

    def test_another_machine_has_none(self) -> None:
        with mock.patch.object(tsc.platform, "machine", return_value="aarch64"):
            self.assertIsNone(tsc.rate_khz())
