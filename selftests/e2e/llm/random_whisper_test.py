# SPDX-License-Identifier: GPL-2.0
"""Reads back what random_whisper has written, in the order of whisper.cpp's loader."""
from __future__ import annotations

import math
import struct
import unittest
from typing import Any

from random_whisper import FFT_BINS, MAGIC, TOKENS, WORDS, Shape, model

SMALL = Shape(wide=8, heads=2, layers=1, audio_context=10, text_context=6, mels=4)


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.head = self.take("<12I")
        mels, bins = self.take("<2I")
        self.filters = self.take(f"<{mels * bins}f")
        self.words = [self.text(*self.take("<I")) for _ in range(*self.take("<I"))]
        self.tensors = {}
        while self.at < len(data):
            dimensions, length, kind = self.take("<3I")
            shape = self.take(f"<{dimensions}I")
            self.tensors[self.text(length)] = shape
            self.at += math.prod(shape) * (2 if kind else 4)

    def take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def text(self, size: int) -> str:
        self.at += size
        return self.data[self.at - size:self.at].decode()


class Model(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.data = model(SMALL, seed=1)
        cls.reader = Reader(cls.data)

    def test_the_file_ends_with_the_last_tensor(self) -> None:
        self.assertEqual(len(self.data), self.reader.at)

    def test_the_head_describes_the_model(self) -> None:
        self.assertEqual((MAGIC, TOKENS, 10, 8, 2, 1, 6, 8, 2, 1, 4, 1), self.reader.head)
        self.assertEqual(4 * FFT_BINS, len(self.reader.filters))

    def test_words_differ_and_those_that_whisper_looks_up_are_there(self) -> None:
        self.assertEqual(WORDS, len(set(self.reader.words)))
        self.assertLessEqual({" -", " '"}, set(self.reader.words))

    def test_each_tensor_of_an_encoder_and_a_decoder_is_there(self) -> None:
        tensors = self.reader.tensors
        # 4 of convolutions, 3 outside of blocks, 15 and 24 in blocks, 4 outside of the decoder's
        self.assertEqual(4 + 3 + 15 + 24 + 4, len(tensors))
        self.assertEqual((3, 4, 8), tensors["encoder.conv1.weight"])
        self.assertEqual((8, TOKENS), tensors["decoder.token_embedding.weight"])
        self.assertEqual((8, 32), tensors["decoder.blocks.0.mlp.0.weight"])

    def test_it_is_the_same_each_time(self) -> None:
        self.assertEqual(self.data, model(SMALL, seed=1))


if __name__ == "__main__":
    unittest.main()
