#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""images.py: compares images of an OpenCL GPU with NumPy, as conformance.py does: each order and type of channels
that the device has, in each kind of image, and what samplers read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl
from pyopencl import _cl

import conformance
from conformance import Gpu, Skipped, Wrong

_O, _T = cl.channel_order, cl.channel_type
# Which of R, G, B and A the channels of a texel are, in memory. Of RGB in one word: the first is the highest.
ORDERS = {"R": "R", "A": "A", "RG": "RG", "RA": "RA", "RGBA": "RGBA", "BGRA": "BGRA", "ARGB": "ARGB",
          "ABGR": "ABGR", "sRGBA": "RGBA", "INTENSITY": "I", "LUMINANCE": "L", "DEPTH": "D", "RGB": "RGB"}
# What a read has where the image has no channel; a border has the same.
OPAQUE = {"R", "RG", "RGB", "LUMINANCE"}


@dataclass(frozen=True)
class Type:
    kind: type
    function: str  # the letter of read_imageX and write_imageX
    scale: float = 0  # of normalized integers
    widths: tuple[int, ...] = ()  # of those in one word


TYPES = {
    "SNORM_INT8": Type(np.int8, "f", 127), "SNORM_INT16": Type(np.int16, "f", 32767),
    "UNORM_INT8": Type(np.uint8, "f", 255), "UNORM_INT16": Type(np.uint16, "f", 65535),
    "SIGNED_INT8": Type(np.int8, "i"), "SIGNED_INT16": Type(np.int16, "i"), "SIGNED_INT32": Type(np.int32, "i"),
    "UNSIGNED_INT8": Type(np.uint8, "ui"), "UNSIGNED_INT16": Type(np.uint16, "ui"),
    "UNSIGNED_INT32": Type(np.uint32, "ui"), "HALF_FLOAT": Type(np.float16, "f"), "FLOAT": Type(np.float32, "f"),
    "UNORM_SHORT_565": Type(np.uint16, "f", widths=(5, 6, 5)),
    "UNORM_SHORT_555": Type(np.uint16, "f", widths=(5, 5, 5)),
    "UNORM_INT_101010": Type(np.uint32, "f", widths=(10, 10, 10)),
}
READS = {"f": ("float", np.float32), "i": ("int", np.int32), "ui": ("uint", np.uint32)}


@dataclass(frozen=True)
class Kind:
    type: Any
    name: str
    shape: tuple[int, ...]  # as NumPy has it: the fastest is the last
    at: str  # the place of element (x, y, z)
    layers: bool = False
    samples: bool = True


_M = cl.mem_object_type
KINDS = {
    "1d": Kind(_M.IMAGE1D, "image1d_t", (300,), "x"),
    "2d": Kind(_M.IMAGE2D, "image2d_t", (19, 37), "(int2)(x, y)"),
    "3d": Kind(_M.IMAGE3D, "image3d_t", (5, 7, 13), "(int4)(x, y, z, 0)"),
    "1d_array": Kind(_M.IMAGE1D_ARRAY, "image1d_array_t", (6, 33), "(int2)(x, y)", layers=True),
    "2d_array": Kind(_M.IMAGE2D_ARRAY, "image2d_array_t", (4, 9, 21), "(int4)(x, y, z, 0)", layers=True),
    "1d_buffer": Kind(_M.IMAGE1D_BUFFER, "image1d_buffer_t", (300,), "x", samples=False),
}


def channels_of(order: str, type_: str) -> int:
    return 1 if TYPES[type_].widths else len(ORDERS[order])


def unpacked(raw: np.ndarray, order: str, type_: str) -> np.ndarray:
    """R, G, B and A of texels, as a read has them. raw has the channels in its last axis."""
    kind = TYPES[type_]
    out = np.zeros((*raw.shape[:-1], 4), READS[kind.function][1])
    if order in OPAQUE:
        out[..., 3] = 1
    if kind.widths:
        shift = sum(kind.widths)
        for i, width in enumerate(kind.widths):
            shift -= width
            out[..., i] = (raw[..., 0].astype(np.int64) >> shift & (1 << width) - 1) / ((1 << width) - 1)
        return out
    values = raw.astype(np.float64) / kind.scale if kind.scale else raw
    if kind.scale:
        values = np.maximum(values, -1)
    if order == "sRGBA":
        linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
        values = np.concatenate([linear[..., :3], values[..., 3:]], axis=-1)
    for i, name in enumerate(ORDERS[order]):
        for component in {"I": (0, 1, 2, 3), "L": (0, 1, 2), "D": (0,)}.get(name, ("RGBA".find(name),)):
            out[..., component] = values[..., i]
    return out


