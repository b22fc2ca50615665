# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order the sides run, and when enough is known. Pure.

The report computes its intervals with scipy; this runs on hosts, where there is only the standard
library, and only decides when to stop.
"""

from __future__ import annotations

import random
from statistics import median
from typing import List, Mapping, Sequence, Tuple

RESAMPLES = 2000
CONFIDENCE = 0.95


def order(sides: Sequence[str], round_number: int) -> List[str]:
    """A B C, C B A, A B C...: a slow drift of the host weighs equally on all sides."""
    return list(sides) if round_number % 2 == 0 else list(reversed(sides))


def ratio_interval(side: Sequence[float], base: Sequence[float], seed: int = 1) -> Tuple[float, float]:
    """Percentile bootstrap of median(side) / median(base), at 95 %.

    The same numbers give the same interval. Raises ValueError for empty or non-positive samples.
    """
    if not side or not base or min(*side, *base) <= 0:
        raise ValueError("a ratio needs positive figures on both sides")
    draw = random.Random(seed)
    ratios = sorted(
        median(draw.choices(side, k=len(side))) / median(draw.choices(base, k=len(base)))
        for _resample in range(RESAMPLES)
    )
    tail = int(RESAMPLES * (1 - CONFIDENCE) / 2)
    return ratios[tail], ratios[-1 - tail]


def enough(values: Mapping[str, Sequence[float]], base: str, width: float) -> bool:
    """Whether every side's ratio to `base` is known to an interval narrower than `width` (0.05: 5 points)."""
    for name, side in values.items():
        if name == base:
            continue
        if len(side) < 2 or len(values[base]) < 2:
            return False
        low, high = ratio_interval(side, values[base])
        if high - low >= width:
            return False
    return True
