# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""stress-ng: how it is called, and what it says. Pure.

The lines of `--metrics-brief` are, after a prefix that depends on the version,
`NAME OPS REAL USER SYSTEM OPS/S-REAL OPS/S-CPU` (stress-ng(1)).
"""

from __future__ import annotations

import re
from typing import List, NamedTuple, Sequence

UNIT = "bogo ops/s"
PREFIXES = ("stress-ng: metrc:", "stress-ng: info:")
"""Since 0.15 metrics are of class "metrc", before of class "info"."""


class Metric(NamedTuple):
    """One stressor's line."""

    operations: float
    seconds: float  # real time
    rate: float  # operations per second of real time


def command(stressor: str, workers: int, seconds: int, extra: Sequence[str]) -> List[str]:
    """The program and its arguments."""
    call = ["stress-ng", "--%s" % stressor, "%d" % workers, "--timeout", "%ds" % seconds, "--metrics-brief"]
    return call + [str(word) for word in extra]


def parse_metrics(text: str, stressor: str) -> Metric:
    """The figures of one stressor. Raises ValueError that shows what stress-ng said instead."""
    for line in text.splitlines():
        words = _without_prefix(line).split()
        if len(words) >= 7 and words[0] == stressor:
            try:
                operations, seconds, _user, _system, rate = (float(w) for w in words[1:6])
            except ValueError:
                continue
            if seconds <= 0 or operations <= 0:
                raise ValueError("stress-ng did no operation in %s s" % words[2])
            return Metric(operations, seconds, rate)
    said = " | ".join(line.strip() for line in text.splitlines() if line.strip())[-300:]
    raise ValueError("stress-ng gave no figures for %s: %s" % (stressor, said or "it said nothing"))


def _without_prefix(line: str) -> str:
    line = line.strip()
    if line.startswith(PREFIXES):
        return re.sub(r"^stress-ng: \w+:\s*(\[\d+\])?", "", line)
    return line


def parse_version(text: str) -> str:
    """Version ("0.18.12") in the output of `stress-ng --version`; "" where it is not there."""
    found = re.search(r"version (\d[\w.]*)", text)
    return found.group(1) if found else ""
