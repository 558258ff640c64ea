# SPDX-License-Identifier: GPL-2.0
import tempfile
import unittest
from pathlib import Path

from . import catalog


class CatalogTest(unittest.TestCase):
    def test_what_is_listed_is_defined_and_the_other_way_round(self) -> None:
        catalog.check(Path(__file__).resolve().parents[1])

    def test_a_scenario_that_is_not_listed_is_a_mistake(self) -> None:
        with tempfile.TemporaryDirectory() as work:
            Path(work, "a.sh").write_text("scenario_forgotten() { :; }\n  scenario_called\n")
            self.assertEqual(catalog.defined(Path(work)), {"forgotten"})
            with self.assertRaises(catalog.Mistake):
                catalog.check(Path(work))

    def test_words_select_scenarios_and_groups_in_their_order(self) -> None:
        for everything in ({"EVERY": "1"}, {"TURNS": "all"}):
            self.assertEqual(catalog.select([], everything), (list(catalog.GROUPS["kfd"]), []))
        resets = ["faults_reset", "faults_reset_filled", "faults_reset_saved"]
        self.assertEqual(catalog.select(["soak", "@single_gpu"], {}), (["soak", *resets], []))
        for word in ("sock", "@kdf", "kfd"):
            with self.assertRaises(catalog.Mistake, msg=word):
                catalog.select([word], {})

    def test_one_scenario_of_each_set_runs(self) -> None:
        for names in catalog.TURNS:
            groups = [group for group, members in catalog.GROUPS.items() if set(names) & set(members)]
            members = {member for group in groups for member in catalog.GROUPS[group]}
            had: set[str] = set()
            for seed in range(200):
                chosen, later = catalog.select([f"@{group}" for group in groups],
                                                {"SEED": str(seed)})
                ours = set(names) & set(chosen)
                self.assertEqual(len(ours), 1)
                self.assertEqual(set(names) - ours, set(names) & set(later))
                self.assertEqual(set(chosen) | set(later), members)
                had |= ours
            self.assertEqual(had, set(names))

    def test_sets_take_turns_independently(self) -> None:
        first, second = (names for names in catalog.TURNS if names[0] in ("own_pages", "leave_running"))
        waits = [catalog.waiting({"SEED": str(seed)}) for seed in range(1000)]
        met = {(one, other) for one in first for other in second
               for wait in waits if one not in wait and other not in wait}
        self.assertEqual(len(met), len(first) * len(second))

    def test_a_name_needs_no_turn(self) -> None:
        self.assertEqual(catalog.select(list(catalog.TURNS[0]), {}), (list(catalog.TURNS[0]), []))

    def test_limits_depend_on_the_environment(self) -> None:
        self.assertEqual(catalog.limit("one_gpu", {}), 300)
        self.assertEqual(catalog.limit("one_gpu", {"PATIENCE": "4"}), 1200)
        self.assertEqual(catalog.limit("faults_dump", {}), 900)
        self.assertEqual(catalog.limit("faults_dump", {"EVERY": "1"}), 7200)
        self.assertEqual(catalog.limit("vulkan_ops", {}), 3600)
        self.assertEqual(catalog.limit("soak", {"ROUNDS": "100"}), 9240)
        with self.assertRaises(catalog.Mistake):
            catalog.limit("one_gpu", {"PATIENCE": "a lot"})


if __name__ == "__main__":
    unittest.main()