def packed(values: np.ndarray, order: str, type_: str) -> np.ndarray:
    """The channels of texels to which a store writes these."""
    kind = TYPES[type_]
    picked = values[..., ["RGBA".find({"I": "R", "L": "R", "D": "R"}.get(name, name)) for name in ORDERS[order]]]
    if kind.scale:
        low = 0 if np.issubdtype(kind.kind, np.unsignedinteger) else -1
        return np.rint(np.clip(picked.astype(np.float64), low, 1) * kind.scale).astype(kind.kind)
    if np.issubdtype(kind.kind, np.floating):
        return picked.astype(kind.kind)
    limits = np.iinfo(kind.kind)
    return np.clip(picked.astype(np.int64), limits.min, limits.max).astype(kind.kind)


def random_raw(gpu: Gpu, shape: tuple[int, ...], order: str, type_: str) -> np.ndarray:
    kind = TYPES[type_].kind
    whole = (*shape, channels_of(order, type_))
    if np.issubdtype(kind, np.floating):
        return gpu.random.uniform(-100, 100, whole).astype(kind)
    limits = np.iinfo(kind)
    return gpu.random.integers(limits.min, limits.max, whole, kind, endpoint=True)


class Image:
    def __init__(self, gpu: Gpu, kind: Kind, order: str, type_: str, raw: np.ndarray) -> None:
        self._queue, self._kind = gpu.queue, kind
        self._sizes = tuple(reversed(kind.shape))
        format_ = cl.ImageFormat(getattr(_O, order), getattr(_T, type_))
        flags = cl.mem_flags.READ_WRITE
        desc = cl.ImageDescriptor()
        # The third number is the number of layers, too.
        first = self._sizes[:len(self._sizes) - kind.layers]
        desc.image_type, desc.shape = kind.type, (*first, *(1,) * (2 - len(first)), kind.shape[0])[:3]
        desc.pitches, desc.num_mip_levels, desc.num_samples, desc.buffer = (0, 0), 0, 0, None
        if kind.samples:
            self.memory = cl.Image(gpu.context, flags, format_, desc=desc)
            self._copy(raw, to_gpu=True)
        else:
            desc.buffer = self._buffer = gpu.buffer(raw)
            self.memory = cl.Image(gpu.context, flags, format_, desc=desc)

    def _copy(self, raw: np.ndarray, to_gpu: bool) -> None:
        if not self._kind.samples:
            cl.enqueue_copy(self._queue, raw, self._buffer).wait()
            return
        region = (*self._sizes, 1, 1)[:3]
        # enqueue_copy() does not know arrays.
        copy = _cl._enqueue_write_image if to_gpu else _cl._enqueue_read_image
        copy(self._queue, self.memory, (0, 0, 0), region, raw).wait()

    def contents(self, like: np.ndarray) -> np.ndarray:
        raw = np.zeros_like(like)
        self._copy(raw, to_gpu=False)
        return raw


def source_of(kind: Kind) -> str:
    sizes = [*reversed(kind.shape), 1, 1][:3]
    source = "#pragma OPENCL EXTENSION cl_khr_3d_image_writes : enable\n"
    place = (f"const int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);"
             f"const size_t i = x + {sizes[0]} * (y + {sizes[1]} * z);")
    for letter, (vector, _) in READS.items():
        source += f"""
          kernel void get_{letter}(global {vector}4* out, read_only {kind.name} image) {{
            {place} out[i] = read_image{letter}(image, {kind.at}); }}
          kernel void put_{letter}(write_only {kind.name} image, global const {vector}4* from) {{
            {place} write_image{letter}(image, {kind.at}, from[i]); }}"""
    return source


def expect_close(found: np.ndarray, wanted: np.ndarray, what: str, error: float) -> None:
    bad = np.abs(found.astype(np.float64) - wanted.astype(np.float64)) > error * (1 + np.abs(wanted.astype(np.float64)))
    if bad.any():
        at = tuple(int(one) for one in np.argwhere(bad)[0])
        raise Wrong(f"{what}: {int(bad.sum())} of {bad.size} differ: {at} is {found[at]}, not {wanted[at]}")


def formats(gpu: Gpu, kind: Kind) -> list[tuple[str, str]]:
    order_names = {getattr(_O, name): name for name in ORDERS if hasattr(_O, name)}
    type_names = {getattr(_T, name): name for name in TYPES if hasattr(_T, name)}
    found = cl.get_supported_image_formats(gpu.context, cl.mem_flags.READ_ONLY, kind.type)
    return [(order_names[one.channel_order], type_names[one.channel_data_type]) for one in found
            if one.channel_order in order_names and one.channel_data_type in type_names]


