#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""infer MODEL.onnx COMPILED [--compile]: a workload that runs a model by MIGraphX again and again on the first GPU.

With --compile, it writes the compiled model to the file COMPILED, which it reads otherwise, and ends. At the beginning, it compares the
output for each of its inputs with that of MIGraphX's reference target, which the CPU computes. After each
step, all bits of the output must be those of the first output for the same input.
"""

from __future__ import annotations

import ctypes
import hashlib
import random
import struct
import sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p

from workload import Requests

INPUTS = 4
TOLERANCE = 1e-4  # of the largest value
WORDS = 256
INT64 = 11  # migraphx_shape_datatype_t

library = ctypes.CDLL("libmigraphx_c.so.3")


class Failure(Exception):
    pass


def call(name: str, *arguments: object) -> None:
    if status := getattr(library, f"migraphx_{name}")(*arguments):
        raise Failure(f"migraphx_{name}() returns {status}")


def made(name: str, *arguments: object) -> c_void_p:
    result = c_void_p()
    call(name, byref(result), *arguments)
    return result


class Program:
    def __init__(self, handle: c_void_p) -> None:
        self.handle = handle
        shapes = made("program_get_parameter_shapes", handle)
        names = (c_char_p * 1)()
        call("program_parameter_shapes_names", names, shapes)
        self.name = names[0]
        self.shape = made("program_parameter_shapes_get", shapes, self.name)

    @classmethod
    def compiled(cls, path: str, target: str) -> Program:
        handle = made("parse_onnx", path.encode(), made("onnx_options_create"))
        options = made("compile_options_create")
        call("compile_options_set_offload_copy", options, ctypes.c_bool(True))
        call("program_compile", handle, made("target_create", target.encode()), options)
        return cls(handle)

    @classmethod
    def loaded(cls, path: str) -> Program:
        return cls(made("load", path.encode(), made("file_options_create")))

    def save(self, path: str) -> None:
        call("save", self.handle, path.encode(), made("file_options_create"))

    def input(self, seed: int) -> bytes:
        count, kind = c_size_t(), c_int()
        call("shape_elements", byref(count), self.shape)
        call("shape_type", byref(kind), self.shape)
        values = random.Random(seed)
        if kind.value == INT64:
            return struct.pack(f"<{count.value}q", *(values.randrange(WORDS) for _ in range(count.value)))
        return struct.pack(f"<{count.value}f", *(values.uniform(-1, 1) for _ in range(count.value)))

    def run(self, data: bytes) -> bytes:
        parameters = made("program_parameters_create")
        buffer = ctypes.create_string_buffer(data, len(data))
        argument = made("argument_create", self.shape, buffer)
        call("program_parameters_add", parameters, self.name, argument)
        results = made("program_run", self.handle, parameters)
        result = made("arguments_get", results, c_size_t(0))
        size, address = c_size_t(), made("argument_buffer", result)
        call("shape_bytes", byref(size), made("argument_shape", result))
        output = ctypes.string_at(address, size.value)
        call("arguments_destroy", results)
        call("argument_destroy", argument)
        call("program_parameters_destroy", parameters)
        return output


def floats(data: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(data) // 4}f", data)


def error_of(output: bytes, reference: bytes) -> float:
    """The largest difference, in parts of the largest value. Not a number counts as infinite."""
    pairs = list(zip(floats(output), floats(reference), strict=True))
    if not all(abs(one) < float("inf") for one, _ in pairs):
        return float("inf")
    return max(abs(one - other) for one, other in pairs) / max(abs(other) for _, other in pairs)


def main() -> int:
    if sys.argv[3:] == ["--compile"]:
        Program.compiled(sys.argv[1], "gpu").save(sys.argv[2])
        return 0
    requests = Requests()
    reference, program = Program.compiled(sys.argv[1], "ref"), Program.loaded(sys.argv[2])
    inputs = [reference.input(seed) for seed in range(INPUTS)]
    outputs = [program.run(one) for one in inputs]
    error = max(error_of(output, reference.run(one)) for output, one in zip(outputs, inputs, strict=True))
    if len(set(outputs)) != INPUTS or error > TOLERANCE:
        print(f"reference FAILED: the largest error is {error:.1e}", flush=True)
        return 1
    print(f"ready: {len(outputs[0])} bytes of output, the largest error {error:.1e}", flush=True)
    step, wrong = 0, 0
    while not requests.end:
        output = program.run(inputs[step % INPUTS])
        if output != outputs[step % INPUTS]:
            wrong += 1
            print(f"damage in step {step + 1}: error {error_of(output, outputs[step % INPUTS]):.1e}", flush=True)
        step += 1
        print(f"step {step} {hashlib.sha256(output).hexdigest()[:16]}", flush=True)
        if requests.verdict:
            requests.verdict = False
            print(f"verify {'FAILED' if wrong else 'ok'}: {wrong} of {step} outputs were wrong", flush=True)
    print("final FAILED" if wrong else "final ok", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
