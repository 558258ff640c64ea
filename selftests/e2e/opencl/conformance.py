#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""conformance.py: compares an OpenCL GPU with NumPy, function by function.

It has the options and the output of GoogleTest that `library` uses: --gtest_list_tests, --gtest_filter=CASES and
--gtest_flagfile=FILE. Limits of errors, in ULP, are those of the OpenCL C specification, "Relative error as ULPs",
full profile. Wider types of the CPU are the reference: float64 for float, long double for double.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

COUNT = 4096
SEED = 7


@dataclass(frozen=True)
class Math:
    ulp: float
    reference: Callable[..., Any]
    low: float = -30.0
    high: float = 30.0
    arguments: int = 1
    double: bool = True  # NumPy has it for long double


def by_element(function: Callable[..., float]) -> Callable[..., Any]:
    return np.vectorize(function, otypes=[np.float64])


MATH = {
    "acos": Math(4, np.arccos, -1, 1), "acosh": Math(4, np.arccosh, 1, 1e6), "asin": Math(4, np.arcsin, -1, 1),
    "asinh": Math(4, np.arcsinh, -1e6, 1e6), "atan": Math(5, np.arctan), "atanh": Math(5, np.arctanh, -1, 1),
    "cbrt": Math(2, np.cbrt, -1e9, 1e9), "ceil": Math(0, np.ceil), "cos": Math(4, np.cos),
    "cosh": Math(4, np.cosh), "erf": Math(16, by_element(math.erf), -4, 4, double=False),
    "erfc": Math(16, by_element(math.erfc), -4, 4, double=False), "exp": Math(3, np.exp, -80, 80),
    "exp2": Math(3, np.exp2, -120, 120), "expm1": Math(3, np.expm1), "fabs": Math(0, np.fabs),
    "floor": Math(0, np.floor), "log": Math(3, np.log, 0, 1e6), "log10": Math(3, np.log10, 0, 1e6),
    "log1p": Math(2, np.log1p, -1, 1e6), "log2": Math(3, np.log2, 0, 1e6), "rint": Math(0, np.rint),
    "rsqrt": Math(2, lambda x: 1 / np.sqrt(x), 0, 1e9), "sin": Math(4, np.sin), "sinh": Math(4, np.sinh),
    "sqrt": Math(3, np.sqrt, 0, 1e9), "tan": Math(5, np.tan), "tanh": Math(5, np.tanh),
    "tgamma": Math(16, by_element(math.gamma), 0.01, 30, double=False), "trunc": Math(0, np.trunc),
    "atan2": Math(6, np.arctan2, arguments=2), "copysign": Math(0, np.copysign, arguments=2),
    "fdim": Math(0, lambda x, y: np.where(x > y, x - y, 0), arguments=2), "fmax": Math(0, np.fmax, arguments=2),
    "fmin": Math(0, np.fmin, arguments=2), "fmod": Math(0, np.fmod, arguments=2),
    "hypot": Math(4, np.hypot, arguments=2), "pow": Math(16, np.power, 0, 20, arguments=2),
    "fma": Math(0, lambda x, y, z: x * y + z, arguments=3, double=False),
}
INTEGERS = {"char": np.int8, "uchar": np.uint8, "short": np.int16, "ushort": np.uint16, "int": np.int32,
            "uint": np.uint32, "long": np.int64, "ulong": np.uint64}
FLOATS = {"float": (np.float32, np.float64), "double": (np.float64, np.longdouble)}


class Wrong(Exception):
    """What the GPU has computed differs; the message says where."""


class Skipped(Exception):
    """The GPU does not have what is compared; the message says what."""


class Gpu:
    def __init__(self) -> None:
        (device,) = cl.get_platforms()[0].get_devices()[:1]
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context)
        self.random = np.random.default_rng(SEED)

    def build(self, source: str, *options: str) -> Any:
        return cl.Program(self.context, source).build(list(options))

    def buffer(self, data: np.ndarray) -> Any:
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self.context, flags, hostbuf=data)

    def run(self, kernel: Any, size: tuple[int, ...], result: np.ndarray, *arguments: Any,
            group: tuple[int, ...] | None = None, offset: tuple[int, ...] | None = None) -> np.ndarray:
        """Calls the kernel with a buffer for the result and one for each array; returns the result."""
        out = self.buffer(result)
        words = [self.buffer(one) if isinstance(one, np.ndarray) else one for one in arguments]
        kernel(self.queue, size, group, out, *words, global_offset=offset)
        cl.enqueue_copy(self.queue, result, out).wait()
        return result


