# SPDX-License-Identifier: GPL-2.0
"""A rung that runs: its commands as processes of one group, their output and the time they take."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from .rungs import Command, Rung

STOP_SECONDS = 30
# A process that outlives the command may hold the output open. The job waits this long for the rest.
DRAIN_SECONDS = 5


class Job(threading.Thread):
    """Runs the commands of a rung; `done` is called at the end, in this thread."""

    def __init__(self, rung: Rung, directory: Path, log: Path, say: Callable[[str], None],
                 done: Callable[[Job], None]) -> None:
        super().__init__(name=rung.name)
        self.rung = rung
        self.succeeded = False
        self.wall = self.cpu = 0.0
        self._directory, self._log, self._say, self._done = directory, log, say, done
        self._lock = threading.Lock()
        self._group: int | None = None
        self._stopped = False

    def run(self) -> None:
        start = time.monotonic()
        try:
            with self._log.open("wb") as log:
                self.succeeded = all(self._run_command(one, log) for one in self.rung.commands)
        except OSError as error:
            self._say(f"{self.rung.name}: {error}")
        self.wall = time.monotonic() - start
        self._done(self)

    def _run_command(self, command: Command, log) -> bool:
        with self._lock:
            if self._stopped:
                return False
            process = subprocess.Popen(
                command, cwd=self._directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, process_group=0)
            self._group = process.pid
        pump = threading.Thread(target=self._pump, args=(process.stdout, log), daemon=True)
        pump.start()
        timer = threading.Timer(self.rung.limit, self._out_of_time) if self.rung.limit else None
        if timer:
            timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        with self._lock:
            self._group = None
        if timer:
            timer.cancel()
        self.cpu += usage.ru_utime + usage.ru_stime
        pump.join(DRAIN_SECONDS)
        return process.returncode == 0

    def _pump(self, output, log) -> None:
        with output:
            for line in output:
                log.write(line)
                log.flush()
                self._say(line.decode(errors="replace").rstrip("\r\n"))

    def _out_of_time(self) -> None:
        self._say(f"time limit of {self.rung.limit} s")
        self.signal(signal.SIGTERM)

    def signal(self, number: int) -> None:
        """Ends the running command, and starts no other."""
        with self._lock:
            self._stopped = True
            if self._group:
                try:
                    os.killpg(self._group, number)
                except ProcessLookupError:
                    pass

    def stop(self) -> None:
        self.signal(signal.SIGTERM)
        self.join(STOP_SECONDS)
        self.signal(signal.SIGKILL)
        self.join()
