# SPDX-License-Identifier: GPL-2.0
"""Suites: small files that say what to run in which guest, and the plan of guests for them.

    [suite]
    name = e2e-reboot              name in the results
    protocol = ktap                ktap: results are read from the output; status: one test
    needs = bin/gpu_chain          paths below /payload that must be there
    bases = 7.3 6.12               kernels that it is run with (default: 7.3 alone)
    turns = chips                  of the suites with the same word, a check runs one at random; with
                                   TURNS=all, or if they are named, all of them; SEED repeats the choice
    each library = hipcub rocprim  a suite for each of these words, which replaces {library} in the file;
                                   with several such lines, for each combination

    [boot first]                   one section for each guest, in order; without any, one guest
    gpus = 2                       base, image, asic, vram, order, empty-slots, memory, smp, param,
                                   append: as in `run`; the base is otherwise that of `check`
    hive = no                      no XGMI between the GPUs
    switch = yes                   a PCIe switch above the GPUs: PCIe atomics, access to other GPUs' BARs
    iommu = yes                    an IOMMU that translates DMA of the GPUs
    bar = 256M                     how much VRAM the CPU sees; without it all
    hold-cpu-writes = yes          what the CPU writes to VRAM is held until an HDP flush; slow
    delays = yes                   queues of the GPUs pause at random; failures name the seed
    command = /payload/e2e/reboot dump
    timeout = 120

Keys of [suite] are defaults for all its boots; those of a section [base NAME] replace them
when the suite is run with that kernel. Suites with the same hardware share a guest. All
guests of one check have the same scratch disk.
"""

from __future__ import annotations

import configparser
import fnmatch
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .lab import Failure
from .machine import DEFAULT_ASIC, DEFAULT_CPUS, DEFAULT_VRAM_MIB, Hardware, parse_size_mib
from .base import BASES, DEFAULT
from .options import module_in_guest

SUITE_KEYS = {"name", "protocol", "needs", "bases", "turns"}
BOOT_KEYS = {"base", "image", "gpus", "asic", "vram", "order", "empty-slots", "hive", "switch",
             "iommu", "bar", "hold-cpu-writes", "delays", "memory", "smp", "param", "append", "command",
             "timeout"}
PROTOCOLS = ("ktap", "status")


@dataclass(frozen=True)
class Step:
    """One command of a suite in one guest."""

    suite: str
    boot: str
    hardware: Hardware
    command: str
    timeout: float
    protocol: str

    @property
    def title(self) -> str:
        return f"{self.suite}/{self.boot}" if self.boot else self.suite


@dataclass(frozen=True)
class Suite:
    name: str
    needs: tuple[str, ...]
    bases: tuple[str, ...]
    steps: tuple[Step, ...]
    turns: str = ""


@dataclass
class PlannedGuest:
    hardware: Hardware
    steps: list[Step] = field(default_factory=list)


def parse(text: str, origin: str, module: str = "", base: str = DEFAULT) -> Suite:
    """A suite as it runs with that kernel."""
    config = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=None)
    try:
        config.read_string(text)
        return _suite(config, module, base)
    except (configparser.Error, ValueError, KeyError, Failure) as error:
        raise Failure(f"{origin}: {error}") from None


def each_text(text: str) -> list[str]:
    """The text of a suite, or with lines `each`, those of several."""
    texts = [text]
    for line, name, words in re.findall(r"^(each (\w+) *= *(.+))$", text, re.MULTILINE):
        texts = [one.replace(line, "").replace(f"{{{name}}}", word) for one in texts for word in words.split()]
    return texts


def _suite(config: configparser.ConfigParser, module: str, base: str) -> Suite:
    if "suite" not in config:
        raise ValueError("no [suite] section")
    common = dict(config["suite"])
    sections = _sections(config, "boot")
    of_bases = {_base(name): keys for name, keys in _sections(config, "base")}
    for name in config.sections():
        if name != "suite" and not name.startswith(("boot ", "base ")):
            raise ValueError(f"a section [{name}]; expected [suite], [base NAME] and [boot NAME]")
    _refuse_unknown(common, SUITE_KEYS | BOOT_KEYS)
    for _, keys in sections:
        _refuse_unknown(keys, BOOT_KEYS)
    for keys in of_bases.values():
        _refuse_unknown(keys, BOOT_KEYS - {"base"} | {"turns"})
    common |= of_bases.get(base, {})
    if not common.get("name"):
        raise ValueError("the suite has no name")
    bases = tuple(_base(name) for name in common.get("bases", DEFAULT).split())
    steps = tuple(_step(boot, {"base": base, **common, **keys}, module)
                  for boot, keys in sections or [("", {})])
    return Suite(common["name"], tuple(common.get("needs", "").split()), bases, steps,
                 common.get("turns", ""))


def _sections(config: configparser.ConfigParser, kind: str) -> list[tuple[str, dict[str, str]]]:
    return [(name.removeprefix(f"{kind} ").strip(), dict(config[name]))
            for name in config.sections() if name.startswith(f"{kind} ")]