def expect_same(found: np.ndarray, wanted: np.ndarray, *inputs: np.ndarray) -> None:
    bad = np.flatnonzero(found != wanted)
    if bad.size:
        at = bad[0]
        raise Wrong(f"{bad.size} of {found.size} differ: {[one[at] for one in inputs]} gives {found[at]}, "
                    f"not {wanted[at]}")


def check_math(gpu: Gpu, name: str, kind: str) -> None:
    function, (narrow, wide) = MATH[name], FLOATS[kind]
    inputs = [gpu.random.uniform(function.low, function.high, COUNT).astype(narrow)
              for _ in range(function.arguments)]
    words = [f"x{number}" for number in range(function.arguments)]
    source = (f"kernel void f(global {kind}* out, {', '.join(f'global const {kind}* {one}' for one in words)}) {{"
              f" size_t i = get_global_id(0); out[i] = {name}({', '.join(f'{one}[i]' for one in words)}); }}")
    found = gpu.run(gpu.build(source).f, (COUNT,), np.zeros(COUNT, narrow), *inputs)
    with np.errstate(all="ignore"):
        wanted = np.asarray(function.reference(*(one.astype(wide) for one in inputs)), wide)
        errors = np.abs(found.astype(wide) - wanted) / np.spacing(np.abs(wanted.astype(narrow))).astype(wide)
    # Where the nearest result is infinite, so is the GPU's.
    errors[np.isinf(wanted.astype(narrow)) & (found == wanted.astype(narrow))] = 0
    limit = max(function.ulp, 0.5 + 1e-6)  # the reference may be rounded, too
    worst = int(np.nanargmax(np.where(np.isnan(errors), np.inf, errors)))
    if not errors[worst] <= limit:
        raise Wrong(f"{name}({', '.join(str(one[worst]) for one in inputs)}) is {found[worst]}: "
                    f"{errors[worst]:.1f} ULP, more than {limit}")


# Each operation on exact integers a, b, c; the result is cut to the type, or clamped by "sat".
OPERATIONS: dict[str, tuple[int, Callable[[int, int, int, int], int]]] = {
    "add_sat": (2, lambda a, b, _, bits: a + b), "sub_sat": (2, lambda a, b, _, bits: a - b),
    "hadd": (2, lambda a, b, _, bits: (a + b) >> 1), "rhadd": (2, lambda a, b, _, bits: (a + b + 1) >> 1),
    "mul_hi": (2, lambda a, b, _, bits: (a * b) >> bits), "mad_hi": (3, lambda a, b, c, bits: ((a * b) >> bits) + c),
    "mad_sat": (3, lambda a, b, c, bits: a * b + c), "abs": (1, lambda a, b, _, bits: abs(a)),
    "abs_diff": (2, lambda a, b, _, bits: abs(a - b)), "max": (2, lambda a, b, _, bits: max(a, b)),
    "popcount": (1, lambda a, b, _, bits: (a & ((1 << bits) - 1)).bit_count()),
    "clz": (1, lambda a, b, _, bits: bits - (a & ((1 << bits) - 1)).bit_length()),
    "rotate": (2, lambda a, b, _, bits: ((a & ((1 << bits) - 1)) << (b % bits))
               | ((a & ((1 << bits) - 1)) >> (bits - b % bits))),
}


def check_integer(gpu: Gpu, kind: str) -> None:
    narrow = INTEGERS[kind]
    bits, limits = narrow().itemsize * 8, np.iinfo(narrow)
    inputs = [gpu.random.integers(limits.min, limits.max, COUNT, narrow, endpoint=True) for _ in range(3)]
    for one in inputs:
        one[:4] = limits.min, limits.max, 0, 1
    numbers = [[int(value) for value in one] for one in inputs]
    calls = "".join(
        f"out[i + {row * COUNT}] = as_{kind}(({kind}){name}({', '.join('a[i] b[i] c[i]'.split()[:count])}));"
        for row, (name, (count, _)) in enumerate(OPERATIONS.items()))
    program = gpu.build(f"kernel void f(global {kind}* out, global const {kind}* a, global const {kind}* b, "
                        f"global const {kind}* c) {{ size_t i = get_global_id(0); {calls} }}")
    found = gpu.run(program.f, (COUNT,), np.zeros(len(OPERATIONS) * COUNT, narrow), *inputs)
    for row, (name, (_, operation)) in enumerate(OPERATIONS.items()):
        exact = [operation(a, b, c, bits) for a, b, c in zip(*numbers, strict=True)]
        if name.endswith("_sat"):
            exact = [min(max(one, limits.min), limits.max) for one in exact]
        wanted = np.array([one & ((1 << bits) - 1) for one in exact], np.uint64).astype(f"u{bits // 8}").view(narrow)
        try:
            expect_same(found[row * COUNT:(row + 1) * COUNT], wanted, *inputs)
        except Wrong as wrong:
            raise Wrong(f"{name}: {wrong}") from None


