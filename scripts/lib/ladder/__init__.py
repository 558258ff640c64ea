# SPDX-License-Identifier: GPL-2.0
"""The test ladder: what `scripts/check` and `scripts/campaign` run, in which order, and the results."""
