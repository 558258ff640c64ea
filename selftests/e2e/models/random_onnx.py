#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""random_onnx bert|resnet FILE: writes a small network with random weights as an ONNX file.

bert: the encoder of BERT: embeddings, two layers with attention and a feed-forward part, a pooler.
resnet: ResNet18, with an eighth of its channels and images of 32 x 32. A convolution is a product of
matrices, of weights and of what each output sees, since MIGraphX leaves the operator Conv to MIOpen.

The same options give the same bytes. Nothing but Python is needed.
"""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

FLOAT, INT64 = 1, 7  # types of tensors
OPSET = 17
VARINT, BYTES, FLOAT32 = 0, 2, 5  # wire types of protobuf


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3 | VARINT) + varint(value)


def data(field: int, value: bytes | str) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | BYTES) + varint(len(content)) + content


def attribute(name: str, value: float | int | list[int]) -> bytes:
    out = data(1, name)
    if isinstance(value, float):
        return out + varint(2 << 3 | FLOAT32) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, int):
        return out + number(3, value) + number(20, 2)
    return out + b"".join(number(8, one) for one in value) + number(20, 7)


def tensor_of(name: str, shape: Iterable[int], kind: int, raw: bytes) -> bytes:
    dims = b"".join(number(1, size) for size in shape)
    return dims + number(2, kind) + data(8, name) + data(9, raw)


def described(name: str, kind: int, shape: Iterable[int]) -> bytes:
    dims = b"".join(data(1, number(1, size)) for size in shape)
    return data(1, name) + data(2, data(1, number(1, kind) + data(2, dims)))


class Graph:
    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.parts: list[bytes] = []
        self.weights = random.Random(1)

    def input(self, name: str, kind: int, shape: Iterable[int]) -> str:
        self.parts.append(data(11, described(name, kind, shape)))
        return name

    def _new_name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}"

    def node(self, kind: str, *inputs: str, **attributes: float | int | list[int]) -> str:
        name = self._new_name(kind)
        parts = [data(1, one) for one in inputs] + [data(2, name), data(3, name), data(4, kind)]
        parts += [data(5, attribute(*one)) for one in attributes.items()]
        self.parts.append(data(1, b"".join(parts)))
        return name

    def floats(self, values: list[float], shape: Iterable[int]) -> str:
        name = self._new_name("floats")
        raw = struct.pack(f"<{len(values)}f", *values)
        self.parts.append(data(5, tensor_of(name, shape, FLOAT, raw)))
        return name

    def ints(self, values: list[int], shape: Iterable[int] = ()) -> str:
        name = self._new_name("ints")
        raw = struct.pack(f"<{len(values)}q", *values)
        self.parts.append(data(5, tensor_of(name, shape or [len(values)], INT64, raw)))
        return name

    def random(self, *shape: int, scale: float, around: float = 0.0) -> str:
        size = 1
        for one in shape:
            size *= one
        values = [around + scale * self.weights.uniform(-1, 1) for _ in range(size)]
        return self.floats(values, shape)

    def finish(self, output: str, shape: Iterable[int]) -> bytes:
        self.parts.append(data(12, described(output, FLOAT, shape)))
        graph = b"".join(self.parts) + data(2, self.name)
        return number(1, 8) + data(2, "random_onnx") + data(7, graph) + data(8, number(2, OPSET))


WORDS, LENGTH, WIDTH, HEADS, INNER, LAYERS = 256, 32, 64, 4, 256, 2


def dense(graph: Graph, x: str, from_size: int, to_size: int) -> str:
    weights = graph.random(from_size, to_size, scale=(3 / from_size) ** 0.5)
    return graph.node("Add", graph.node("MatMul", x, weights), graph.random(to_size, scale=0.1))


def normalized(graph: Graph, x: str) -> str:
    scale = graph.random(WIDTH, scale=0.2, around=1.0)
    bias = graph.random(WIDTH, scale=0.1)
    return graph.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)


def attention(graph: Graph, x: str) -> str:
    def heads(order: list[int]) -> str:
        split = graph.node("Reshape", dense(graph, x, WIDTH, WIDTH), graph.ints([1, LENGTH, HEADS, WIDTH // HEADS]))
        return graph.node("Transpose", split, perm=order)

    query, key, value = heads([0, 2, 1, 3]), heads([0, 2, 3, 1]), heads([0, 2, 1, 3])
    scale = graph.floats([(HEADS / WIDTH) ** 0.5], [])
    scores = graph.node("Mul", graph.node("MatMul", query, key), scale)
    mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), value)
    joined = graph.node("Reshape", graph.node("Transpose", mixed, perm=[0, 2, 1, 3]), graph.ints([1, LENGTH, WIDTH]))
    return dense(graph, joined, WIDTH, WIDTH)


def gelu(graph: Graph, x: str) -> str:
    error = graph.node("Erf", graph.node("Mul", x, graph.floats([0.5**0.5], [])))
    half = graph.node("Mul", x, graph.floats([0.5], []))
    return graph.node("Mul", half, graph.node("Add", error, graph.floats([1.0], [])))


def bert() -> bytes:
    graph = Graph("bert")
    words = graph.input("input", INT64, [1, LENGTH])
    x = graph.node("Gather", graph.random(WORDS, WIDTH, scale=1.0), words, axis=0)
    x = normalized(graph, graph.node("Add", x, graph.random(1, LENGTH, WIDTH, scale=1.0)))
    for _ in range(LAYERS):
        x = normalized(graph, graph.node("Add", x, attention(graph, x)))
        inner = gelu(graph, dense(graph, x, WIDTH, INNER))
        x = normalized(graph, graph.node("Add", x, dense(graph, inner, INNER, WIDTH)))
    first = graph.node("Gather", x, graph.ints([0]), axis=1)
    return graph.finish(graph.node("Tanh", dense(graph, first, WIDTH, WIDTH)), [1, 1, WIDTH])


def windows(graph: Graph, x: str, sizes: tuple[int, int], kernel: int, stride: int) -> tuple[str, int]:
    """[1, channels, kernel, kernel, side, side] with what each output sees, and side."""
    channels, size = sizes
    pad = kernel // 2
    side = (size + 2 * pad - kernel) // stride + 1
    places = graph.ints([offset + stride * at for offset in range(kernel) for at in range(side)], [kernel, side])
    if pad:
        x = graph.node("Pad", x, graph.ints([0, 0, pad, pad] * 2))
    x = graph.node("Gather", graph.node("Gather", x, places, axis=2), places, axis=4)
    return graph.node("Transpose", x, perm=[0, 1, 2, 4, 3, 5]), side


def convolved(graph: Graph, x: str, sizes: tuple[int, int], channels: int, kernel: int, stride: int) -> tuple[str, int]:
    x, side = windows(graph, x, sizes, kernel, stride)
    inner = sizes[0] * kernel**2
    weights = graph.random(channels, inner, scale=(3 / inner) ** 0.5)
    x = graph.node("MatMul", weights, graph.node("Reshape", x, graph.ints([inner, side**2])))
    x = graph.node("Reshape", x, graph.ints([1, channels, side, side]))
    moments = [graph.random(channels, scale=0.1, around=middle) for middle in (1.0, 0.0, 0.0, 1.0)]
    return graph.node("BatchNormalization", x, *moments, epsilon=1e-5), side


def block(graph: Graph, x: str, sizes: tuple[int, int], channels: int) -> tuple[str, int]:
    stride = 1 + (channels > sizes[0])
    inner, side = convolved(graph, x, sizes, channels, 3, stride)
    inner, _ = convolved(graph, graph.node("Relu", inner), (channels, side), channels, 3, 1)
    if stride > 1:
        x, _ = convolved(graph, x, sizes, channels, 1, stride)
    return graph.node("Relu", graph.node("Add", inner, x)), side


def resnet() -> bytes:
    graph = Graph("resnet")
    x = graph.input("input", FLOAT, [1, 3, 32, 32])
    x, side = convolved(graph, x, (3, 32), 8, 7, 2)
    x, side = windows(graph, graph.node("Relu", x), (8, side), 3, 2)
    x = graph.node("ReduceMax", x, axes=[2, 3], keepdims=0)
    channels = 8
    for width in (8, 8, 16, 16, 32, 32, 64, 64):
        x, side = block(graph, x, (channels, side), width)
        channels = width
    x = graph.node("ReduceMean", x, axes=[2, 3], keepdims=0)
    return graph.finish(dense(graph, x, channels, 10), [1, 10])


def main() -> None:
    kind, path = sys.argv[1:]
    Path(path).write_bytes({"bert": bert, "resnet": resnet}[kind]())


if __name__ == "__main__":
    main()
