# SPDX-License-Identifier: GPL-2.0
import unittest

from .lab import Failure
from .softgpu import DELAYS, choose_seed


class SeedTest(unittest.TestCase):
    def test_is_new_each_time(self) -> None:
        seeds = [choose_seed({}), choose_seed({DELAYS: "random"})]
        self.assertTrue(all(int(seed) > 0 for seed in seeds), seeds)
        self.assertNotEqual(*seeds)

    def test_that_of_the_environment_repeats_a_run(self) -> None:
        self.assertEqual(choose_seed({DELAYS: "7"}), "7")

    def test_refuses_what_is_no_seed(self) -> None:
        for wrong in ("0", "-1", "some", ""):
            with self.assertRaisesRegex(Failure, DELAYS, msg=wrong):
                choose_seed({DELAYS: wrong})


if __name__ == "__main__":
    unittest.main()
