# SPDX-License-Identifier: GPL-2.0
import re
import tempfile
import unittest
from pathlib import Path

from control import catalog

from . import machine, plan

CHECKOUT = Path(__file__).resolve().parents[3]
KSELFTESTS = CHECKOUT / "selftests" / "amdgpu_criu"
SCENARIOS = CHECKOUT / "selftests" / "e2e" / "scenarios"
QUESTIONS = CHECKOUT / "selftests" / "gpu" / "README.md"
GPU = machine.Gpu("0000:03:00.0", "MI210", "gfx90a", 1 << 36, 104)


def programs(kind: str) -> list[str]:
    words = re.findall(rf"^{kind} \+= (.*)$", (KSELFTESTS / "Makefile").read_text(), re.M)
    return " ".join(words).split()


# Of scenarios: what disturbs a machine. Mounts in directories of their own do not.
DISTURBS = re.compile(r"rmmod|load_driver|>/etc/|chmod \S+ /dev|/usr/lib|fill_memory|amdgpu_vram")

COMMAND = re.compile(r"(?:^|[;&|!({]|\b(?:then|do|else))\s*(\w+)", re.M)


def functions() -> dict[str, str]:
    """The text of each function of the scenarios."""
    found = {}
    for file in (*SCENARIOS.glob("*.sh"), *SCENARIOS.glob("lib/*.sh")):
        found |= dict(re.findall(r"^(\w+)\(\) \{(.*?)(?=^\w+\(\) \{|\Z)", file.read_text(), re.M | re.S))
    return found


def called(name: str, known: dict[str, str]) -> set[str]:
    """The function and all that it calls."""
    result, new = set(), {name}
    while new:
        result |= new
        new = {word for one in new for word in COMMAND.findall(known[one]) if word in known} - result
    return result


