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
        self.assertEqual(catalog.select([], {"EVERY": "1"}), list(catalog.GROUPS["kfd"]))
        self.assertEqual(catalog.select(["soak", "@single_gpu"], {}), ["soak", "faults_reset"])
        for word in ("sock", "@kdf", "kfd"):
            with self.assertRaises(catalog.Mistake, msg=word):
                catalog.select([word], {})

    def test_other_crius_take_turns(self) -> None:
        every = catalog.select(["@render"], {"EVERY": "1"})
        self.assertEqual(every, list(catalog.GROUPS["render"]))
        turns = [set(catalog.select(["@render"], {"SEED": seed})) for seed in ("4", "5")]
        self.assertEqual(turns[0] | turns[1], set(every))
        self.assertEqual(turns[0] - turns[1],
                         {"render_criu_4_1_1", "render_family_criu_4_1_1", "render_busy"})

    def test_pairs_take_turns(self) -> None:
        turns = [set(catalog.select(["@containers"], {"SEED": seed})) for seed in ("4", "5")]
        self.assertEqual(turns[0] | turns[1], set(catalog.GROUPS["containers"]))
        self.assertEqual(turns[0] - turns[1], {"container_runc", "container_criu_4_3"})

    def test_limits_depend_on_the_environment(self) -> None:
        self.assertEqual(catalog.limit("one_gpu", {}), 300)
        self.assertEqual(catalog.limit("one_gpu", {"PATIENCE": "4"}), 1200)
        self.assertEqual(catalog.limit("faults_dump", {}), 900)
        self.assertEqual(catalog.limit("faults_dump", {"EVERY": "1"}), 7200)
        self.assertEqual(catalog.limit("soak", {"ROUNDS": "100"}), 9240)
        with self.assertRaises(catalog.Mistake):
            catalog.limit("one_gpu", {"PATIENCE": "a lot"})


if __name__ == "__main__":
    unittest.main()
