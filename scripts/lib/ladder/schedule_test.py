# SPDX-License-Identifier: GPL-2.0
import unittest

from .rungs import Rung
from .schedule import Schedule


def take(schedule):
    rung = schedule.take()
    return rung.name if rung else None


class TheSchedule(unittest.TestCase):
    def test_starts_at_most_so_many_rungs(self):
        schedule = Schedule([Rung(name, ()) for name in "abc"], places=2)
        self.assertIsNotNone(take(schedule))
        self.assertIsNotNone(take(schedule))
        self.assertIsNone(take(schedule))

    def test_starts_a_rung_after_what_it_needs(self):
        schedule = Schedule([Rung("late", (), ("early",)), Rung("early", ())])
        self.assertEqual("early", take(schedule))
        self.assertIsNone(take(schedule))
        schedule.ended("early", True)
        self.assertEqual("late", take(schedule))

    def test_starts_the_longest_chain_of_rungs_first(self):
        schedule = Schedule([Rung("alone", (), seconds=50), Rung("short", (), seconds=10),
                             Rung("long", (), ("short",), seconds=60)])
        self.assertEqual("short", take(schedule))
        self.assertEqual("alone", take(schedule))

    def test_refuses_all_that_needs_a_failed_rung(self):
        schedule = Schedule([Rung("a", ()), Rung("b", (), ("a",)), Rung("c", (), ("b",))])
        take(schedule)
        refused = schedule.ended("a", False)
        self.assertEqual([("b", "a"), ("c", "b")], [(rung.name, why) for rung, why in refused])
        self.assertTrue(schedule.is_over())

    def test_a_failure_does_not_stop_the_others(self):
        schedule = Schedule([Rung("a", ()), Rung("b", ())])
        first, second = take(schedule), take(schedule)
        self.assertEqual([], schedule.ended(first, False))
        self.assertFalse(schedule.is_over())
        schedule.ended(second, True)
        self.assertTrue(schedule.is_over())

    def test_a_need_that_was_not_chosen_is_not_waited_for(self):
        self.assertEqual("b", take(Schedule([Rung("b", (), ("a",))])))
