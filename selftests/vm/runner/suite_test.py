# SPDX-License-Identifier: GPL-2.0
import dataclasses
import tempfile
import unittest
from pathlib import Path

from .lab import Failure
from .suite import Suite, add_epilogue, load, parse, plan, take_turns


def suite(name: str, *boots: str, common: str = "") -> Suite:
    sections = "".join(f"[boot b{number}]\n{text}\n" for number, text in enumerate(boots))
    return parse(f"[suite]\nname = {name}\ncommand = c\ntimeout = 9\n{common}\n{sections}", name)


class ParseTest(unittest.TestCase):
    def test_a_suite_without_boots_has_one_step(self) -> None:
        one = suite("s", common="gpus = 2\nvram = 512M,1G\norder = 1,0\nneeds = a b/c\nhive = no\nswitch = yes\n"
                    "iommu = yes\nbar = 256M\nhold-cpu-writes = yes\ndelays = yes")
        self.assertEqual(one.needs, ("a", "b/c"))
        step, = one.steps
        self.assertEqual((step.title, step.command, step.timeout, step.protocol),
                         ("s", "c", 9.0, "ktap"))
        self.assertEqual(step.hardware.vram_mib, (512, 1024))
        self.assertEqual(list(step.hardware.slots()), [1, 0])
        self.assertFalse(step.hardware.hive)
        self.assertTrue(step.hardware.switch)
        self.assertTrue(step.hardware.iommu)
        self.assertEqual(step.hardware.bar_mib, 256)
        self.assertTrue(step.hardware.hold_cpu_writes)
        self.assertTrue(step.hardware.delays)

    def test_boots_inherit_and_override(self) -> None:
        two = suite("s", "gpus = 1", "command = other\ntimeout = 5")
        self.assertEqual([(s.title, s.hardware.gpus, s.command, s.timeout) for s in two.steps],
                         [("s/b0", 1, "c", 9.0), ("s/b1", 0, "other", 5.0)])

    def test_joins_a_command_of_several_lines(self) -> None:
        one = parse("[suite]\nname = s\ntimeout = 1\ncommand = a\n\tb  c\n", "s")
        self.assertEqual(one.steps[0].command, "a b c")

    def test_one_file_has_a_suite_for_each_combination_of_words(self) -> None:
        with tempfile.TemporaryDirectory() as work:
            Path(work, "s.suite").write_text("[suite]\neach letter = a b\neach chip = mi210 navi31\n"
                                             "name = s-{letter}-{chip}\ntimeout = 1\n"
                                             "command = run {letter}\nasic = {chip}\n")
            suites = load(Path(work), [])
            self.assertEqual([one.name for one in suites], ["s-a-mi210", "s-a-navi31", "s-b-mi210", "s-b-navi31"])
            self.assertEqual((suites[3].steps[0].command, suites[3].steps[0].hardware.asics), ("run b", ("navi31",)))

    def test_a_base_has_its_kernel_and_its_parameters(self) -> None:
        text = ("[suite]\nname = s\ncommand = c\ntimeout = 1\nbases = 7.3 6.12\n"
                "[boot old]\n[boot new]\nbase = 7.3\n")
        one = parse(text, "s", base="6.12")
        self.assertEqual(one.bases, ("7.3", "6.12"))
        old, new = (step.hardware for step in one.steps)
        self.assertEqual((old.base, new.base), ("6.12", "7.3"))
        self.assertIn("discovery=0", old.module_parameters)
        self.assertNotIn("discovery=0", new.module_parameters)
        self.assertEqual(len(plan([one])), 2)

    def test_a_chip_may_need_other_parameters(self) -> None:
        navi = suite("s", common="gpus = 1\nasic = navi31\nparam = gpu_recovery=1")
        self.assertEqual(navi.steps[0].hardware.module_parameters,
                         ("fw_load_type=-1", "ip_block_mask=0x3f7", "pg_mask=0xffff7fff",
                          "user_queue=1", "dpm=-1", "gpu_recovery=1"))
        self.assertIn("fw_load_type=0",
                      suite("s", common="gpus = 1").steps[0].hardware.module_parameters)

    def test_a_base_overrides_the_suite(self) -> None:
        text = ("[suite]\nname = s\ncommand = c\ntimeout = 1\nbases = 7.3 6.12\n"
                "[base 6.12]\ncommand = less\ntimeout = 2\n")
        self.assertEqual([(one.steps[0].command, one.steps[0].timeout)
                          for one in (parse(text, "s", base=base) for base in ("7.3", "6.12"))],
                         [("c", 1.0), ("less", 2.0)])
        for wrong in ("[base 5.18]\n", "[base 6.12]\nbase = 7.3\n", "[base 6.12]\nname = t\n"):
            with self.assertRaisesRegex(Failure, "^here: ", msg=wrong):
                parse("[suite]\nname = s\ncommand = c\ntimeout = 1\n" + wrong, "here")

    def test_refuses_unknown_keys_and_values(self) -> None:
        for text in ("name = s\ncommand = c\ntimeout = 1\ncolour = red", "command = c\ntimeout = 1",
                     "name = s\ntimeout = 1", "name = s\ncommand = c",
                     "name = s\ncommand = c\ntimeout = 0", "name = s\ncommand = c\ntimeout = soon",
                     "name = s\ncommand = c\ntimeout = 1\nprotocol = morse",
                     "name = s\ncommand = c\ntimeout = 1\ngpus = 9",
                     "name = s\ncommand = c\ntimeout = 1\ngpus = 2\norder = 1,1",
                     "name = s\ncommand = c\ntimeout = 1\nvram = much",
                     "name = s\ncommand = c\ntimeout = 1\ngpus = 1\nasic = a,b",
                     "name = s\ncommand = c\ntimeout = 1\ngpus = 2\nasic = mi210,navi31",
                     "name = s\ncommand = c\ntimeout = 1\nhive = none",
                     "name = s\ncommand = c\ntimeout = 1\ndelays = 7",
                     "name = s\ncommand = c\ntimeout = 1\nbase = 5.18",
                     "name = s\ncommand = c\ntimeout = 1\nbases = 5.18"):
            with self.assertRaisesRegex(Failure, "^here: ", msg=text):
                parse("[suite]\n" + text, "here")
        with self.assertRaisesRegex(Failure, "section"):
            parse("[suite]\nname = s\ncommand = c\ntimeout = 1\n[reboot]\n", "here")