def check_conversion(gpu: Gpu, source: str, kind: str) -> None:
    """convert_KIND_sat() to each integer, rounded to even."""
    narrow, limits = INTEGERS[kind], np.iinfo(INTEGERS[kind])
    values = (gpu.random.standard_normal(COUNT) * 2.0 ** gpu.random.integers(-2, 70, COUNT)).astype(
        FLOATS[source][0])
    program = gpu.build(f"kernel void f(global {kind}* out, global const {source}* x) {{"
                        f" size_t i = get_global_id(0); out[i] = convert_{kind}_sat_rte(x[i]); }}")
    found = gpu.run(program.f, (COUNT,), np.zeros(COUNT, narrow), values)
    wanted = np.array([min(max(round(float(one)), limits.min), limits.max) for one in values], dtype=narrow)
    expect_same(found, wanted, values)


def check_barrier(gpu: Gpu) -> None:
    """Sums of work-groups in local memory, in three dimensions with an offset."""
    program = gpu.build("""kernel void f(global uint* out, global const uint* x, local uint* sums) {
      size_t at = get_local_id(0) + get_local_size(0) * (get_local_id(1) + get_local_size(1) * get_local_id(2));
      size_t i = get_global_id(0) - get_global_offset(0) + get_global_size(0) * (get_global_id(1)
        - get_global_offset(1) + get_global_size(1) * (get_global_id(2) - get_global_offset(2)));
      sums[at] = x[i];
      for (uint step = 128; step; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (at < step) sums[at] += sums[at + step];
      }
      if (!at) out[get_group_id(0) + 4 * (get_group_id(1) + 4 * get_group_id(2))] = sums[0]; }""")
    values = gpu.random.integers(0, 1 << 20, 4 * 4 * 4 * 256, np.uint32)
    found = gpu.run(program.f, (32, 32, 16), np.zeros(64, np.uint32), values, cl.LocalMemory(1024),
                    group=(8, 8, 4), offset=(5, 3, 1))
    cube = values.reshape(4, 4, 4, 8, 4, 8)
    expect_same(found, cube.sum(axis=(1, 3, 5), dtype=np.uint32).reshape(-1))


def check_group_functions(gpu: Gpu) -> None:
    program = gpu.build("""kernel void f(global uint* out, global const uint* x) {
      size_t i = get_global_id(0);
      out[i] = work_group_scan_inclusive_add(x[i]) + work_group_reduce_max(x[i])
        + work_group_broadcast(x[i], 17) + work_group_any(x[i] == 5); }""", "-cl-std=CL2.0")
    values = gpu.random.integers(0, 1 << 20, COUNT, np.uint32)
    found = gpu.run(program.f, (COUNT,), np.zeros(COUNT, np.uint32), values, group=(256,))
    rows = values.reshape(-1, 256)
    wanted = (np.cumsum(rows, axis=1, dtype=np.uint32) + rows.max(axis=1, keepdims=True) + rows[:, 17:18]
              + (rows == 5).any(axis=1, keepdims=True))
    expect_same(found, wanted.reshape(-1).astype(np.uint32))


