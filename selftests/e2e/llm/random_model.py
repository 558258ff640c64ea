#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""random_model FILE: writes a small language model with random weights as a GGUF file.

The model has the architecture that GGUF calls llama, and a vocabulary of invented words. The same
options give the same bytes. Words alone have weights in the output matrix, so that no text ends
by itself and every text is printable.
"""

from __future__ import annotations

import argparse
import math
import random
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ALIGNMENT = 32

# Types of values of the key-value section.
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9
SCALARS = {UINT32: "<I", INT32: "<i", FLOAT32: "<f"}

# Types of tensors: number, values and bytes of a block.
TENSOR_TYPES = {"f32": (0, 1, 4), "f16": (1, 1, 2), "q8_0": (8, 32, 34)}

# Types of tokens, as SentencePiece has them.
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6

SPACE = "\u2581"  # stands for a space in a piece of SentencePiece


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind: int, value: int | float | str) -> bytes:
    return text(str(value)) if kind == STRING else struct.pack(SCALARS[kind], value)


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple[int, ...]  # the length of a row first
    kind: str
    values: Sequence[float]

    def data(self) -> bytes:
        if self.kind == "q8_0":
            blocks = range(0, len(self.values), 32)
            return b"".join(q8_block(self.values[at:at + 32]) for at in blocks)
        return struct.pack(f"<{len(self.values)}{'f' if self.kind == 'f32' else 'e'}", *self.values)

    def size(self) -> int:
        _, values, size = TENSOR_TYPES[self.kind]
        return len(self.values) // values * size


def q8_block(values: Sequence[float]) -> bytes:
    """One scale of 16 bits and 32 numbers of 8 bits."""
    scale = max(abs(value) for value in values) / 127
    numbers = [round(value / scale) if scale else 0 for value in values]
    return struct.pack("<e32b", scale, *numbers)


def padding(size: int) -> bytes:
    return bytes(-size % ALIGNMENT)


class Writer:
    """Collects what is in the file."""

    def __init__(self) -> None:
        self._pairs: list[bytes] = []
        self._tensors: list[Tensor] = []

    def add(self, key: str, kind: int, value: int | float | str) -> None:
        self._pairs.append(text(key) + struct.pack("<I", kind) + scalar(kind, value))

    def add_array(self, key: str, kind: int, values: Sequence[int | float | str]) -> None:
        head = struct.pack("<IIQ", ARRAY, kind, len(values))
        self._pairs.append(text(key) + head + b"".join(scalar(kind, value) for value in values))

    def add_tensor(self, tensor: Tensor) -> None:
        self._tensors.append(tensor)

    def contents(self) -> bytes:
        version = 3
        head = [struct.pack("<4sIQQ", b"GGUF", version, len(self._tensors), len(self._pairs)),
                *self._pairs]
        data: list[bytes] = []
        offset = 0
        for tensor in self._tensors:
            shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
            head.append(text(tensor.name) + shape +
                        struct.pack("<IQ", TENSOR_TYPES[tensor.kind][0], offset))
            data += [tensor.data(), padding(tensor.size())]
            offset += len(data[-2]) + len(data[-1])
        described = b"".join(head)
        return described + padding(len(described)) + b"".join(data)


@dataclass(frozen=True)
class Shape:
    layers: int = 2
    embedding: int = 256
    heads: int = 4
    kv_heads: int = 2
    feed_forward: int = 1024
    context: int = 2048
    words: int = 1024

    def head(self) -> int:
        return self.embedding // self.heads


def words(count: int) -> list[str]:
    """Words of two syllables, each different."""
    syllables = [consonant + vowel for vowel in "aeiou" for consonant in "bdfgklmnprstvz"]
    size = len(syllables)
    if count > size * size:
        raise ValueError(f"there are no {count} words")
    # The second one starts elsewhere after each round.
    return [syllables[i % size] + syllables[(i * 11 + i // size) % size] for i in range(count)]


def add_vocabulary(writer: Writer, count: int) -> int:
    """The number of tokens."""
    tokens = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
    tokens += [(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
    tokens += [(SPACE, NORMAL), *((SPACE + word, NORMAL) for word in words(count))]
    writer.add("tokenizer.ggml.model", STRING, "llama")
    writer.add_array("tokenizer.ggml.tokens", STRING, [token for token, _ in tokens])
    writer.add_array("tokenizer.ggml.scores", FLOAT32, [0.0] * len(tokens))
    writer.add_array("tokenizer.ggml.token_type", INT32, [kind for _, kind in tokens])
    for number, name in enumerate(("unknown", "bos", "eos")):
        writer.add(f"tokenizer.ggml.{name}_token_id", UINT32, number)
    return len(tokens)


def add_description(writer: Writer, shape: Shape, vocabulary: int) -> None:
    for key, value in {
        "vocab_size": vocabulary,
        "context_length": shape.context,
        "embedding_length": shape.embedding,
        "block_count": shape.layers,
        "feed_forward_length": shape.feed_forward,
        "rope.dimension_count": shape.head(),
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
    }.items():
        writer.add(f"llama.{key}", UINT32, value)
    writer.add("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5)


class Weights:
    """Of the functions of random, random() alone gives the same in every version of Python."""

    def __init__(self, seed: int, kind: str) -> None:
        self._random = random.Random(seed)
        self._kind = kind

    def matrix(self, name: str, columns: int, rows: int, deviation: float,
               empty: int = 0) -> Tensor:
        """Its first rows may be empty."""
        half = math.sqrt(3) * deviation
        values = [0.0] * (empty * columns)
        values += [half * (2 * self._random.random() - 1) for _ in range((rows - empty) * columns)]
        return Tensor(name, (columns, rows), self._kind, values)


def ones(name: str, size: int) -> Tensor:
    return Tensor(name, (size,), "f32", [1.0] * size)


def tensors(shape: Shape, vocabulary: int, weights: Weights) -> Iterable[Tensor]:
    wide, hidden = shape.embedding, shape.feed_forward
    kv = shape.head() * shape.kv_heads
    from_wide, from_hidden = wide ** -0.5, hidden ** -0.5
    yield weights.matrix("token_embd.weight", wide, vocabulary, 1)
    for layer in range(shape.layers):
        name = f"blk.{layer}."
        yield ones(name + "attn_norm.weight", wide)
        yield weights.matrix(name + "attn_q.weight", wide, wide, from_wide)
        yield weights.matrix(name + "attn_k.weight", wide, kv, from_wide)
        yield weights.matrix(name + "attn_v.weight", wide, kv, from_wide)
        yield weights.matrix(name + "attn_output.weight", wide, wide, from_wide)
        yield ones(name + "ffn_norm.weight", wide)
        yield weights.matrix(name + "ffn_gate.weight", wide, hidden, from_wide)
        yield weights.matrix(name + "ffn_up.weight", wide, hidden, from_wide)
        yield weights.matrix(name + "ffn_down.weight", hidden, wide, from_hidden)
    yield ones("output_norm.weight", wide)
    yield weights.matrix("output.weight", wide, vocabulary, 1, empty=vocabulary - shape.words)


def model(shape: Shape, kind: str, seed: int) -> bytes:
    writer = Writer()
    writer.add("general.architecture", STRING, "llama")
    writer.add("general.name", STRING, f"random weights, seed {seed}")
    writer.add("general.alignment", UINT32, ALIGNMENT)
    vocabulary = add_vocabulary(writer, shape.words)
    add_description(writer, shape, vocabulary)
    for tensor in tensors(shape, vocabulary, Weights(seed, kind)):
        writer.add_tensor(tensor)
    return writer.contents()


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="random_model", description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=Shape.layers)
    parser.add_argument("--embedding", type=int, default=Shape.embedding)
    parser.add_argument("--type", choices=TENSOR_TYPES, default="f16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    shape = Shape(layers=options.layers, embedding=options.embedding)
    options.file.write_bytes(model(shape, options.type, options.seed))


if __name__ == "__main__":
    main(sys.argv[1:])
