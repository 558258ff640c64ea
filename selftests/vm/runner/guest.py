# SPDX-License-Identifier: GPL-2.0
"""A running guest: boots it, runs commands in it, and notices when it or a GPU model dies."""

from __future__ import annotations

import base64
import selectors
import shlex
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from . import accel, lab, softgpu, terminal
from .deadline import Deadline
from .kernel_log import Watcher
from .machine import Channels, Hardware, Network, command_line
from .process import Child, tail

BOOT_SECONDS = 180
GPU_SECONDS = 30
HALT_SECONDS = 60
POLL_SECONDS = 1
# Modules that CRIU and the tests use. The guest logs those that it does not have.
MODULES = ("tun", "unix_diag", "inet_diag", "tcp_diag", "udp_diag", "raw_diag", "netlink_diag",
           "af_packet_diag", "veth", "overlay", "loop")


class GuestLost(lab.Failure):
    """The guest or a GPU model died or hung, so this guest can run nothing more."""


class SwitchedOff(GuestLost):
    """A command reset the guest, or powered it off."""


class TooSlow(GuestLost):
    """A time limit passed."""


class TimedOut(TooSlow):
    """The time limit of a command passed."""


@dataclass(frozen=True)
class Setup:
    """Everything that a guest needs besides its hardware."""

    name: str
    boot: lab.Boot
    build: Path
    payload: Path
    run: Path           # sockets and temporary files
    shared: Path        # files that the GPU models share
    log: Path
    scratch: Path | None = None
    kvm: str = "auto"
    trace: bool = False
    shell: bool = False
    quiet: bool = False
    patience: float = 1  # multiplies time limits
    network: Network | None = None


def encode(values: Mapping[str, str]) -> str:
    text = "\n".join(f"{name}={shlex.quote(value)}" for name, value in values.items())
    return base64.b64encode(text.encode()).decode()


def decode(text: str) -> str:
    return base64.b64decode(text).decode(errors="replace")


