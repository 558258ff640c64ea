# SPDX-License-Identifier: GPL-2.0
import unittest

from .kernel_log import Watcher


def watch(*lines: str) -> Watcher:
    watcher = Watcher()
    for number, line in enumerate(lines):
        watcher.line(f"[{number:5d}.000001] {line}")
    return watcher


def texts(watcher: Watcher, command: int | None) -> list[str]:
    return [complaint.text for complaint in watcher.complaints if complaint.command == command]


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

    def test_each_complaint_is_reported_once(self) -> None:
        watcher = watch("WARNING: early", "vm: begin 1", "BUG: x", "vm: end 1")
        self.assertEqual([one.text for one in watcher.of(1)], ["BUG: x"])
        self.assertEqual([one.text for one in watcher.rest()], ["WARNING: early"])

    def test_a_missing_end_is_a_complaint_and_what_comes_late_is_not_lost(self) -> None:
        watcher = watch("vm: begin 1", "vm: begin 2", "vm: end 2")
        self.assertEqual([one.text for one in watcher.of(1)],
                         ["the log has no mark of command 1's end"])
        watcher = watch("vm: begin 1")
        watcher.of(1)
        for line in ("BUG: x", "vm: end 1", "vm: begin 2", "vm: end 2"):
            watcher.line(f"[    9.000001] {line}")
        self.assertEqual(watcher.of(2), [])
        self.assertEqual([one.text for one in watcher.rest()], ["BUG: x"])

    def test_messages_of_the_driver_about_its_gpu_are_complaints(self) -> None:
        for line in ("amdgpu 0000:00:04.0: [gfxhub0] no-retry page fault (src_id:0 ring:0 vmid:8)",
                     "amdgpu 0000:00:04.0: ring sdma0 timeout, signaled seq=5, emitted seq=6",
                     "amdgpu 0000:00:04.0: Ring sdma0 reset failed",
                     "amdgpu 0000:00:04.0: GPU reset begin!",
                     "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring comp_1.0.0 timeout",
                     "amdgpu 0000:00:04.0: [drm] *ERROR* Failed to initialize parser -12!"):
            self.assertEqual(len(watch(line).complaints), 1, line)

    def test_outside_of_tests_a_permission_ends_with_the_command(self) -> None:
        watcher = watch("vm: begin 1", "vm: allow in f_one", "WARNING: in f_one", "WARNING: in g",
                        "vm: end 1", "WARNING: in f_one", "vm: begin 2", "WARNING: in f_one")
        self.assertEqual(texts(watcher, 1), ["WARNING: in g"])
        self.assertEqual(texts(watcher, None), ["WARNING: in f_one"])
        self.assertEqual(texts(watcher, 2), ["WARNING: in f_one"])

    def test_the_permission_of_a_test_ends_with_it(self) -> None:
        watcher = watch("vm: begin 1", "vm: test a", "vm: allow in f", "WARNING: in f",
                        "vm: tested a", "WARNING: in f between", "vm: test b", "WARNING: in f of b",
                        "vm: tested b", "vm: end 1")
        self.assertEqual([(c.test, c.text) for c in watcher.complaints],
                         [("", "WARNING: in f between"), ("b", "WARNING: in f of b")])

    def test_the_next_test_ends_the_previous_one(self) -> None:
        watcher = watch("vm: begin 1", "vm: test a", "vm: allow in f", "vm: test b", "WARNING: in f")
        self.assertEqual(texts(watcher, 1), ["WARNING: in f"])

    def test_a_permission_does_not_apply_to_earlier_lines(self) -> None:
        watcher = watch("vm: begin 1", "vm: test a", "WARNING: in f", "vm: allow in f",
                        "vm: tested a")
        self.assertEqual(texts(watcher, 1), ["WARNING: in f"])

    def test_a_test_may_end_what_it_allows_early(self) -> None:
        watcher = watch("vm: begin 1", "vm: test a", "vm: allow in f", "vm: disallow",
                        "WARNING: in f", "vm: tested a")
        self.assertEqual(texts(watcher, 1), ["WARNING: in f"])

    def test_the_permission_of_a_named_test_holds_in_no_other(self) -> None:
        watcher = watch("vm: begin 1", "vm: allow-in p@hang ring sdma0 timeout",
                        "[IGT] p: starting subtest hang", "ring sdma0 timeout, first",
                        "[IGT] p: finished subtest hang, SUCCESS", "ring sdma0 timeout, second",
                        "[IGT] p: starting subtest other", "ring sdma0 timeout, third",
                        "vm: end 1", "vm: begin 2", "vm: test p@hang", "ring sdma0 timeout, fourth")
        self.assertEqual([(c.test, c.text) for c in watcher.complaints if c.command == 1],
                         [("", "ring sdma0 timeout, second"), ("p@other", "ring sdma0 timeout, third")])
        self.assertEqual(texts(watcher, 2), ["ring sdma0 timeout, fourth"])

    def test_complaints_of_the_gpu_models_belong_to_the_test_that_ran(self) -> None:
        said = ["GPU 0: boot"]
        watcher = Watcher(lambda: [said.pop() for _ in said[:]])

        def run(*lines: str) -> None:
            for line in lines:
                watcher.line(line)

        run("vm: begin 1", "vm: test a", "vm: allow VM fault")
        said.append("GPU 0: VM fault 1")
        run("vm: tested a")
        said.append("GPU 0: VM fault 2")
        run("vm: test b")
        said.append("GPU 0: VM fault 3")
        run("vm: tested b", "vm: end 1")
        said.append("GPU 0: VM fault 4")
        watcher.collect()
        self.assertEqual([(c.command, c.test, c.text) for c in watcher.complaints],
                         [(None, "", "GPU 0: boot"), (1, "", "GPU 0: VM fault 2"),
                          (1, "b", "GPU 0: VM fault 3"), (None, "", "GPU 0: VM fault 4")])

    def test_a_complaint_of_a_model_may_be_read_before_the_mark_that_allows_it(self) -> None:
        said: list[str] = []
        watcher = Watcher(lambda: [said.pop() for _ in said[:]])
        watcher.line("vm: begin 1")
        watcher.line("vm: allow-in b VM fault 2")
        for mark, text in (("vm: test a", "GPU 0: VM fault 1"), ("vm: allow VM fault", "GPU 0: VM fault"),
                           ("vm: disallow", "GPU 0: VM fault"), ("vm: tested a", "GPU 0: VM fault 3"),
                           ("vm: test b", "GPU 0: VM fault 2")):
            said.append(text)
            watcher.line(mark)
        self.assertEqual([(c.test, c.text) for c in watcher.complaints],
                         [("", "GPU 0: VM fault 1"), ("a", "GPU 0: VM fault 3")])

    def test_a_fault_that_repeats_itself_is_kept_three_times(self) -> None:
        watcher = watch("vm: begin 1", "vm: test a",
                        *[f"ring sdma0 timeout, seq={number}" for number in range(9)],
                        "BUG: x", "vm: tested a")
        self.assertEqual(len(watcher.complaints), 4)

    def test_keeps_the_trace_with_a_complaint(self) -> None:
        watcher = watch("BUG: x", *[f"line {number}" for number in range(100)])
        complaint, = watcher.complaints
        self.assertTrue(str(complaint).startswith("complaint: BUG: x\nline 0\nline 1\n"))
        self.assertEqual(len(complaint.context), 30)

    def test_an_allowed_complaint_ends_the_trace_of_the_previous_one(self) -> None:
        complaint, = watch("vm: begin 1", "vm: allow BUG: y", "BUG: x", "of x", "BUG: y",
                           "of y").complaints
        self.assertEqual(complaint.context, ["of x"])

    def test_a_bad_pattern_is_a_complaint(self) -> None:
        for pattern in ("allow (", "allow ", "allow-in a (", "allow-in a"):
            self.assertEqual(len(watch("vm: begin 1", f"vm: {pattern}").complaints), 1, pattern)

    def test_sees_a_panic(self) -> None:
        self.assertTrue(watch("Kernel panic - not syncing: Fatal exception").panicked)
        self.assertFalse(watch("panic=-1 is set").panicked)


if __name__ == "__main__":
    unittest.main()
