# SPDX-License-Identifier: GPL-2.0
import unittest

from sample_cases import sample

SIZE = 16


def record(text: bytes) -> bytes:
    return text.ljust(SIZE, b"\0")


class SampleTest(unittest.TestCase):
    def setUp(self) -> None:
        self.head = b"rocX\0" + bytes(range(SIZE)) + b"ROCx\0"
        self.cases = [record(b"%02d\0%b" % (number, b"quick" if number % 2 else b"nightly"))
                      for number in range(20)]

    def test_takes_whole_records_of_quick_cases(self) -> None:
        data = sample(self.head + b"".join(self.cases), 4)
        self.assertTrue(data.startswith(self.head))
        self.assertEqual(len(data), len(self.head) + 4 * SIZE)
        taken = [data[at:at + SIZE] for at in range(len(self.head), len(data), SIZE)]
        self.assertEqual(taken, sorted(set(taken)))
        self.assertLessEqual(set(taken), set(self.cases[1::2]))

    def test_refuses_what_is_no_whole_file_of_cases(self) -> None:
        whole = self.head + b"".join(self.cases)
        for data, count in ((whole[:-1], 4), (whole, 11), (b"rocX\0" + whole[5:-5] + b"x", 4)):
            with self.assertRaises(ValueError):
                sample(data, count)