def check_kind(gpu: Gpu, name: str) -> None:
    """Reads what the host has written, and gives the host what a kernel has written."""
    kind = KINDS[name]
    writable = {(one.channel_order, one.channel_data_type) for one in
                cl.get_supported_image_formats(gpu.context, cl.mem_flags.WRITE_ONLY, kind.type)}
    known = formats(gpu, kind)
    if len(known) < 20:
        raise Wrong(f"only {len(known)} formats: {known}")
    program = gpu.build(source_of(kind), "-cl-std=CL2.0")
    size = tuple(reversed(kind.shape))
    for order, type_ in known:
        if order == "DEPTH":
            continue  # kernels have images of depths of other types
        what = f"{order} {type_}"
        letter = TYPES[type_].function
        raw = random_raw(gpu, kind.shape, order, type_)
        image = Image(gpu, kind, order, type_, raw)
        if not np.array_equal(image.contents(raw), raw):
            raise Wrong(f"{what}: the host does not read what it has written")
        out = np.zeros((*kind.shape, 4), READS[letter][1])
        buffer = gpu.buffer(out)
        getattr(program, f"get_{letter}")(gpu.queue, size, None, buffer, image.memory)
        cl.enqueue_copy(gpu.queue, out, buffer).wait()
        exact = letter != "f"
        expect_close(out, unpacked(raw, order, type_), f"read of {what}", 0 if exact else 1e-6)
        if (getattr(_O, order), getattr(_T, type_)) not in writable or TYPES[type_].widths or order == "sRGBA":
            continue
        values = (gpu.random.integers(0, 1 << 32, out.shape, np.uint64).astype(np.uint32).view(out.dtype) if exact
                  else gpu.random.uniform(-1.5, 1.5, out.shape).astype(np.float32))
        getattr(program, f"put_{letter}")(gpu.queue, size, None, image.memory, gpu.buffer(values))
        wanted = packed(values, order, type_)
        # A number in the middle between two may become either.
        expect_close(image.contents(raw), wanted, f"write of {what}", 1 if TYPES[type_].scale else 0)


