# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of the network guard: come back over a new connection and say so, or learn what became of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

PROGRAM = "/usr/bin/python3 /usr/local/lib/nearmetal/fabric.pyz"
TOO_LATE = 3
"""Exit status of `confirm` where the guard is no longer there to confirm."""
AFTER_S = 180.0
"""How long a host may take to restore its network after the deadline before it is given up."""
PAUSES = (0.5, 1.0, 2.0, 3.0)
"""Seconds between tries; the last one stays."""
TOKEN = re.compile(r"[0-9a-f]{16,64}\Z")


class Answer(NamedTuple):
    """What a command said over a new connection."""

    rc: int
    words: str


def command(token: str) -> str:
    """The words that confirm. Raises ValueError for what is no token: it goes through a shell."""
    if not TOKEN.match(token):
        raise ValueError(f"{token!r} is no token of the guard")
    return f"{PROGRAM} confirm {token}"


def confirm(
    seconds: float, ask: Callable[[], Answer], clock: Callable[[], float], sleep: Callable[[float], None]
) -> str:
    """Confirm; "" where the change stays, else what became of the host.

    ask: confirms over a new connection; raises ConnectionError with a reason where the host is not reached. seconds:
    until the host restores its network by itself, counted from now at most.
    """
    start = clock()
    lost = ""
    tries = 0
    while True:
        try:
            said = ask()
        except ConnectionError as err:
            lost = str(err)
            if clock() - start > seconds + AFTER_S:
                return (f"after the change the host is not reached, {seconds:.0f} s until it restores its network and {AFTER_S:.0f} s "
                        f"more: {lost}. Look at it through its BMC or console")  # fmt: skip
            sleep(PAUSES[min(tries, len(PAUSES) - 1)])
            tries += 1
            continue
        if said.rc == 0:
            return ""
        cut = f"the change cut the host off ({lost}); " if lost else ""
        if said.rc == TOO_LATE:
            return f"{cut}{said.words or 'the network was restored'}"
        return f"{cut}the guard could not be confirmed, and the host restores its network by itself: {said.words or said.rc}"
