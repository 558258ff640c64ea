# SPDX-License-Identifier: GPL-2.0
"""The commands `scripts/check` and `scripts/campaign`."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence

from . import campaign_results, place
from .rungs import ALL, CAMPAIGNS, CHECK, UnknownRung, expand
from .runner import Runner


def _run(program: str, names: Sequence[str]) -> int:
    try:
        return Runner(expand(names)).run()
    except UnknownRung as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1


def check(arguments: Sequence[str]) -> int:
    return _run("check", arguments or list(CHECK))


def list_campaigns() -> str:
    lines = [f"{name:<8} {about}" for name, (_, about) in CAMPAIGNS.items()]
    return "\n".join(["make campaign ARGS='NAME...', of:", *lines])


def campaign(arguments: Sequence[str]) -> int:
    if not arguments:
        print(list_campaigns())
        return 0
    for name in arguments:
        if name not in CAMPAIGNS:
            print(f"campaign: no campaign {name}\n{list_campaigns()}", file=sys.stderr)
            return 1
    rungs = [rung for name in arguments for rung in CAMPAIGNS[name][0]]
    status = _run("campaign", rungs)
    if status in (0, 1):
        campaign_results.note(place.TOP, rungs, ALL, datetime.date.today().isoformat())
    return status
