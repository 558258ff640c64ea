# SPDX-License-Identifier: GPL-2.0
"""The test ladder: what `scripts/check` and `scripts/campaign` run, when, and what came of it."""
