# SPDX-License-Identifier: GPL-2.0
"""Reads back what random_model has written."""
from __future__ import annotations

import struct
import unittest
from typing import Any

from random_model import Shape, Tensor, model, q8_block, words

FORMATS = {4: "<I", 5: "<i", 6: "<f"}
BLOCKS = {0: (1, 4), 1: (1, 2), 8: (32, 34)}


class Reader:
    """A reader of GGUF, by its documentation."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.magic, self.version, count, pairs = self.take("<4sIQQ")
        self.values = {self.string(): self.value(self.take("<I")[0]) for _ in range(pairs)}
        self.tensors = {}
        for _ in range(count):
            name, (dimensions,) = self.string(), self.take("<I")
            self.tensors[name] = (self.take(f"<{dimensions}Q"), *self.take("<IQ"))
        self.start = (self.at + 31) // 32 * 32

    def take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def string(self) -> str:
        (size,) = self.take("<Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def value(self, kind: int) -> Any:
        if kind == 8:
            return self.string()
        if kind == 9:
            inner, count = self.take("<IQ")
            return [self.value(inner) for _ in range(count)]
        return self.take(FORMATS[kind])[0]

    def bytes_of(self, name: str) -> bytes:
        shape, kind, offset = self.tensors[name]
        values, size = BLOCKS[kind]
        count = 1
        for length in shape:
            count *= length
        return self.data[self.start + offset:self.start + offset + count // values * size]


SMALL = Shape(layers=1, embedding=64, heads=2, kv_heads=1, feed_forward=64, words=10)


class RandomModel(unittest.TestCase):
    def test_the_same_options_give_the_same_bytes(self) -> None:
        self.assertEqual(model(SMALL, "f16", 3), model(SMALL, "f16", 3))
        self.assertNotEqual(model(SMALL, "f16", 3), model(SMALL, "f16", 4))

    def test_a_reader_finds_the_description(self) -> None:
        file = Reader(model(SMALL, "f32", 1))
        self.assertEqual((file.magic, file.version), (b"GGUF", 3))
        self.assertEqual(file.values["general.architecture"], "llama")
        self.assertEqual(file.values["llama.block_count"], 1)
        self.assertEqual(file.values["llama.rope.dimension_count"], 32)
        tokens = file.values["tokenizer.ggml.tokens"]
        self.assertEqual(len(tokens), 3 + 256 + 1 + 10)
        self.assertEqual(tokens[3 + ord("A")], "<0x41>")
        self.assertEqual(len(file.values["tokenizer.ggml.token_type"]), len(tokens))

    def test_tensors_fill_the_file_without_overlaps(self) -> None:
        for kind in ("f32", "f16", "q8_0"):
            file = Reader(model(SMALL, kind, 1))
            end = 0
            for name, (_, _, offset) in file.tensors.items():
                self.assertEqual(offset, (end + 31) // 32 * 32, name)
                end = offset + len(file.bytes_of(name))
            self.assertEqual(len(file.data), file.start + (end + 31) // 32 * 32)
            self.assertEqual(file.tensors["blk.0.attn_k.weight"][0], (64, 32))

    def test_only_words_have_weights_in_the_output(self) -> None:
        file = Reader(model(SMALL, "f32", 1))
        output = struct.unpack(f"<{270 * 64}f", file.bytes_of("output.weight"))
        self.assertFalse(any(output[:260 * 64]))
        self.assertTrue(all(any(output[row * 64:row * 64 + 64]) for row in range(260, 270)))

    def test_blocks_of_8_bits_are_within_half_a_step(self) -> None:
        values = [i / 7 - 2 for i in range(32)]
        scale, *numbers = struct.unpack("<e32b", q8_block(values))
        for value, number in zip(values, numbers):
            self.assertAlmostEqual(value, scale * number, delta=scale)
        self.assertEqual(q8_block([0.0] * 32), bytes(34))
        self.assertEqual(Tensor("t", (32,), "q8_0", values).size(), 34)

    def test_words_are_different(self) -> None:
        self.assertEqual(len(set(words(4900))), 4900)
        with self.assertRaises(ValueError):
            words(4901)


if __name__ == "__main__":
    unittest.main()