class Guest:
    """Use as a context manager; leaving it leaves no process behind."""

    def __init__(self, hardware: Hardware, setup: Setup) -> None:
        self.hardware = hardware
        self.setup = setup
        self.kernel = Watcher(self._model_faults)
        self.phases: list[tuple[str, float]] = []
        self.sink: Callable[[bytes], None] = lambda data: None
        self.kernel_log = setup.log / "dmesg.log"
        self._gpus: softgpu.SoftGpus | None = None
        self._qemu: Child | None = None
        self._sockets: dict[str, socket.socket] = {}
        self._partial = {"kernel": b"", "control": b""}
        self._replies: list[str] = []
        self._selector = selectors.DefaultSelector()
        self._kernel_file: BinaryIO | None = None
        self._start = time.monotonic()

    # --- life

    def __enter__(self) -> Guest:
        try:
            self._boot()
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()

    def _boot(self) -> None:
        setup, hardware = self.setup, self.hardware
        accelerator, why = accel.choose(setup.kvm, setup.boot.kernel, lab.cache_root())
        self._note(f"{accelerator} ({why}), {hardware.smp} CPUs, {hardware.memory_mib} MiB, "
                   f"{hardware.gpus} GPUs")
        self._start = time.monotonic()
        sockets = [Path(path) for path in hardware.sockets]
        for path in sockets:
            softgpu.check_external(path)
        if not sockets and hardware.gpus:
            self._gpus = softgpu.SoftGpus.start(hardware, setup.build, setup.run, setup.shared,
                                                setup.log, setup.trace)
            sockets = self._gpus.sockets
            if how := self.how_to_repeat():
                self._note(f"queues of the GPUs pause at random: {how}")
        self._kernel_file = self.kernel_log.open("wb")
        names = ["kernel", "control", "output"] + (["shell"] if setup.shell else [])
        theirs = {}
        for name in names:
            self._sockets[name], theirs[name] = socket.socketpair()
            self._sockets[name].setblocking(False)
            self._selector.register(self._sockets[name], selectors.EVENT_READ, name)
        channels = Channels({name: end.fileno() for name, end in theirs.items()})
        command = command_line(setup.name, hardware, setup.boot, accelerator, setup.payload, setup.scratch,
                               sockets, channels, setup.network)
        (setup.log / "qemu-command.txt").write_text(shlex.join(command) + "\n")
        self._qemu = Child("QEMU", command, setup.log / "qemu.log",
                           pass_fds=list(channels.fds.values()), env={"TMPDIR": str(setup.run)})
        for end in theirs.values():
            end.close()
        self._watch_children()
        limit = self._limit(BOOT_SECONDS)
        self._expect(("hello",), limit, "booting")
        self._note(f"kernel and init up after {self.elapsed():.1f} s")
        self._configure(limit)

    def _watch_children(self) -> None:
        assert self._qemu
        for child in [self._qemu] + (self._gpus.children if self._gpus else []):
            self._selector.register(child.pidfd, selectors.EVENT_READ, "process")

    def _configure(self, limit: Deadline) -> None:
        hardware = self.hardware
        address = self.setup.network.number if self.setup.network else 0
        self._send("config " + encode({
            "hostname": f"node{address}" if address else "guest", "gpus": str(hardware.gpus),
            "address": str(address),
            "gpu_seconds": str(round(GPU_SECONDS * self.setup.patience)),
            "module": hardware.module, "modules": " ".join(MODULES),
            "module_parameters": " ".join((*self.setup.boot.module_parameters, *hardware.module_parameters))}))
        verb, text = self._expect(("ready", "fail"), limit, "loading the driver")
        if verb == "fail":
            raise lab.Failure(f"the guest could not be set up: {decode(text)}\n{self.last_words()}")
        self._note(f"ready after {self.elapsed():.1f} s")

    def _kill(self) -> None:
        if self._qemu:
            self._qemu.close()
            self._qemu = None
        if self._gpus:
            self._gpus.close()
            self._gpus = None
        for end in self._sockets.values():
            end.close()
        self._sockets = {}
        self._selector.close()
        if self._kernel_file:
            self._kernel_file.close()
            self._kernel_file = None

    # --- operations on it

    def how_to_repeat(self) -> str:
        """The environment in which the GPU models make the same random choices again, or ""."""
        return f"{softgpu.DELAYS}={self._gpus.seed}" if self._gpus and self._gpus.seed else ""

    def _limit(self, seconds: float) -> Deadline:
        return Deadline(seconds * self.setup.patience)

    def elapsed(self) -> float:
        return time.monotonic() - self._start

    def run(self, number: int, command: str, limit: Deadline, environment: str = "",
            shell_size: tuple[int, int] | None = None) -> int:
        """Runs a shell command; its output goes to `sink`. Returns its status."""
        values = {"command": command, "environment": environment}
        values["interactive"] = "yes" if shell_size else "no"
        if shell_size:
            values["columns"], values["rows"] = map(str, shell_size)
        self._send(f"run {number} {encode(values)}")
        try:
            _, text = self._expect(("exit",), limit, f"running: {command}")
        except TooSlow as error:
            raise TimedOut(str(error)) from None
        done, status = text.split()
        if int(done) != number:
            raise GuestLost(f"the guest answered for command {done} instead of {number}")
        self._drain("output")
        self._wait_for_kernel_mark(number)
        return int(status)

    def interact(self, number: int, size: tuple[int, int]) -> int:
        """An interactive shell on our terminal. Returns its status."""
        self.sink = lambda data: terminal.write_all(sys.stdout.fileno(), data)
        self._selector.register(sys.stdin, selectors.EVENT_READ, "stdin")
        return self.run(number, "", Deadline(None), shell_size=size)

    def usage(self) -> dict[str, str]:
        self._send("usage")
        _, text = self._expect(("usage",), self._limit(60), "counting what is in use")
        return dict(line.partition(" ")[::2] for line in decode(text).splitlines())

    def unload(self) -> str:
        """Unloads the driver; returns "" or the reason of a failure."""
        self._send("unload")
        verb, text = self._expect(("unloaded", "fail"), self._limit(120), "rmmod amdgpu")
        return decode(text) if verb == "fail" else ""

    def _model_faults(self) -> list[str]:
        return self._gpus.new_faults() if self._gpus else []

    def halt(self) -> str:
        """Powers the guest off in order; returns "" or the reason of a failure."""
        assert self._qemu
        self._send("halt")
        self._expect(("halted",), self._limit(HALT_SECONDS), "powering off")
        if self._qemu.wait(HALT_SECONDS * self.setup.patience) is None:
            raise TooSlow(f"the guest did not power off in {HALT_SECONDS} s")
        self._drain("kernel")
        problem = ""
        if self._qemu.how_it_ended() != "ended with status 0":
            problem = f"QEMU {self._qemu.how_it_ended()}:\n{self._qemu.last_lines()}"
        self.kernel.collect()
        if self._gpus:
            problem = "\n".join(filter(None, [problem, self._gpus.stop()]))
        return problem

    def last_words(self, lines: int = 25) -> str:
        return f"the kernel's last lines ({self.kernel_log}):\n{tail(self.kernel_log, lines)}"

    # --- the loop

    def _send(self, line: str) -> None:
        end = self._sockets["control"]
        end.setblocking(True)
        end.settimeout(30)
        try:
            end.sendall(line.encode() + b"\n")
        except OSError as error:
            self._lost(f"sending '{line.split()[0]}': {error}")
        finally:
            end.setblocking(False)

    def _expect(self, verbs: tuple[str, ...], limit: Deadline, doing: str) -> tuple[str, str]:
        while True:
            while self._replies:
                verb, _, rest = self._replies.pop(0).partition(" ")
                if verb == "phase":
                    self._phase(rest)
                elif verb in verbs:
                    return verb, rest
                else:
                    raise GuestLost(f"while {doing}, the guest said: {verb} "
                                    f"{decode(rest) if verb == 'fail' else rest}")
            self._poll(limit, doing)

    def _phase(self, text: str) -> None:
        name, _, uptime = text.partition(" ")
        self.phases.append((name, self.elapsed()))
        self._note(f"{name} (guest uptime {uptime} s)")

    def _poll(self, limit: Deadline, doing: str) -> None:
        # Python calls the handler of a signal that arrives just before select() only when that returns.
        left = limit.left()
        events = self._selector.select(POLL_SECONDS if left is None else min(left, POLL_SECONDS))
        if not events and limit.passed():
            self._on_timeout(limit, doing)
        for key, _ in events:
            if key.data == "stdin":
                if not terminal.forward_input(self._sockets["shell"]):
                    self._selector.unregister(sys.stdin)
            elif key.data != "process":
                self._receive(key.data)
        if any(key.data == "process" for key, _ in events):
            self._child_died(doing)
        if self.kernel.panicked:
            time.sleep(0.3)  # the trace follows the message
            self._drain("kernel")
            self._lost(f"the kernel panicked while {doing}")

    def _receive(self, name: str) -> bool:
        try:
            data = self._sockets[name].recv(1 << 16)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            data = b""
        if not data:
            self._selector.unregister(self._sockets[name])
            self._sockets[name].setblocking(False)
            return False
        if name == "kernel":
            assert self._kernel_file
            self._kernel_file.write(data)
            self._kernel_file.flush()
        if name in self._partial:
            *lines, self._partial[name] = (self._partial[name] + data).split(b"\n")
            for line in lines:
                text = line.decode(errors="replace").rstrip("\r")
                self.kernel.line(text) if name == "kernel" else self._replies.append(text)
        else:
            self.sink(data)
        return True

    def _drain(self, name: str) -> None:
        """Reads what the socket holds: QEMU writes everything there before it reports an exit."""
        while self._sockets[name] in (k.fileobj for k in self._selector.get_map().values()):
            if not self._receive(name):
                return

    def _wait_for_kernel_mark(self, number: int) -> None:
        limit = self._limit(30)
        while number not in self.kernel.finished and not limit.passed():
            time.sleep(0.02)
            self._drain("kernel")

    # --- when things go wrong

    def _child_died(self, doing: str) -> None:
        time.sleep(0.2)  # a model and QEMU die together: report both
        for name in list(self._sockets):
            self._drain(name)
        assert self._qemu
        if "halted" in self._replies:
            for key in [k for k in self._selector.get_map().values() if k.data == "process"]:
                self._selector.unregister(key.fd)
            return
        complaint = self._gpus.complaint(self._qemu.alive()) if self._gpus else ""
        if complaint:
            self._lost(f"while {doing}: {complaint}")
        if self.kernel.panicked:
            self._lost(f"the kernel panicked while {doing}")
        ended = self._qemu.how_it_ended()
        if ended == "ended with status 0":
            self.kernel.collect()
            raise SwitchedOff(f"the guest was reset while {doing}\n{self.last_words()}")
        self._lost(f"while {doing}: QEMU {ended}; its last lines:\n{self._qemu.last_lines()}")

    def _on_timeout(self, limit: Deadline, doing: str) -> None:
        self._ask_for_blocked_tasks()
        raise TooSlow(f"time limit of {limit.seconds:.0f} s reached while {doing}\n"
                       f"{self.last_words(40)}")

    def _ask_for_blocked_tasks(self) -> None:
        """Magic SysRq on the kernel's console (^O, then the key): lists blocked tasks."""
        end = self._sockets.get("kernel")
        if not end:
            return
        for key in b"lw":
            try:
                end.send(bytes((0x0F, key)))
            except OSError:
                return
            time.sleep(1)
            self._drain("kernel")

    def _lost(self, text: str) -> None:
        raise GuestLost(f"{text}\n{self.last_words()}")

    def _note(self, text: str) -> None:
        if not self.setup.quiet:
            print(f"vm: {text}", file=sys.stderr, flush=True)