def axis_taps(clamp: str, linear: bool, at: np.ndarray, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The texels of one axis and their weights; at: in texels. -1: the border."""
    if clamp == "REPEAT":
        at = at - np.floor(at / size) * size
    if clamp == "MIRRORED_REPEAT":
        at = np.abs(at - 2 * size * np.rint(at / (2 * size)))
    first = np.floor(at - 0.5 if linear else at)
    weight = at - 0.5 - first if linear else np.zeros_like(at)
    taps = []
    for index, share in ((first, 1 - weight), (first + 1, weight)):
        if clamp == "REPEAT":
            index = index % size
        elif clamp == "CLAMP":
            index = np.where((index < 0) | (index >= size), -1, index)
        else:
            index = np.clip(index, 0, size - 1)
        taps.append((index.astype(int), share))
    return taps


ADDRESSES = {"CLAMP": cl.addressing_mode.CLAMP, "CLAMP_TO_EDGE": cl.addressing_mode.CLAMP_TO_EDGE,
             "REPEAT": cl.addressing_mode.REPEAT, "MIRRORED_REPEAT": cl.addressing_mode.MIRRORED_REPEAT}


def sampled(texels: np.ndarray, axes: int, clamp: str, linear: bool, at: np.ndarray, layer: np.ndarray) -> np.ndarray:
    sizes = list(reversed(texels.shape[:-1]))
    taps = [axis_taps(clamp, linear, at[i], sizes[i]) for i in range(axes)]
    out = np.zeros((at.shape[1], 4))
    for corner in range(1 << axes if linear else 1):
        picked = [taps[i][corner >> i & 1] for i in range(axes)]
        weight = np.prod([one[1] for one in picked], axis=0)
        inside = np.all([one[0] >= 0 for one in picked], axis=0)
        place = tuple(np.maximum(one[0], 0) for one in reversed(picked))
        if axes < len(sizes):
            place = (layer, *place)
        out += (weight * inside)[:, None] * texels[place]
    return out


def check_samplers(gpu: Gpu, name: str) -> None:
    kind, count = KINDS[name], 1024
    raw = random_raw(gpu, kind.shape, "RGBA", "UNORM_INT8")
    texels = unpacked(raw, "RGBA", "UNORM_INT8").astype(np.float64)
    image = Image(gpu, kind, "RGBA", "UNORM_INT8", raw)
    axes = len(kind.shape) - kind.layers
    part = {1: "x", 2: "xy", 3: "xyzw"}[axes + kind.layers]
    program = gpu.build(f"kernel void f(global float4* out, read_only {kind.name} image, sampler_t s, "
                        f"global const float4* at) {{ size_t i = get_global_id(0); "
                        f"out[i] = read_imagef(image, s, at[i].{part}); }}", "-cl-std=CL2.0")
    for clamp, address in ADDRESSES.items():
        for linear in (False, True):
            # Repetition is defined for normalized coordinates.
            for normalized in ((True,) if "REPEAT" in clamp else (True, False)):
                # Away from the middle between texels, where a rounding decides.
                at = np.stack([np.floor(gpu.random.uniform(-1.5, 2.5, count) * size)
                               + gpu.random.integers(1, 8, count) / 8 for size in tuple(reversed(kind.shape))[:axes]])
                layer = gpu.random.integers(0, kind.shape[0], count)
                words = np.zeros((count, 4), np.float32)
                for i in range(axes):
                    words[:, i] = at[i] / (kind.shape[-1 - i] if normalized else 1)
                if kind.layers:
                    words[:, axes] = layer
                sampler = cl.Sampler(gpu.context, normalized, address,
                                     cl.filter_mode.LINEAR if linear else cl.filter_mode.NEAREST)
                found = gpu.run(program.f, (count,), np.zeros((count, 4), np.float32), image.memory, sampler, words)
                # The weights have 8 bits.
                expect_close(found, sampled(texels, axes, clamp, linear, at, layer),
                             f"{clamp} linear {linear} normalized {normalized}", 3 / 256 if linear else 1e-6)


def check_copies(gpu: Gpu) -> None:
    """Between images and buffers, fills, and mappings."""
    kind, queue = KINDS["2d"], gpu.queue
    raw = random_raw(gpu, kind.shape, "RGBA", "UNSIGNED_INT8")
    one = Image(gpu, kind, "RGBA", "UNSIGNED_INT8", raw)
    two = Image(gpu, kind, "RGBA", "UNSIGNED_INT8", np.zeros_like(raw))
    cl.enqueue_copy(queue, two.memory, one.memory, src_origin=(3, 2, 0), dest_origin=(5, 1, 0), region=(20, 10, 1))
    cl.enqueue_fill_image(queue, two.memory, np.array([9, 8, 7, 6], np.uint32), (0, 12, 0), (37, 3, 1))
    wanted = np.zeros_like(raw)
    wanted[1:11, 5:25], wanted[12:15] = raw[2:12, 3:23], (9, 8, 7, 6)
    expect_close(two.contents(raw), wanted, "a copy and a fill", 0)
    buffer = gpu.buffer(np.zeros(20 * 10 * 4, np.uint8))
    cl.enqueue_copy(queue, buffer, one.memory, offset=0, origin=(3, 2, 0), region=(20, 10, 1))
    cl.enqueue_copy(queue, two.memory, buffer, offset=0, origin=(7, 9, 0), region=(20, 10, 1))
    wanted[9:19, 7:27] = raw[2:12, 3:23]
    expect_close(two.contents(raw), wanted, "a copy through a buffer", 0)
    array, event = cl.enqueue_map_image(queue, two.memory, cl.map_flags.READ | cl.map_flags.WRITE, (0, 0, 0),
                                        (37, 19, 1), (19, 37, 4), np.uint8)[:2]
    event.wait()
    expect_close(np.array(array), wanted, "a mapping", 0)
    array[:] = raw
    array.base.release(queue).wait()
    expect_close(two.contents(raw), raw, "a write to a mapping", 0)


def check_if_there(gpu: Gpu, check: Callable[[Gpu], None]) -> None:
    if not gpu.context.devices[0].image_support:
        raise Skipped("the GPU has no images")
    check(gpu)


def all_cases() -> dict[str, Callable[[Gpu], None]]:
    cases: dict[str, Callable[[Gpu], None]] = {
        f"Images.{name}": lambda gpu, name=name: check_kind(gpu, name) for name in KINDS}
    for name in KINDS:
        if KINDS[name].samples:
            cases[f"Samplers.{name}"] = lambda gpu, name=name: check_samplers(gpu, name)
    cases["Images.Copies"] = check_copies
    return {name: lambda gpu, check=check: check_if_there(gpu, check) for name, check in cases.items()}


if __name__ == "__main__":
    sys.exit(conformance.main(sys.argv[1:], all_cases()))