def check_atomics(gpu: Gpu, kind: str) -> None:
    narrow = INTEGERS[kind]
    program = gpu.build(f"""
      #pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
      #pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
      kernel void f(global {kind}* out, global const {kind}* x) {{
        size_t i = get_global_id(0);
        global volatile atomic_{kind}* to = (global volatile atomic_{kind}*)out;
        atomic_fetch_add_explicit(to, x[i], memory_order_relaxed, memory_scope_device);
        atomic_fetch_max_explicit(to + 1, x[i], memory_order_relaxed, memory_scope_device);
        atomic_fetch_min_explicit(to + 2, x[i], memory_order_relaxed, memory_scope_device);
        atomic_fetch_xor_explicit(to + 3, x[i], memory_order_relaxed, memory_scope_device);
        atomic_fetch_or_explicit(to + 4, x[i], memory_order_relaxed, memory_scope_device); }}""", "-cl-std=CL2.0")
    values = gpu.random.integers(0, np.iinfo(narrow).max, COUNT, narrow)
    found = gpu.run(program.f, (COUNT,), np.array([0, 0, np.iinfo(narrow).max, 0, 0], narrow), values)
    expect_same(found, np.array([values.sum(dtype=narrow), values.max(), values.min(), np.bitwise_xor.reduce(values),
                                 np.bitwise_or.reduce(values)], narrow))


def check_copies(gpu: Gpu) -> None:
    """Rectangles, sub-buffers, fills and mappings."""
    queue, values = gpu.queue, gpu.random.integers(0, 1 << 30, COUNT, np.uint32)
    source, target = gpu.buffer(values), gpu.buffer(np.zeros(COUNT, np.uint32))
    cl.enqueue_copy(queue, target, source, src_origin=(16, 2), dst_origin=(32, 1), region=(64, 8),
                    src_pitches=(256,), dst_pitches=(128,))
    cl.enqueue_fill_buffer(queue, target, np.uint32(0xabcd), 8192, 4096)
    part = target.get_sub_region(12288, 1024)
    cl.enqueue_copy(queue, part, source, byte_count=1024)
    array, event = cl.enqueue_map_buffer(queue, target, cl.map_flags.READ | cl.map_flags.WRITE, 0, COUNT, np.uint32)
    event.wait()
    wanted = np.zeros(COUNT, np.uint32)
    wanted.reshape(-1, 32)[1:9, 8:24] = values.reshape(-1, 64)[2:10, 4:20]
    wanted[2048:3072], wanted[3072:3328] = 0xabcd, values[:256]
    expect_same(array, wanted)
    array[:] += 1
    array.base.release(queue)
    back = np.zeros(COUNT, np.uint32)
    cl.enqueue_copy(queue, back, target).wait()
    expect_same(back, wanted + 1)


def check_events(gpu: Gpu) -> None:
    """A chain through a queue without order, which begins when the program says so; times are in order."""
    flags = cl.command_queue_properties
    queue = cl.CommandQueue(gpu.context, properties=flags.OUT_OF_ORDER_EXEC_MODE_ENABLE | flags.PROFILING_ENABLE)
    program = gpu.build("kernel void f(global uint* x, uint by) { size_t i = get_global_id(0); x[i] = x[i] * 3 + by; }")
    values = gpu.random.integers(0, 1 << 20, COUNT, np.uint32)
    data, begin = gpu.buffer(values), cl.UserEvent(gpu.context)
    events, wanted = [begin], values.copy()
    for by in range(20):
        events.append(program.f(queue, (COUNT,), None, data, np.uint32(by), wait_for=events[-1:]))
        wanted = wanted * np.uint32(3) + np.uint32(by)
    time.sleep(0.1)
    if events[-1].command_execution_status == cl.command_execution_status.COMPLETE:
        raise Wrong("a kernel has not waited for the event")
    begin.set_status(cl.command_execution_status.COMPLETE)
    found = np.zeros(COUNT, np.uint32)
    cl.enqueue_copy(queue, found, data, wait_for=events[-1:]).wait()
    expect_same(found, wanted)
    times = [time for one in events[1:] for time in (one.profile.start, one.profile.end)]
    if times != sorted(times):
        raise Wrong(f"the kernels' times are not in order: {times}")


def check_binary(gpu: Gpu) -> None:
    built = gpu.build("kernel void f(global uint* x) { x[get_global_id(0)] *= 5; }")
    again = cl.Program(gpu.context, gpu.context.devices, built.get_info(cl.program_info.BINARIES)).build()
    values = np.arange(COUNT, dtype=np.uint32)
    expect_same(gpu.run(again.f, (COUNT,), values.copy()), values * 5)


