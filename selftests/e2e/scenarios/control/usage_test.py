# SPDX-License-Identifier: GPL-2.0
import os
import unittest
from unittest import mock

from . import usage
from .catalog import listed

BEFORE = {"device files": "", "KFD processes": "0", "0000:00:04.0 memory": "1000"}


class UsageTest(unittest.TestCase):
    def found(self, name: str = "one_gpu", **after: str) -> list[str]:
        words = {key.replace("_", " "): value for key, value in after.items()}
        return usage.differences(name, BEFORE, {**BEFORE, **words})

    def test_the_same_is_no_difference(self) -> None:
        self.assertEqual(self.found(), [])

    def test_more_and_less_are_differences(self) -> None:
        self.assertEqual(self.found(KFD_processes="1"), ["KFD processes: 0 before, 1 after"])
        for memory in ("999", "1001"):
            self.assertEqual(len(usage.differences("one_gpu", BEFORE, {
                **BEFORE, "0000:00:04.0 memory": memory})), 1)

    def test_who_has_a_device_open_is_named(self) -> None:
        self.assertEqual(self.found(device_files="17 criu"),
                         ["device files: none before, 17 criu after"])

    def test_an_explained_difference_is_none_and_explains_nothing_else(self) -> None:
        memory = {"0000:00:04.0 memory": "1001"}
        self.assertEqual(usage.differences("reloaded_driver", BEFORE, {**BEFORE, **memory}), [])
        self.assertEqual(len(self.found("reloaded_driver", KFD_processes="1")), 1)

    def test_only_more_is_a_difference_after_hundreds_of_tests(self) -> None:
        for name, memory, count in (("packages_full", "999", 0), ("packages_full", "1001", 1),
                                    ("one_gpu", "999", 1)):
            self.assertEqual(len(usage.differences(name, BEFORE, {
                **BEFORE, "0000:00:04.0 memory": memory})), count)
        self.assertEqual(len(self.found("packages_full", KFD_processes="1")), 1)

    def test_what_others_use_meanwhile_is_not_compared(self) -> None:
        self.assertIn("device files", usage.measure())
        with mock.patch.dict(os.environ, {"SHARED_GPU": "1"}):
            self.assertEqual(usage.measure(), {})

    def test_only_scenarios_are_explained(self) -> None:
        self.assertEqual(
            (usage.EXPLAINED.keys() | usage.FREED.keys()) - set(listed()), set())

    def test_the_driver_has_time_to_free_things(self) -> None:
        states = [{**BEFORE, "KFD processes": "1"}, BEFORE]
        self.assertEqual(usage.settled("a", BEFORE, lambda: states.pop(0), sleep=lambda _: None),
                         (BEFORE, []))
        waited: list[float] = []
        now, left = usage.settled("a", BEFORE, lambda: {}, settle=1, sleep=waited.append)
        self.assertEqual((now, len(left)), ({}, 3))
        self.assertEqual(sum(waited), 1)


if __name__ == "__main__":
    unittest.main()