def _base(name: str) -> str:
    if name not in BASES:
        raise ValueError(f"base {name}; there are {', '.join(BASES)}")
    return name


def _refuse_unknown(keys: dict[str, str], known: set[str]) -> None:
    unknown = sorted(keys.keys() - known)
    if unknown:
        raise ValueError(f"unknown key {', '.join(unknown)}; there are {', '.join(sorted(known))}")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",")) if text.strip() else ()


def _yes_or_no(key: str, text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(f"{key} {text}: expected yes or no")
    return text == "yes"


def _step(boot: str, keys: dict[str, str], module: str) -> Step:
    for needed in ("command", "timeout"):
        if not keys.get(needed):
            raise ValueError(f"no {needed}" + (f" for boot {boot}" if boot else ""))
    protocol = keys.get("protocol", "ktap")
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol {protocol}; there are {', '.join(PROTOCOLS)}")
    vram = keys.get("vram", "")
    asics = tuple(keys.get("asic", DEFAULT_ASIC).split(","))
    base = _base(keys["base"])
    hardware = Hardware(
        gpus=int(keys.get("gpus", "0")), asics=asics,
        vram_mib=tuple(map(parse_size_mib, vram.split(","))) if vram else (DEFAULT_VRAM_MIB,),
        order=_numbers(keys.get("order", "")), empty_slots=int(keys.get("empty-slots", "0")),
        hive=_yes_or_no("hive", keys.get("hive", "yes")),
        switch=_yes_or_no("switch", keys.get("switch", "no")),
        iommu=_yes_or_no("iommu", keys.get("iommu", "no")),
        bar_mib=parse_size_mib(keys["bar"]) if "bar" in keys else 0,
        hold_cpu_writes=_yes_or_no("hold-cpu-writes", keys.get("hold-cpu-writes", "no")),
        delays=_yes_or_no("delays", keys.get("delays", "no")),
        smp=int(keys.get("smp", str(DEFAULT_CPUS))),
        memory_mib=parse_size_mib(keys.get("memory", "3G")),
        base=base, image=keys.get("image", ""),
        module=module_in_guest(module or "amdgpu.ko"),
        module_parameters=BASES[base].parameters(asics) + tuple(keys.get("param", "").split()),
        append=keys.get("append", ""))
    timeout = float(keys["timeout"])
    if not timeout > 0:
        raise ValueError(f"timeout {timeout}: expected seconds above 0")
    return Step(keys["name"], boot, hardware, " ".join(keys["command"].split()), timeout, protocol)


def add_epilogue(guests: Iterable[PlannedGuest], command: str, timeout: float) -> None:
    """Ends every guest with this command, which prints KTAP."""
    name = Path(command.split()[0]).name
    for number, guest in enumerate(guests, 1):
        guest.steps.append(Step(name, f"guest-{number}", guest.hardware, command, timeout, "ktap"))


def load(directory: Path, wanted: Sequence[str], module: str = "", base: str = DEFAULT,
         unwanted: Sequence[str] = ()) -> list[Suite]:
    """The suites of a directory that are called `wanted`, by default all that run with the kernel
    `base`, except `unwanted`. A name may be a pattern; it matches suites that run with `base`."""
    suites = [parse(text, str(file), module, base)
              for file in sorted(directory.glob("*.suite")) for text in each_text(file.read_text())]
    names = [suite.name for suite in suites]
    for name in {name for name in names if names.count(name) > 1}:
        raise Failure(f"two suites are called {name}")
    for name in (*wanted, *unwanted):
        if not fnmatch.filter(names, name):
            raise Failure(f"no suite {name}; there are: {', '.join(names)}")

    def selected(suite: Suite) -> bool:
        if _matches(suite.name, unwanted):
            return False
        return suite.name in wanted or base in suite.bases and _matches(suite.name, wanted or ["*"])

    return [suite for suite in suites if selected(suite)]


def take_turns(suites: Sequence[Suite], named: Sequence[str], seed: int) -> list[Suite]:
    """All suites except those whose turn it is not; a suite that is `named` needs no turn.

    Each word is a draw of its own: scenarios of a suite take turns by the same seed, and all of them
    must meet all of the suites.
    """
    waiting: dict[str, list[Suite]] = {}
    for suite in suites:
        if suite.turns and suite.name not in named:
            waiting.setdefault(suite.turns, []).append(suite)
    chosen = [random.Random(f"{seed} {word}").choice(group) for word, group in waiting.items()]
    left_out = [suite for group in waiting.values() for suite in group if suite not in chosen]
    return [suite for suite in suites if suite not in left_out]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def plan(suites: Iterable[Suite]) -> list[PlannedGuest]:
    """As few guests as the order of each suite's boots allows."""
    guests: list[PlannedGuest] = []
    for suite in suites:
        after = -1  # a later boot of a suite needs a later guest than the previous boot
        for step in suite.steps:
            for index in range(after + 1, len(guests)):
                if guests[index].hardware == step.hardware:
                    break
            else:
                index = len(guests)
                guests.append(PlannedGuest(step.hardware))
            guests[index].steps.append(step)
            after = index
    return guests
