# SPDX-License-Identifier: GPL-2.0
"""The interface between a workload in Python and its caller, as workload/control.h describes it."""

from __future__ import annotations

import signal


class Requests:
    """Signals, which a step is not interrupted by."""

    def __init__(self) -> None:
        self.verdict = self.end = False
        signal.signal(signal.SIGUSR1, self.take)
        signal.signal(signal.SIGTERM, self.take)

    def take(self, number: int, _frame: object) -> None:
        if number == signal.SIGUSR1:
            self.verdict = True
        else:
            self.end = True
