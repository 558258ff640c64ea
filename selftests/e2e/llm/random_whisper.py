#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""random_whisper MODEL SOUND: writes a small speech recognition model with random weights, in the
format that whisper.cpp reads, and a sound file for it.

The vocabulary has as many tokens as an English model must have, of invented words. Tokens that
control the decoder have no weights, so that every text is as long as the decoder's context allows.
The files are the same in each run.
"""

from __future__ import annotations

import argparse
import math
import random
import struct
import sys
import wave
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from random_model import Tensor, Weights

MAGIC = 0x67676D6C  # "ggml"
F16 = 1
TENSOR_KINDS = {"f32": 0, "f16": 1}

# Of whisper.cpp: all later tokens control the decoder.
TOKENS, WORDS = 51864, 50256
# Tokens after these have no weights either, so that the most probable one has a clear lead.
USED = 1024
FFT_BINS = 201
SAMPLE_RATE, WINDOW_SECONDS = 16000, 30


@dataclass(frozen=True)
class Shape:
    wide: int = 128
    heads: int = 2
    layers: int = 2
    audio_context: int = 1500
    text_context: int = 64
    mels: int = 80


def head(shape: Shape) -> bytes:
    return struct.pack("<12I", MAGIC, TOKENS, shape.audio_context, shape.wide, shape.heads,
                       shape.layers, shape.text_context, shape.wide, shape.heads, shape.layers,
                       shape.mels, F16)


def filters(mels: int) -> bytes:
    """Each is one of the bins."""
    values = [float(mel * FFT_BINS // mels == fft) for mel in range(mels) for fft in range(FFT_BINS)]
    return struct.pack(f"<2I{len(values)}f", mels, FFT_BINS, *values)


def vocabulary() -> bytes:
    """whisper.cpp looks up the first three."""
    names = [b" ", b" -", b" '", *(f" w{number}".encode() for number in range(3, WORDS))]
    return struct.pack("<I", len(names)) + b"".join(struct.pack("<I", len(name)) + name
                                                    for name in names)


class Layers:
    """Makes tensors whose names begin with the same words."""

    def __init__(self, weights: Weights, wide: int) -> None:
        self.weights, self.wide = weights, wide

    def vector(self, name: str, value: float, *shape: int) -> Tensor:
        shape = shape or (self.wide,)
        return Tensor(name, shape, "f32", [value] * math.prod(shape))

    def norm(self, name: str) -> Iterable[Tensor]:
        yield self.vector(name + ".weight", 1)
        yield self.vector(name + ".bias", 0)

    def linear(self, name: str, columns: int, rows: int, bias: bool = True) -> Iterable[Tensor]:
        yield self.weights.matrix(name + ".weight", columns, rows, columns ** -0.5)
        if bias:
            yield self.vector(name + ".bias", 0, rows)

    def attention(self, name: str) -> Iterable[Tensor]:
        yield from self.norm(f"{name}_ln")
        for part in ("query", "key", "value", "out"):
            yield from self.linear(f"{name}.{part}", self.wide, self.wide, part != "key")

    def block(self, name: str, *attentions: str) -> Iterable[Tensor]:
        for attention in attentions:
            yield from self.attention(f"{name}.{attention}")
        yield from self.norm(f"{name}.mlp_ln")
        yield from self.linear(f"{name}.mlp.0", self.wide, 4 * self.wide)
        yield from self.linear(f"{name}.mlp.2", 4 * self.wide, self.wide)

    def convolution(self, name: str, channels: int) -> Iterable[Tensor]:
        flat = self.weights.matrix(name + ".weight", 3 * channels, self.wide,
                                   (3 * channels) ** -0.5)
        yield Tensor(flat.name, (3, channels, self.wide), flat.kind, flat.values)
        yield self.vector(name + ".bias", 0, 1, self.wide)


def floats(tensor: Tensor) -> Tensor:
    return Tensor(tensor.name, tensor.shape, "f32", tensor.values)


def tensors(shape: Shape, weights: Weights) -> Iterable[Tensor]:
    layers, wide = Layers(weights, shape.wide), shape.wide
    yield floats(weights.matrix("encoder.positional_embedding", wide, shape.audio_context, 0.1))
    yield from layers.convolution("encoder.conv1", shape.mels)
    yield from layers.convolution("encoder.conv2", wide)
    for layer in range(shape.layers):
        yield from layers.block(f"encoder.blocks.{layer}", "attn")
    yield from layers.norm("encoder.ln_post")
    yield floats(weights.matrix("decoder.positional_embedding", wide, shape.text_context, 1))
    # Small, because the decoder adds that of the last word to what it computes.
    embedding = weights.matrix("decoder.token_embedding.weight", wide, USED, 0.1)
    yield Tensor(embedding.name, (wide, TOKENS), embedding.kind,
                 [*embedding.values, *[0.0] * (wide * (TOKENS - USED))])
    for layer in range(shape.layers):
        yield from layers.block(f"decoder.blocks.{layer}", "attn", "cross_attn")
    yield from layers.norm("decoder.ln")


def model(shape: Shape, seed: int) -> bytes:
    parts = [head(shape), filters(shape.mels), vocabulary()]
    for tensor in tensors(shape, Weights(seed, "f16")):
        name = tensor.name.encode()
        parts += [struct.pack(f"<{3 + len(tensor.shape)}I", len(tensor.shape), len(name),
                              TENSOR_KINDS[tensor.kind], *tensor.shape), name, tensor.data()]
    return b"".join(parts)


def write_sound(path: Path, windows: int) -> None:
    """Two tones and noise, which differ from window to window."""
    noise = random.Random(1)
    with wave.open(str(path), "wb") as sound:
        sound.setparams((1, 2, SAMPLE_RATE, 0, "NONE", ""))
        for window in range(windows):
            turn = 2 * math.pi / SAMPLE_RATE * 110 * (window + 2)
            samples = (int(9000 * math.sin(turn * at) + 6000 * math.sin(1.5 * turn * at) +
                           4000 * noise.random()) for at in range(WINDOW_SECONDS * SAMPLE_RATE))
            sound.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="random_whisper", description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, default=8, help="of 30 seconds each")
    parser.add_argument("model", type=Path)
    parser.add_argument("sound", type=Path)
    options = parser.parse_args(arguments)
    options.model.write_bytes(model(Shape(), seed=1))
    write_sound(options.sound, options.windows)


if __name__ == "__main__":
    main(sys.argv[1:])
