# SPDX-License-Identifier: GPL-2.0
import json
import tempfile
import unittest
from pathlib import Path

from . import machine

CHECKS = {
    machine.SERIES: {"what": "kernel interface", "status": "ok", "found": "ABI 1"},
    machine.STOCK: {"what": "kernel interface", "status": "limited",
                    "found": "the stock one, AMDKFD_IOC_CRIU_OP"},
    machine.NONE: {"what": "kernel interface", "status": "bad", "found": "not examined"},
}


def make_gpu(root: Path) -> None:
    files = {
        f"{machine.TOPOLOGY}/0/gpu_id": "0",
        f"{machine.TOPOLOGY}/1/gpu_id": "4711",
        f"{machine.TOPOLOGY}/1/name": "aldebaran",
        f"{machine.TOPOLOGY}/1/properties":
            "simd_count 32\nsimd_per_cu 4\ngfx_target_version 90010\nlocation_id 768\ndomain 1\n",
        "sys/bus/pci/devices/0001:03:00.0/mem_info_vram_total": "268435456",
        "sys/bus/pci/devices/0001:03:00.0/fw_version/mec_fw_version": "0x00000041",
        "sys/module/amdgpu/parameters/lockup_timeout": "60000",
        "proc/cpuinfo": "flags : fpu hypervisor",
        "etc/os-release": 'PRETTY_NAME="Debian 13"',
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


class MachineTest(unittest.TestCase):
    def read(self, interface: str = machine.SERIES) -> machine.Machine:
        answers = {"amdgpu-criu": json.dumps({"checks": [CHECKS[interface]]}),
                   "criu": "Version: 4.2.1\nGitID: none"}
        with tempfile.TemporaryDirectory() as root:
            make_gpu(Path(root))
            build_id = Path(root, machine.BUILD_ID)
            build_id.parent.mkdir()
            build_id.write_bytes(b"\4\0\0\0\2\0\0\0\3\0\0\0GNU\0\xab\xcd")
            return machine.read(root=Path(root), run=lambda command: answers.get(command[0], ""))

    def test_reads_gpus_from_the_topology_and_skips_cpus(self) -> None:
        (gpu,) = self.read().gpus
        self.assertEqual((gpu.slot, gpu.isa, gpu.vram, gpu.compute_units),
                         ("0001:03:00.0", "gfx90a", 1 << 28, 8))
        self.assertEqual((gpu.name, gpu.firmware), ("aldebaran", {"mec": "0x00000041"}))

    def test_names_of_instruction_sets_are_those_of_the_compiler(self) -> None:
        for target, name in ((90010, "gfx90a"), (90402, "gfx942"), (110000, "gfx1100"), (110501, "gfx1151")):
            self.assertEqual(machine.isa_of(target), name)

    def test_reads_versions_and_parameters(self) -> None:
        found = self.read()
        self.assertEqual((found.criu, found.system, found.virtual), ("4.2.1", "Debian 13", True))
        self.assertEqual(found.parameters, {"lockup_timeout": "60000"})
        self.assertEqual(found.versions["amdgpu.ko"], "loaded: build ID abcd")

    def test_the_interface_is_what_the_tool_finds(self) -> None:
        for interface in CHECKS:
            self.assertEqual(self.read(interface).interface, interface)
        self.assertEqual(machine.interface_of([]), machine.NONE)

    def test_a_machine_without_anything_is_described(self) -> None:
        with tempfile.TemporaryDirectory() as root:
            found = machine.read(root=Path(root), run=lambda command: "")
        self.assertEqual((found.gpus, found.interface, found.criu), ((), machine.NONE, ""))

    def test_a_program_that_is_missing_prints_nothing(self) -> None:
        self.assertEqual(machine.output(["/nonexistent"]), "")


if __name__ == "__main__":
    unittest.main()
