# SPDX-License-Identifier: GPL-2.0
import unittest

from .kernel_log import Watcher

READ, WRITE, FAULTS = "piglit/program/execute/image-read-2d", "piglit/program/execute/image-write-2d", "rocr_faults"
# Lines of runs, except the one of a queue without a trap handler.
STORE = ("GPU 0 (softgpu): softgpu: model fault: a wave stops at 0x7f5403a78498: image_store is not modelled",
         "GPU 0 (softgpu): softgpu: model fault: a wave stops at 0x7f4ebb218498: image_store is not modelled")
NOTHING = "GPU 0 (softgpu): softgpu0: model fault: a wave stops at 0x7fa991709a00: no instruction 0xffffffff"
OF_QUEUE = ("GPU 1 (softgpu): softgpu1: model fault: user queue 1.0.2 (vmid 3, pasid 0x423) stops at packet 0x00001502 "
            "at 0x7fd0535fe000: a wave stops at 0x7f0000001000: image_store is not modelled")
PACKET = ("GPU 0 (softgpu): softgpu0: model fault: user queue 1.0.2 (vmid 3, pasid 0x423) stops at packet 0x000000c8 "
          "at 0x7fd0535fe000: a reserved AQL packet type")
HEAD = "instructions that the GPU models refused, and how many tests each blocks:"


class RefusedInstructionsTest(unittest.TestCase):
    def watch(self, *steps: tuple[str, tuple[str, ...]]) -> Watcher:
        """Each step is a mark, and what the GPU models have said before it is read."""
        said: list[str] = []
        watcher = Watcher(lambda: [said.pop(0) for _ in said[:]])
        for mark, texts in steps:
            said += texts
            watcher.line(mark)
        return watcher

    def test_the_one_that_blocks_most_tests_is_the_first(self) -> None:
        watcher = self.watch(("vm: begin 1", ()), (f"vm: tested {FAULTS}", (NOTHING, NOTHING)),
                             ("vm: tested a case that fails", (PACKET,)),
                             (f"vm: tested {READ}", (STORE[0],)), (f"vm: tested {WRITE}", (STORE[1], OF_QUEUE)),
                             ("vm: end 1", ()))
        self.assertEqual(watcher.refused.table(1),
                         [HEAD, f"     2  image_store is not modelled, first in {READ}",
                          f"     1  no instruction 0xffffffff, first in {FAULTS}"])

    def test_each_is_one_complaint_of_a_command(self) -> None:
        watcher = self.watch(("vm: begin 1", ()), (f"vm: tested {READ}", (STORE[0],)),
                             (f"vm: tested {WRITE}", (STORE[1],)), ("vm: end 1", ()), ("vm: begin 2", ()),
                             (f"vm: tested {WRITE}", (STORE[1],)), ("vm: end 2", ()))
        self.assertEqual([(c.command, c.test, c.text) for c in watcher.complaints],
                         [(1, READ, STORE[0]), (2, WRITE, STORE[1])])

    def test_outside_of_tests_the_count_is_zero(self) -> None:
        watcher = self.watch(("vm: begin 1", ()), ("vm: end 1", (NOTHING,)))
        self.assertEqual(watcher.refused.table(1), [HEAD, "     0  no instruction 0xffffffff"])

    def test_those_that_a_test_allows_and_other_faults_are_not_listed(self) -> None:
        watcher = self.watch(("vm: begin 1", ()), ("vm: test a", ()), ("vm: allow no instruction", ()),
                             ("vm: tested a", (NOTHING, PACKET)), ("vm: end 1", ()))
        self.assertEqual(watcher.refused.table(1), [])
        self.assertEqual(len(watcher.complaints), 1)


if __name__ == "__main__":
    unittest.main()
