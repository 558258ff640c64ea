# SPDX-License-Identifier: GPL-2.0
import argparse
import contextlib
import io
import json
import unittest
from pathlib import Path

from . import options, tsc
from .accel import newc
from .lab import Boot, Failure
from .leaks import compare, differences
from .machine import Channels, Hardware, Network, command_line, parse_size_mib

BOOT = Boot(Path("/k"), Path("/i"), Path("/r"))


class SizeTest(unittest.TestCase):
    def test_reads_units(self) -> None:
        self.assertEqual([parse_size_mib(text) for text in ("512", "512M", "2G", "1GiB")],
                         [512, 512, 2048, 1024])

    def test_refuses_nonsense(self) -> None:
        for text in ("", "0", "-1", "1T", "big", "1.5G"):
            with self.assertRaises(ValueError, msg=text):
                parse_size_mib(text)


class AssignmentTest(unittest.TestCase):
    def test_is_a_name_and_a_value(self) -> None:
        self.assertEqual(options.assignment("A_1=b=c d"), ("A_1", "b=c d"))
        for text in ("", "A", "=b", "a b=c", "1=c"):
            with self.assertRaises(argparse.ArgumentTypeError, msg=text):
                options.assignment(text)


class HardwareTest(unittest.TestCase):
    def test_refuses_numbers_that_do_not_fit(self) -> None:
        for values in ({"gpus": 9}, {"gpus": -1}, {"gpus": 2, "order": (0,)},
                       {"gpus": 2, "order": (0, 2)}, {"gpus": 1, "vram_mib": (1, 2)},
                       {"gpus": 1, "asics": ("a", "b")}):
            with self.assertRaises(Failure, msg=str(values)):
                Hardware(**values)  # type: ignore[arg-type]

    def test_the_last_vram_size_is_for_the_rest(self) -> None:
        hardware = Hardware(gpus=3, vram_mib=(256, 512))
        self.assertEqual([hardware.vram_of(gpu) for gpu in range(3)], [256, 512, 512])


class CommandLineTest(unittest.TestCase):
    def gpu_sockets(self, hardware: Hardware) -> list[tuple[str, str]]:
        sockets = [Path(f"/s{gpu}") for gpu in range(hardware.gpus)]
        command = command_line("n", hardware, BOOT, "tcg", Path("/p"), None, sockets, Channels())
        devices = [json.loads(word) for word in command if word.startswith("{")]
        return [(device["bus"], device["socket"]["path"]) for device in devices]

    def test_order_swaps_the_slots(self) -> None:
        self.assertEqual(self.gpu_sockets(Hardware(gpus=2)), [("port1", "/s0"), ("port2", "/s1")])
        self.assertEqual(self.gpu_sockets(Hardware(gpus=2, order=(1, 0))),
                         [("port1", "/s1"), ("port2", "/s0")])

    def test_empty_slots_come_first(self) -> None:
        self.assertEqual(self.gpu_sockets(Hardware(gpus=1, empty_slots=2)), [("port3", "/s0")])

    def test_gpus_below_a_switch_have_no_root_port(self) -> None:
        hardware = Hardware(gpus=2, switch=True)
        self.assertEqual(self.gpu_sockets(hardware), [("port1", "/s0"), ("port2", "/s1")])
        command = command_line("n", hardware, BOOT, "tcg", Path("/p"), None, [Path("/a"), Path("/b")],
                               Channels())
        ports = [word.split(",")[0] for word in command if ",id=port" in word]
        self.assertEqual(ports, ["xio3130-downstream"] * 2)

    def test_an_iommu_precedes_all_devices(self) -> None:
        command = command_line("n", Hardware(gpus=1, iommu=True), BOOT, "tcg", Path("/p"), None, [Path("/a")],
                               Channels())
        devices = [word for option, word in zip(command, command[1:]) if option == "-device"]
        self.assertTrue(devices[0].startswith("intel-iommu,"))

    def test_each_guest_of_a_network_sends_to_the_other(self) -> None:
        for number, other in ((1, 2), (2, 1)):
            command = command_line("n", Hardware(), BOOT, "tcg", Path("/p"), None, [], Channels(),
                                   Network(Path("/net"), number))
            link = json.loads(command[command.index("-netdev") + 1])
            self.assertEqual((link["local"]["path"], link["remote"]["path"]),
                             (f"/net/net{number}", f"/net/net{other}"))
            self.assertIn("local,id=shared,path=/net/shared,security_model=none,multidevs=remap",
                          command)

    def test_a_guest_is_alone_unless_it_has_a_network(self) -> None:
        command = command_line("n", Hardware(), BOOT, "tcg", Path("/p"), None, [], Channels())
        self.assertNotIn("-netdev", command)

    def test_only_a_guest_without_kvm_is_given_what_emulation_needs(self) -> None:
        for accelerator, given in (("tcg", True), ("kvm", False)):
            command = command_line("n", Hardware(), BOOT, accelerator, Path("/p"), None, [],
                                   Channels())
            options = command[command.index("-append") + 1]
            self.assertIs(given and tsc.rate_khz() is not None, "tsc_early_khz=" in options)
            self.assertIs(given, "CRIU_FAULT=130" in options)

    def test_the_kernel_console_is_the_first(self) -> None:
        command = command_line("n", Hardware(), BOOT, "kvm", Path("/p"), None, [],
                               Channels({"kernel": 3, "control": 4, "output": 5, "shell": 6}))
        consoles = [word for word in command if word.startswith("virtconsole")]
        self.assertEqual(consoles, ["virtconsole,bus=serial.0,chardev=kernel",
                                    "virtconsole,bus=serial.0,chardev=shell"])


