# SPDX-License-Identifier: GPL-2.0
"""amdgpu-criu-selftest. It shares `runner` with selftests/vm and `control` with the scenarios."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Where they are installed, and where they are in a checkout.
for _place in (ROOT / "e2e", ROOT.parent / "vm", ROOT.parent / "e2e" / "scenarios"):
    if _place.is_dir():
        sys.path.append(str(_place))