def check_svm(gpu: Gpu) -> None:
    array = cl.csvm_empty(gpu.context, COUNT, np.uint32)
    with cl.SVM(array).map_rw(gpu.queue) as mapped:
        mapped[:] = np.arange(COUNT, dtype=np.uint32)
    program = gpu.build("kernel void f(global uint* x) { x[get_global_id(0)] += 7; }")
    program.f(gpu.queue, (COUNT,), None, cl.SVM(array))
    with cl.SVM(array).map_ro(gpu.queue) as mapped:
        expect_same(np.array(mapped), np.arange(7, COUNT + 7, dtype=np.uint32))


def check_loop(gpu: Gpu) -> None:
    """Two hundred kernels that depend on each other, for a dump in the middle."""
    program = gpu.build("""kernel void f(global uint* x) {
      local uint row[256]; size_t i = get_local_id(0); uint value = x[get_global_id(0)];
      for (uint round = 0; round < 100; ++round) {
        row[i] = value; barrier(CLK_LOCAL_MEM_FENCE);
        value = row[(i + 1) % 256] * 1664525u + 1013904223u + round; barrier(CLK_LOCAL_MEM_FENCE);
      }
      x[get_global_id(0)] = value; }""")
    values = gpu.random.integers(0, 1 << 30, COUNT, np.uint32)
    data, wanted = gpu.buffer(values), values.reshape(-1, 256).copy()
    for _ in range(200):
        program.f(gpu.queue, (COUNT,), (256,), data)
        for turn in range(100):
            wanted = np.roll(wanted, -1, axis=1) * np.uint32(1664525) + np.uint32(1013904223 + turn)
        gpu.queue.finish()
    found = np.zeros(COUNT, np.uint32)
    cl.enqueue_copy(gpu.queue, found, data).wait()
    expect_same(found, wanted.reshape(-1))


def all_cases() -> dict[str, Callable[[Gpu], None]]:
    cases: dict[str, Callable[[Gpu], None]] = {}
    for kind in FLOATS:
        for name, function in MATH.items():
            if kind == "float" or function.double:
                cases[f"Math.{name}/{kind}"] = lambda gpu, name=name, kind=kind: check_math(gpu, name, kind)
        for to in INTEGERS:
            cases[f"Convert.{kind}/{to}"] = lambda gpu, kind=kind, to=to: check_conversion(gpu, kind, to)
    for kind in INTEGERS:
        cases[f"Integer.{kind}"] = lambda gpu, kind=kind: check_integer(gpu, kind)
    for kind in ("int", "uint", "long", "ulong"):
        cases[f"Atomic.{kind}"] = lambda gpu, kind=kind: check_atomics(gpu, kind)
    cases |= {"Groups.Barrier": check_barrier, "Groups.Functions": check_group_functions, "Runtime.Copies": check_copies,
              "Runtime.Events": check_events, "Runtime.Binary": check_binary, "Runtime.Svm": check_svm,
              "Loop.Loop": check_loop}
    return cases


def chosen(options: dict[str, str], cases: list[str]) -> list[str]:
    if "flagfile" in options:
        options |= dict(line.removeprefix("--gtest_").split("=", 1)
                        for line in Path(options["flagfile"]).read_text().splitlines())
    patterns = options.get("filter", "*").split(":")
    return [case for case in cases if any(fnmatchcase(case, one) for one in patterns)]


def main(words: list[str], cases: dict[str, Callable[[Gpu], None]]) -> int:
    options = dict((*word.removeprefix("--gtest_").split("=", 1), "")[:2] for word in words)
    if "list_tests" in options:
        for suite in dict.fromkeys(case.split(".")[0] for case in cases):
            print(f"{suite}.", *(f"  {case.split('.')[1]}" for case in cases if case.startswith(f"{suite}.")), sep="\n")
        return 0
    gpu, passed, wanted = Gpu(), 0, chosen(options, list(cases))
    for case in wanted:
        print(f"[ RUN      ] {case}", flush=True)
        try:
            cases[case](gpu)
        except (Wrong, cl.Error) as error:
            print(f"conformance.py: Failure\n{error}\n[  FAILED  ] {case}", flush=True)
        except Skipped as reason:
            passed += 1
            print(f"{reason}\n[  SKIPPED ] {case}", flush=True)
        else:
            passed += 1
            print(f"[       OK ] {case}", flush=True)
    print(f"[  PASSED  ] {passed} test{'s' * (passed != 1)}.", flush=True)
    return 0 if passed == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], all_cases()))