class OptionsTest(unittest.TestCase):
    def refuses(self, *arguments: str) -> None:
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit) as caught:
            options.parse(list(arguments))
        self.assertEqual(caught.exception.code, 2)

    def test_refuses_contradictions(self) -> None:
        self.refuses("--gpus", "1", "--gpu-socket", "/x", "--", "true")
        self.refuses("--shell", "--", "true")
        self.refuses("--ktap", "x")
        self.refuses("--timeout", "0", "--", "true")
        self.refuses("--vram", "lots", "--", "true")
        self.refuses("--network", "/net", "--", "true")
        self.refuses("--network", "/net,3", "--", "true")

    def test_without_a_command_it_is_a_shell(self) -> None:
        self.assertTrue(options.parse(["--gpus", "1"]).shell)
        self.assertFalse(options.parse(["--", "true"]).shell)

    def test_external_sockets_count_as_gpus(self) -> None:
        opts = options.parse(["--gpu-socket", "/a", "--gpu-socket", "/b", "--", "true"])
        self.assertEqual(options.hardware(opts).gpus, 2)

    def test_words_are_quoted_and_a_single_one_is_a_shell_command(self) -> None:
        self.assertEqual(options.command_text(["echo", "a b"]), "echo 'a b'")
        self.assertEqual(options.command_text(["a; b"]), "a; b")


class LeaksTest(unittest.TestCase):
    def test_only_more_is_a_leak(self) -> None:
        self.assertEqual(compare({"memory": "5"}, {"memory": "4"}), [])
        self.assertEqual(compare({"memory": "5"}, {"memory": "6"}), ["memory: 5 before, 6 after"])
        self.assertEqual(len(compare({"device-fds": ""}, {"device-fds": "12 criu,"})), 1)
        self.assertEqual(len(compare({}, {"new": "0"})), 1)

    def test_waits_for_the_driver_to_free(self) -> None:
        measured = iter([{"bos": "2"}, {"bos": "1"}, {"bos": "0"}])
        self.assertEqual(differences(lambda: next(measured), {"bos": "0"}, 5, lambda _: None), [])

    def test_gives_up_in_the_end(self) -> None:
        self.assertEqual(len(differences(lambda: {"bos": "2"}, {"bos": "0"}, 1, lambda _: None)), 1)


class ArchiveTest(unittest.TestCase):
    def test_is_aligned_and_ends_with_a_trailer(self) -> None:
        archive = newc({"a": (0o100644, b"12345")})
        self.assertEqual(len(archive) % 4, 0)
        self.assertTrue(archive.startswith(b"070701"))
        self.assertIn(b"TRAILER!!!\0", archive)


if __name__ == "__main__":
    unittest.main()
