#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""train_rccl.py RANKS [STEPS]: data-parallel training by RANKS processes, a GPU each, whose gradients RCCL adds.
train_rccl.py --wait [STEPS]: the first of two processes, on different machines
train_rccl.py --join ADDRESS: the second of them, on the other machine

Each rank computes the gradients of its own samples. All ranks then have the sums, and the same weights. Rank 0
is the first process: it takes the signals of a workload, and sends each request to the others by sockets. A verdict
compares the weights of all ranks.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from ctypes import byref, c_float, c_size_t, c_uint, c_void_p
from pathlib import Path

from workload import Requests

COUNT, GROUP = 1 << 17, 256
LOSSES = COUNT // GROUP
RATE = 0.5
STEP, VERIFY, END = b"s", b"v", b"e"
GOOD, BAD = b"g", b"b"
PORT, JOIN_SECONDS = 7000, 600
LATE_SECONDS = 0.3  # of each other rank: the waves of rank 0 wait for it in the collective
FLOAT, SUM, MAX, MIN = 7, 0, 2, 3  # ncclDataType_t and ncclRedOp_t
TO_HOST = 2  # hipMemcpyKind
NODES = Path("/sys/class/kfd/kfd/topology/nodes")

KERNELS = rb"""
__device__ float random(unsigned x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return (float)((x ^ (x >> 16)) >> 8) * 0x1p-24f - 0.5f;
}

/* The sample of a weight: tanh is near x - x^3 / 3. */
extern "C" __global__ void gradient(const float* weights, float* sums, float* losses, unsigned seed) {
  __shared__ float part[256];
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  const float x = random(seed * 0x9e3779b9u + i), wanted = 2 * random(i) * x;
  const float y = weights[i] * x, off = y - y * y * y / 3 - wanted;
  sums[i] = 2 * off * (1 - y * y) * x;
  part[threadIdx.x] = off * off;
  for (unsigned half = 128; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (!threadIdx.x) losses[blockIdx.x] = part[0];
}

extern "C" __global__ void update(float* weights, const float* sums, float rate) {
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  weights[i] -= rate * sums[i];
}
"""


class Failure(Exception):
    """What a library has refused."""


def calls(library: str) -> Callable[..., None]:
    loaded = ctypes.CDLL(library)

    def call(name: str, *arguments: object) -> None:
        if status := getattr(loaded, name)(*arguments):
            raise Failure(f"{name}() returns {status}")

    return call


class UniqueId(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_ubyte * 128),)


def compiled() -> bytes:
    """The kernels' code object for the first GPU."""
    call = calls("libhiprtc.so.7")
    version = next(int(words[1]) for file in sorted(NODES.glob("*/properties"))
                   for words in (line.split() for line in file.read_text().splitlines())
                   if words[0] == "gfx_target_version" and words[1] != "0")
    chip = f"--offload-arch=gfx{version // 10000}{version // 100 % 100}{version % 100:x}".encode()
    program, size = c_void_p(), c_size_t()
    call("hiprtcCreateProgram", byref(program), KERNELS, b"train", 0, None, None)
    call("hiprtcCompileProgram", program, 1, (ctypes.c_char_p * 1)(chip))
    call("hiprtcGetCodeSize", program, byref(size))
    code = ctypes.create_string_buffer(size.value)
    call("hiprtcGetCode", program, code)
    return code.raw


