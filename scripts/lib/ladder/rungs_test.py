# SPDX-License-Identifier: GPL-2.0
import unittest

from . import place
from .rungs import ALL, CAMPAIGNS, CHECK, GROUPS, LIBRARIES, Rung, UnknownRung, expand, table


def names(rungs):
    return [rung.name for rung in rungs]


class Expand(unittest.TestCase):
    RUNGS = table(Rung("a", ()), Rung("b", (), ("a",)), Rung("c", (), ("b", "a")), Rung("d", ()))

    def test_brings_what_a_rung_needs_before_it(self):
        self.assertEqual(["a", "b", "c"], names(expand(["c"], {}, self.RUNGS)))

    def test_brings_each_rung_once(self):
        self.assertEqual(["a", "b", "c"], names(expand(["b", "c", "a", "c"], {}, self.RUNGS)))

    def test_a_group_stands_for_its_members(self):
        self.assertEqual(["d", "a"], names(expand(["both"], {"both": ("d", "a")}, self.RUNGS)))

    def test_refuses_a_rung_that_does_not_exist(self):
        with self.assertRaises(UnknownRung):
            expand(["nothing"], {}, self.RUNGS)


class Table(unittest.TestCase):
    def test_every_need_is_a_rung(self):
        for rung in ALL.values():
            for need in rung.needs:
                self.assertIn(need, ALL, rung.name)

    def test_every_campaign_and_every_group_consists_of_rungs(self):
        for members in [*GROUPS.values(), *(rungs for rungs, _ in CAMPAIGNS.values())]:
            self.assertLessEqual(set(members), set(ALL))

    def test_a_check_needs_nothing_beyond_a_check(self):
        self.assertEqual(set(CHECK), set(names(expand(CHECK))))

    def test_no_guest_removes_the_results_of_another_rung(self):
        for rung in CHECK.values():
            if rung.commands[0][0] != "selftests/vm/check":
                continue
            others = {name for name in CHECK if name.startswith(f"{rung.name}-")}
            # selftests/vm/check knows the results of its other bases.
            self.assertLessEqual(others, {f"{rung.name}-6.12"})

    def test_tests_of_every_library_are_dumped(self):
        lists = (place.TOP / "selftests/vm/libraries").iterdir()
        self.assertEqual(set(LIBRARIES), {file.name for file in lists if "\ndump " in file.read_text("utf-8")})
        images = {f"library-{name}-image" for name in LIBRARIES}
        self.assertEqual({"module", "host", *images}, set(ALL["libraries-dumped"].needs))

    def test_every_rung_has_commands(self):
        for rung in ALL.values():
            self.assertTrue(rung.commands, rung.name)
