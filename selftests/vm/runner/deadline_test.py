# SPDX-License-Identifier: GPL-2.0
import unittest

from .deadline import Deadline


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class DeadlineTest(unittest.TestCase):
    def test_passes_when_its_time_is_over(self) -> None:
        clock = FakeClock()
        limit = Deadline(10, clock)
        clock.now += 9.5
        self.assertFalse(limit.passed())
        self.assertAlmostEqual(limit.left() or 0, 0.5)
        clock.now += 0.5
        self.assertTrue(limit.passed())

    def test_the_time_left_is_never_negative(self) -> None:
        clock = FakeClock()
        limit = Deadline(1, clock)
        clock.now += 50
        self.assertEqual(limit.left(), 0)

    def test_without_seconds_it_never_passes(self) -> None:
        limit = Deadline(None)
        self.assertFalse(limit.passed())
        self.assertIsNone(limit.left())

    def test_refuses_a_negative_limit(self) -> None:
        with self.assertRaises(ValueError):
            Deadline(-1)


if __name__ == "__main__":
    unittest.main()
