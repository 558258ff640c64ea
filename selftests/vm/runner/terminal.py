# SPDX-License-Identifier: GPL-2.0
"""Connects our terminal with the guest's interactive console."""

from __future__ import annotations

import os
import socket
import sys
import termios
import tty
from types import TracebackType


def size() -> tuple[int, int]:
    """(columns, rows)"""
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        columns = rows = 0
    return columns or 80, rows or 24


class RawTerminal:
    """Standard input without echo and line editing: the guest's tty does both."""

    def __init__(self) -> None:
        self._saved: list | None = None

    def __enter__(self) -> RawTerminal:
        if sys.stdin.isatty():
            self._saved = termios.tcgetattr(sys.stdin)
            tty.setraw(sys.stdin)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._saved is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._saved)


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data):]


def forward_input(console: socket.socket) -> bool:
    """Moves what was typed to the guest; false at the end of input."""
    data = os.read(sys.stdin.fileno(), 4096)
    if data:
        console.setblocking(True)
        try:
            console.sendall(data)
        finally:
            console.setblocking(False)
    return bool(data)