class Rank:
    def __init__(self, rank: int, ranks: int, gpu: int, code: bytes, exchange: Callable[[bytes], bytes]) -> None:
        self.rank, self.ranks, self.step = rank, ranks, 0
        self.hip, self.nccl = calls("libamdhip64.so.7"), calls("librccl.so.1")
        self.hip("hipSetDevice", gpu)
        self.stream, module, self.comm = c_void_p(), c_void_p(), c_void_p()
        self.hip("hipStreamCreate", byref(self.stream))
        self.hip("hipModuleLoadData", byref(module), code)
        self.gradient, self.update = (self.function(module, name) for name in (b"gradient", b"update"))
        self.weights, self.sums, self.other = (self.memory(COUNT) for _ in range(3))
        self.losses = self.memory(LOSSES)
        self.hip("hipMemset", self.weights, 0, c_size_t(COUNT * 4))
        unique = UniqueId()
        if rank == 0:
            self.nccl("ncclGetUniqueId", byref(unique))
        unique = UniqueId.from_buffer_copy(exchange(bytes(unique)))
        self.nccl("ncclCommInitRank", byref(self.comm), ranks, unique, rank)

    def function(self, module: c_void_p, name: bytes) -> c_void_p:
        found = c_void_p()
        self.hip("hipModuleGetFunction", byref(found), module, name)
        return found

    def memory(self, count: int) -> c_void_p:
        made = c_void_p()
        self.hip("hipMalloc", byref(made), c_size_t(count * 4))
        return made

    def launch(self, function: c_void_p, *arguments: ctypes._SimpleCData) -> None:
        places = (c_void_p * len(arguments))(*(ctypes.addressof(one) for one in arguments))
        self.hip("hipModuleLaunchKernel", function, COUNT // GROUP, 1, 1, GROUP, 1, 1, 0, self.stream, places, None)

    def reduce(self, source: c_void_p, target: c_void_p, count: int, operation: int) -> None:
        self.nccl("ncclAllReduce", source, target, c_size_t(count), FLOAT, operation, self.comm, self.stream)

    def read(self, source: c_void_p, count: int) -> bytes:
        data = ctypes.create_string_buffer(count * 4)
        self.hip("hipStreamSynchronize", self.stream)
        self.hip("hipMemcpy", data, source, c_size_t(count * 4), TO_HOST)
        return data.raw

    def one_step(self) -> str:
        self.launch(self.gradient, self.weights, self.sums, self.losses, c_uint(self.step * self.ranks + self.rank))
        self.reduce(self.sums, self.sums, COUNT, SUM)
        self.reduce(self.losses, self.losses, LOSSES, SUM)
        self.launch(self.update, self.weights, self.sums, c_float(RATE / self.ranks))
        self.step += 1
        loss = sum(struct.unpack(f"<{LOSSES}f", self.read(self.losses, LOSSES)))
        return f"step {self.step} loss {loss.hex()}"

    def all_are_equal(self) -> bool:
        """Whether all ranks have the same weights."""
        mine = self.read(self.weights, COUNT)
        for operation in (MAX, MIN):
            self.reduce(self.weights, self.other, COUNT, operation)
            if self.read(self.other, COUNT) != mine:
                return False
        return True

    def digest(self) -> str:
        return hashlib.sha256(self.read(self.weights, COUNT)).hexdigest()[:16]


def say(line: str) -> None:
    print(line, flush=True)


def lead(ranks: int, steps: int, code: bytes, others: list[int]) -> int:
    """Rank 0. The others have these sockets."""
    def send(what: bytes) -> bytes:
        for other in others:
            os.write(other, what)
        return what

    requests = Requests()
    rank = Rank(0, ranks, 0, code, send)
    say(f"ready: {ranks} ranks, {COUNT} weights")
    while not requests.end and not (steps and rank.step == steps):
        verify, requests.verdict = requests.verdict, False
        send(VERIFY if verify else STEP)
        line = rank.one_step()
        good = not verify or rank.all_are_equal()
        say(line)
        if verify:
            say("verify ok" if good else "verify FAILED: ranks have other weights")
    send(END)
    equal = rank.all_are_equal()
    say(f"weights {rank.digest()}")
    good = all([os.read(other, 1) == GOOD for other in others]) and equal
    say("final ok" if good else "final FAILED")
    return 0 if good else 1


def follow(number: int, ranks: int, gpu: int, code: bytes, leader: int, greeting: str = "") -> int:
    """Another rank, whose requests come from that socket."""
    rank = Rank(number, ranks, gpu, code, lambda _: os.read(leader, len(bytes(UniqueId()))))
    if greeting:
        say(greeting)
    while (what := os.read(leader, 1)) in (STEP, VERIFY):
        time.sleep(LATE_SECONDS)
        rank.one_step()
        if what == VERIFY:
            rank.all_are_equal()
    equal = what == END and rank.all_are_equal()
    say(f"member {number} weights {rank.digest()}")
    os.write(leader, GOOD if equal else BAD)
    return 0 if equal else 1


def fork_followers(ranks: int, code: bytes) -> list[int]:
    others = []
    for number in range(1, ranks):
        mine, its = socket.socketpair()
        if not os.fork():
            for other in (*others, mine.detach()):
                os.close(other)
            os._exit(follow(number, ranks, number, code, its.detach()))
        its.close()
        others.append(mine.detach())
    return others


def wait_for_other() -> int:
    """The socket of a process that joins."""
    with socket.create_server(("", PORT)) as server:
        return server.accept()[0].detach()


def join(address: str) -> int:
    end = time.monotonic() + JOIN_SECONDS
    while True:
        try:
            return socket.create_connection((address, PORT)).detach()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(1)


def main(words: list[str]) -> int:
    code = compiled()
    if words[0] == "--join":
        return follow(1, 2, 0, code, join(words[1]), "ready: member 1")
    steps = int(words[1]) if words[1:] else 0
    if words[0] == "--wait":
        return lead(2, steps, code, [wait_for_other()])
    ranks = int(words[0])
    return lead(ranks, steps, code, fork_followers(ranks, code))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