class PlanTest(unittest.TestCase):
    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.root = Path(work.name)
        directory = self.root / "kselftest" / "amdgpu_criu"
        directory.mkdir(parents=True)
        for name in (*programs("TEST_GEN_PROGS"), *programs("TEST_GEN_PROGS_EXTENDED")):
            (directory / name).touch()
        (self.root / "kselftest" / "kselftest-list.txt").write_text(
            "".join(f"amdgpu_criu:{name}\n" for name in programs("TEST_GEN_PROGS")))
        (self.root / "kernels" / "gfx90a").mkdir(parents=True)
        for name in set(plan.KERNELS_OF.values()):
            (self.root / "kernels" / "gfx90a" / f"{name}.co").touch()

    def machine(self, **other: object) -> machine.Machine:
        facts = {"gpus": (GPU,), "interface": machine.SERIES, "kernel": "7.3", "system": "Debian",
                 "virtual": False, "versions": {}, "parameters": {}, "criu": "4.2.1", "has_rocr": True}
        return machine.Machine(**{**facts, **other})

    def make(self, stage: str = "quick", disruptive: bool = False, only: tuple[str, ...] = (),
             **facts: object) -> plan.Plan:
        return plan.make(self.machine(**facts), plan.Wishes(stage, disruptive, 1, only), self.root)

    def names(self, *words: object, **facts: object) -> set[str]:
        return {step.name for step in self.make(*words, **facts).steps}

    def reasons(self, *words: object, **facts: object) -> dict[str, str]:
        return {one.name: one.reason for one in self.make(*words, **facts).not_run}

    def test_what_disturbs_the_machine_is_listed(self) -> None:
        known = functions()
        listed = {name for kind, name in plan.DISTURBING if kind == plan.SCENARIO} | plan.LEFT_OUT.keys()
        disturbing = {name for group in plan.FULL_GROUPS for name in catalog.GROUPS[group]
                      if any(DISTURBS.search(known[one]) for one in called(f"scenario_{name}", known))}
        self.assertIn("reloaded_driver", disturbing)
        self.assertLessEqual(disturbing, listed)

    def test_every_name_is_that_of_a_test(self) -> None:
        known = {*((plan.SCENARIO, name) for name in catalog.listed()),
                 *((plan.KSELFTEST, name) for kind in ("TEST_GEN_PROGS", "TEST_GEN_PROGS_EXTENDED")
                   for name in programs(kind))}
        scenarios = (*plan.QUICK_SCENARIOS, *plan.STOCK_SCENARIOS, *plan.SOAK_SCENARIOS, *plan.LEFT_OUT,
                     *plan.OTHER_CRIUS, *plan.KERNELS_OF)
        kselftests = (*plan.QUICK_KSELFTESTS, *plan.STOCK_KSELFTESTS, *plan.SOAK_KSELFTESTS,
                      *plan.MORE_KSELFTESTS)
        used = {*plan.DISTURBING, *((plan.SCENARIO, name) for name in scenarios),
                *((plan.KSELFTEST, name) for name in kselftests)}
        self.assertEqual(used - known, set())

    def test_full_runs_every_listed_kselftest_and_the_scenarios_of_its_groups(self) -> None:
        crius = tuple(plan.CRIU_OF.values())
        made = self.make("full", True, other_crius=crius)
        wanted = {f"kselftest {name}" for name in programs("TEST_GEN_PROGS")}
        wanted |= {f"scenario {name}" for group in plan.FULL_GROUPS for name in catalog.GROUPS[group]}
        ran = {step.name for step in made.steps}
        self.assertEqual(wanted - ran, {f"scenario {name}" for name in plan.LEFT_OUT})

    def test_full_runs_what_only_hardware_can_show(self) -> None:
        """Each test that the table of the software GPU names, except those of machines with more GPUs."""
        table = QUESTIONS.read_text().partition("## What only hardware can show")[2]
        cells = [row.split("|")[3] for row in table.splitlines() if row.startswith("| ")][1:]
        scenarios = {name for cell in cells for part in re.findall(r"scenarios? (`\w+`(?:, `\w+`)*)", cell)
                     for name in re.findall(r"`(\w+)`", part)}
        kselftests = {name for cell in cells for name in re.findall(r"`(\w+)\.[\w*.]+`", cell)}
        self.assertIn("rocr_waves", scenarios)
        self.assertIn("kinds_ib", kselftests)
        ran = self.names("full", False)
        elsewhere = {"uneven_full", "fresh_driver"}  # two boards that differ; two boots
        self.assertEqual({f"scenario {name}" for name in scenarios - elsewhere} - ran, set())
        self.assertEqual({f"kselftest {name}" for name in kselftests} - ran, set())

    def test_nothing_disturbs_unless_it_is_asked_for(self) -> None:
        for stage in plan.STAGES:
            made = self.make(stage)
            self.assertEqual([step.name for step in made.steps if step.disturbs], [])
            for step in (*made.steps, *made.repeated):
                if step.kind == plan.KSELFTEST:
                    self.assertEqual(step.environment["CRIU_TEST_NO_RESET"], "1")
        self.assertIn("--disruptive", self.reasons("full")["kselftest render_hang"])
        made = self.make("full", True)
        self.assertEqual(made.steps[-1].disturbs != "", True)
        self.assertNotIn("CRIU_TEST_NO_RESET", made.steps[0].environment)

    def test_scenarios_that_change_the_system_are_disturbing(self) -> None:
        """What writes below /proc/sys, except numbers of processes, or changes modes of devices."""
        changes = re.compile(r"rmmod|modprobe|insmod|>\$(?:switch|YAMA)|chmod \S+ /dev|bind /dev/null")
        for name in (name for group in plan.FULL_GROUPS for name in catalog.GROUPS[group]):
            if changes.search(body_of(name)):
                self.assertIn((plan.SCENARIO, name), plan.DISTURBING)

    def test_programs_are_called_by_their_path(self) -> None:
        """Only a guest has them in PATH."""
        names = re.findall(r"add_executable\((\w+)", (SCENARIOS.parent / "CMakeLists.txt").read_text())
        self.assertIn("image_damage", names)
        bare = re.compile(rf"(?:^|[;&|(!])[ \t]*(?:{'|'.join((*names, 'amdgpu-criu'))}) ", re.MULTILINE)
        for script in sorted(SCENARIOS.rglob("*.sh")):
            self.assertEqual(bare.findall(script.read_text()), [], script.name)

    def test_scenarios_for_several_crius_are_known(self) -> None:
        for name in (name for group in plan.FULL_GROUPS for name in catalog.GROUPS[group]):
            if "/opt/criu-" in body_of(name) and not name.endswith(tuple(plan.CRIU_OF)):
                self.assertIn(name, (*plan.OTHER_CRIUS, *plan.LEFT_OUT))
        self.assertIn("/opt/criu-4.3/criu", self.reasons("full")["scenario criu_4_3"])
        self.assertIn("scenario criu_4_3", self.names("full", other_crius=tuple(plan.CRIU_OF.values())))

    def test_programs_need_rocr_and_kernels_for_the_chip(self) -> None:
        self.assertIn("scenario rocr_waves", self.names())
        self.assertIn("libhsa-runtime64", self.reasons(has_rocr=False)["scenario rocr"])
        other = machine.Gpu("0000:03:00.0", "a GPU", "gfx1030", 1 << 36, 40)
        self.assertEqual(self.reasons(gpus=(other,))["scenario rocr_waves"],
                         "has no compiled kernels for gfx1030")

    def test_a_kernel_without_the_series_has_the_tests_of_its_own_ioctl(self) -> None:
        for stage in plan.STAGES:
            self.assertEqual(self.names(stage, interface=machine.STOCK),
                             {"scenario workload_alone", "scenario stock_round_trip",
                              "scenario stock_refused"})
        self.assertEqual(self.names(interface=machine.NONE), set())

    def test_only_selects_by_name_or_pattern(self) -> None:
        self.assertEqual(self.names(only=("one_gpu", "kselftest qu*")),
                         {"scenario one_gpu", "kselftest query"})
        self.assertEqual(self.reasons("full", only=("one_gpu",)), {})

    def test_soak_repeats_tests_and_races_for_a_time(self) -> None:
        made = self.make("soak")
        race = next(step for step in made.repeated if step.test == "kfd_race")
        self.assertEqual(race.environment["CRIU_TEST_SECONDS"], str(plan.RACE_SECONDS))
        self.assertEqual(self.make("full").repeated, ())

    def test_every_step_has_a_limit_that_patience_multiplies(self) -> None:
        for stage in plan.STAGES:
            for step in self.make(stage).steps:
                self.assertGreater(step.limit, 0)
        patient = plan.make(self.machine(), plan.Wishes(patience=3), self.root).steps[0]
        self.assertEqual(patient.limit, 3 * self.make().steps[0].limit)


def body_of(scenario: str) -> str:
    """The function of a scenario, and the functions of its file that it calls."""
    for file in SCENARIOS.glob("*.sh"):
        functions = dict(re.findall(r"^(\w+)\(\) \{(.*?)(?:^\}| \}$)", file.read_text(), re.M | re.S))
        if f"scenario_{scenario}" in functions:
            own = functions[f"scenario_{scenario}"]
            called = [body for name, body in functions.items() if re.search(rf"\b{name}\b", own)]
            return "\n".join([own, *called])
    raise AssertionError(f"no scenario {scenario}")


if __name__ == "__main__":
    unittest.main()
