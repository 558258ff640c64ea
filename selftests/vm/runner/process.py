# SPDX-License-Identifier: GPL-2.0
"""Child processes that never outlive the runner."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class Child:
    """A process in a group of its own, killed by the kernel when the runner dies.

    Its standard error and output go to a file, so that the last lines can be shown when it fails.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path,
                 pass_fds: Sequence[int] = (), env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        self._log_file = log.open("wb")
        try:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                stdin=subprocess.DEVNULL, stdout=self._log_file, stderr=subprocess.STDOUT,
                pass_fds=pass_fds, process_group=0, env={**os.environ, **(env or {})})
            self.pidfd = os.pidfd_open(self._process.pid)
        finally:
            self._log_file.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float) -> int | None:
        """The exit status (negative: signal), or None if it has not ended in time."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()

    def stop(self, patience: float) -> bool:
        """Ends the process with SIGTERM, then SIGKILL; false if it had to be killed."""
        self.terminate()
        if self.wait(patience) is not None:
            self._signal(signal.SIGKILL)  # processes that it has started
            return True
        self.kill()
        return False

    def close(self) -> None:
        self.kill()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass

    def how_it_ended(self) -> str:
        status = self._process.poll()
        if status is None:
            return "is still running"
        if status < 0:
            return f"died of {signal.Signals(-status).name}"
        return f"ended with status {status}"

    def last_lines(self, count: int = 15) -> str:
        return tail(self.log, count)


def tail(file: Path, count: int) -> str:
    """The last lines of a file, indented, for an error message."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return "  (nothing)"
    return "\n".join("  " + line for line in lines[-count:]) or "  (nothing)"
