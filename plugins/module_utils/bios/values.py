# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of BIOS attributes: what they mean, and how a machine spells them."""

from __future__ import annotations

import re
from typing import Any, Optional

FAMILIES = (("Enabled", "Disabled"), ("Enable", "Disable"), ("On", "Off"), ("Yes", "No"), ("True", "False"), ("1", "0"))
"""Pairs in which firmware spells a switch."""

_NUMBER = re.compile(r"[+-]?[0-9]+")


def plain(value: Any) -> str:
    """The form in which spellings of one value are equal: "Quadrant   (4-clusters)" and "Quadrant (4-Clusters)"."""
    return "".join(c for c in str(value).casefold() if c.isalnum())


def truth(value: Any) -> Optional[bool]:
    """What a switch says; None where it says neither on nor off ("Auto")."""
    if isinstance(value, bool):
        return value
    for on, off in FAMILIES:
        if str(value).strip().casefold() in (on.casefold(), off.casefold()):
            return str(value).strip().casefold() == on.casefold()
    return None


def like(present: Any, wanted: bool) -> Optional[Any]:
    """On or off, spelled as the present value is; None where that tells nothing."""
    if isinstance(present, bool):
        return wanted
    if isinstance(present, int):
        return int(wanted) if present in (0, 1) else None
    for pair in FAMILIES:
        for style in (str, str.lower, str.upper):
            if present in [style(text) for text in pair]:
                return style(pair[0 if wanted else 1])
    return None


def number(value: Any) -> Optional[int]:
    """A whole number, also where it came as text; None for anything else (True is none)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value == int(value):
        return int(value)
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return int(value)
    return None


def alike(one: Any, two: Any) -> bool:
    """Whether two values are the same although one may have come as text or in other capitals."""
    if one is None or two is None:
        return one is two
    first, second = number(one), number(two)
    if first is not None and second is not None:
        return first == second
    return str(one).strip().casefold() == str(two).strip().casefold()


def text(value: Any) -> str:
    """For people; a switch as on or off."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
