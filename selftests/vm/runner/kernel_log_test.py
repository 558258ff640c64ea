# SPDX-License-Identifier: GPL-2.0
import unittest

from .kernel_log import Watcher


def watch(*lines: str) -> Watcher:
    watcher = Watcher()
    for number, line in enumerate(lines):
        watcher.line(f"[{number:5d}.000001] {line}")
    return watcher


def texts(watcher: Watcher, command: int | None) -> list[str]:
    return [complaint.text for complaint in watcher.of(command)]


class WatcherTest(unittest.TestCase):
    def test_finds_complaints(self) -> None:
        for line in ("WARNING: CPU: 0 PID: 1 at amdgpu/x.c:1 f+0x1/0x2 [amdgpu]",
                     "BUG: kernel NULL pointer dereference, address: 0000000000000000",
                     "Oops: Oops: 0000 [#1] SMP NOPTI",
                     "WARNING: possible circular locking dependency detected",
                     "INFO: task amd_basic:1 blocked for more than 120 seconds.",
                     "BUG: KASAN: slab-use-after-free in f+0x1/0x2",
                     "kmemleak: 1 new suspected memory leaks: unreferenced object 0xffff",
                     "UBSAN: array-index-out-of-bounds in x.c:1:2",
                     "refcount_t: underflow; use-after-free."):
            self.assertEqual(len(watch(line).complaints), 1, line)

    def test_a_quiet_log_has_none(self) -> None:
        for line in ("amdgpu: loading out-of-tree module taints kernel.",
                     "amdgpu: module verification failed: signature and/or required key missing",
                     "evm: WARN_ON is not set", "Initialized amdgpu 3.64.0",
                     "debug: oopsies are fine"):
            self.assertEqual(watch(line).complaints, [], line)

    def test_assigns_complaints_to_commands(self) -> None:
        watcher = watch("WARNING: early", "vm: begin 1", "vm: end 1", "vm: begin 2", "BUG: x y",
                        "vm: end 2", "WARNING: late")
        self.assertEqual(texts(watcher, 1), [])
        self.assertEqual(texts(watcher, 2), ["BUG: x y"])
        self.assertEqual(texts(watcher, None), ["WARNING: early", "WARNING: late"])
        self.assertEqual(watcher.finished, {1, 2})

    def test_a_command_may_allow_what_it_provokes_until_its_end(self) -> None:
        watcher = watch("vm: begin 1", "vm: allow in f_one", "WARNING: in f_one", "WARNING: in g",
                        "vm: end 1", "WARNING: in f_one")
        self.assertEqual(texts(watcher, 1), ["WARNING: in g"])
        self.assertEqual(texts(watcher, None), ["WARNING: in f_one"])

    def test_keeps_the_trace_with_a_complaint(self) -> None:
        watcher = watch("BUG: x", *[f"line {number}" for number in range(100)])
        complaint, = watcher.of(None)
        self.assertTrue(str(complaint).startswith("kernel: BUG: x\nline 0\nline 1\n"))
        self.assertEqual(len(complaint.context), 30)

    def test_a_bad_pattern_is_a_complaint(self) -> None:
        self.assertEqual(len(watch("vm: begin 1", "vm: allow (").of(1)), 1)

    def test_sees_a_panic(self) -> None:
        self.assertTrue(watch("Kernel panic - not syncing: Fatal exception").panicked)
        self.assertFalse(watch("panic=-1 is set").panicked)


if __name__ == "__main__":
    unittest.main()