class LoadTest(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        for name, bases in (("a", "7.3"), ("b-1", "7.3 6.12"), ("b-2", ""), ("b-3", "6.12")):
            (self.place / f"{name}.suite").write_text(
                f"[suite]\nname = {name}\ncommand = c\ntimeout = 1\nbases = {bases}\n")

    def names(self, *wanted: str, base: str = "7.3", unwanted: tuple[str, ...] = ()) -> list[str]:
        return [one.name for one in load(self.place, wanted, "", base, unwanted)]

    def test_all_are_those_of_the_base(self) -> None:
        self.assertEqual(self.names(), ["a", "b-1"])
        self.assertEqual(self.names(base="6.12"), ["b-1", "b-3"])

    def test_a_name_is_enough_and_a_pattern_keeps_to_the_base(self) -> None:
        self.assertEqual(self.names("b-2", "b-3"), ["b-2", "b-3"])
        self.assertEqual(self.names("b*"), ["b-1"])
        self.assertEqual(self.names("b*", "b-2"), ["b-1", "b-2"])

    def test_a_pattern_and_its_exception_complement_each_other(self) -> None:
        self.assertEqual(self.names("b*") + self.names(unwanted=("b*",)), ["b-1", "a"])
        self.assertEqual(self.names("b-1", "a", unwanted=("b*",)), ["a"])

    def test_refuses_names_and_patterns_of_nothing(self) -> None:
        for wanted, unwanted in ((("c",), ()), (("c*",), ()), ((), ("c*",))):
            with self.assertRaisesRegex(Failure, "^no suite c"):
                self.names(*wanted, unwanted=unwanted)


class TurnsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.suites = [dataclasses.replace(suite(name, common="gpus = 1"), turns=turns)
                       for name, turns in (("a", ""), ("b", "x"), ("c", "x"), ("d", "y"), ("e", "x"))]

    def names(self, seed: int, *named: str) -> str:
        return "".join(one.name for one in take_turns(self.suites, named, seed))

    def test_one_of_each_word_runs(self) -> None:
        self.assertEqual({self.names(seed) for seed in range(100)}, {"abd", "acd", "ade"})
        self.assertEqual(self.names(7), self.names(7))

    def test_a_name_needs_no_turn(self) -> None:
        self.assertEqual({self.names(seed, "e") for seed in range(100)}, {"abde", "acde"})

    def test_words_take_turns_independently(self) -> None:
        both = [dataclasses.replace(suite(name, common="gpus = 1"), turns=turns)
                for turns, names in (("x", "abc"), ("y", "def")) for name in names]
        met = {"".join(one.name for one in take_turns(both, (), seed)) for seed in range(1000)}
        self.assertEqual(len(met), 9)


class PlanTest(unittest.TestCase):
    def test_equal_hardware_shares_a_guest(self) -> None:
        guests = plan([suite("a", common="gpus = 1"), suite("b", common="gpus = 2"),
                       suite("c", common="gpus = 1")])
        self.assertEqual([[s.suite for s in g.steps] for g in guests], [["a", "c"], ["b"]])

    def test_delays_need_a_guest_of_their_own(self) -> None:
        guests = plan([suite("a", common="gpus = 1"), suite("b", common="gpus = 1\ndelays = yes"),
                       suite("c", common="gpus = 1\ndelays = yes")])
        self.assertEqual([[s.suite for s in g.steps] for g in guests], [["a"], ["b", "c"]])

    def test_a_later_boot_gets_a_later_guest(self) -> None:
        guests = plan([suite("a", "", ""), suite("b", "", "gpus = 1", "")])
        self.assertEqual([[s.title for s in g.steps] for g in guests],
                         [["a/b0", "b/b0"], ["a/b1"], ["b/b1"], ["b/b2"]])

    def test_an_epilogue_ends_every_guest(self) -> None:
        guests = plan([suite("a", "gpus = 1", "gpus = 2")])
        add_epilogue(guests, "/payload/last word", 7)
        for number, guest in enumerate(guests, 1):
            last = guest.steps[-1]
            self.assertEqual((last.title, last.command, last.timeout, last.hardware),
                             (f"last/guest-{number}", "/payload/last word", 7, guest.hardware))


if __name__ == "__main__":
    unittest.main()
