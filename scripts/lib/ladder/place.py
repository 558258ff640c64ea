# SPDX-License-Identifier: GPL-2.0
"""Where things are in the checkout."""

from __future__ import annotations

from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
LOGS = TOP / "build" / "log"
RESULTS = TOP / "build" / "results"
