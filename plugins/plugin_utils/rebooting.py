# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host goes down and comes back: the words that it is told, and the wait."""

from __future__ import annotations

from collections.abc import Callable

BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
REBOOT = "PATH=$PATH:/usr/sbin:/sbin shutdown -r now"
SYNC = "sync"
POWER_CYCLE = f"{SYNC}; PATH=$PATH:/usr/sbin:/sbin ipmitool chassis power cycle"
SETTLED = (
    "for i in $(seq 120); do systemctl list-jobs --no-legend 'nearmetal-*' 2>/dev/null | grep -q . || break; "
    "sleep 1; done; " + BOOT_ID
)
"""Our units of this boot have ended before anything is read back: a half-done boot is no evidence."""

PAUSES = (1.0, 2.0, 3.0, 5.0)
"""Seconds between tries; the last one stays."""


class NotBack(Exception):
    """The host did not come back in time; the message says how far it got."""


def wait(
    before: str, timeout: float, ask: Callable[[], str], clock: Callable[[], float], sleep: Callable[[float], None]
) -> float:
    """Wait until the host answers with another boot id; returns the seconds that it took. Raises NotBack.

    ask: returns the boot id over a new connection; raises ConnectionError with a reason where there is no answer.
    """
    start = clock()
    tries = 0
    down = ""
    while True:
        sleep(PAUSES[min(tries, len(PAUSES) - 1)])
        tries += 1
        try:
            found = ask()
            if found and found != before:
                return clock() - start
            if down:
                down = ""  # an answer of the boot that is being ended
        except ConnectionError as err:
            down = str(err)
        if clock() - start >= timeout:
            if down:
                raise NotBack("the host is not back after %d s: %s" % (clock() - start, down))
            raise NotBack("the host did not go down: after %d s it is still the same boot" % (clock() - start))
