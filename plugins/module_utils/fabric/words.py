# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How PFs, VFs and their users are called in plans and errors."""

from __future__ import annotations

from typing import Any, Iterable, List, Sequence

from ..state import Pf, Vf

GUESTS = ("VM ", "a guest")
"""How the users begin that are virtual machines (observe/fabric.py)."""


def pf(one: Pf) -> str:
    """"enp8s0f0 (0000:08:00.0)"."""
    return "%s (%s)" % (one["netdev"], one["address"]) if one["netdev"] else one["address"]


def vf(one: Pf, index: int) -> str:
    """"VF 3 of enp8s0f0 (0000:08:00.0)"."""
    return "VF %d of %s" % (index, pf(one))


def user(one: Vf) -> str:
    """" (used by VM db1)", or nothing."""
    return " (used by %s)" % one["in_use"] if one["in_use"] else ""


def indexes(numbers: Iterable[int]) -> str:
    """"VF 3", "VFs 3 and 5", "VFs 0-7"."""
    found = sorted(numbers)
    if len(found) == 1:
        return "VF %d" % found[0]
    if len(found) > 2 and found == list(range(found[0], found[-1] + 1)):
        return "VFs %d-%d" % (found[0], found[-1])
    return "VFs %s and %d" % (", ".join(str(n) for n in found[:-1]), found[-1])


def users(vfs: Iterable[Vf]) -> List[str]:
    """"VF 3 is used by VM db1", for each VF that is used."""
    return ["VF %d is used by %s" % (one["index"], one["in_use"]) for one in vfs if one["in_use"]]


def destroyed(one: Pf, seen: Sequence[Vf]) -> str:
    """Which VFs go, and who loses them. seen: the VFs as they were found, before anything was unbound."""
    held = users(seen)
    bound = ["VF %d is bound to %s" % (v["index"], v["driver"]) for v in seen if v["driver"] and not v["in_use"]]
    lost = "; ".join([*held, *bound]) or "no driver has them"
    return "%s: %s are destroyed: %s" % (pf(one), indexes(v["index"] for v in one["vfs"]), lost)


def loss(vfs: Sequence[Vf]) -> str:
    """The disruption of taking VFs away: "drain" where a guest has one, "none" where none is in use."""
    if any((one["in_use"] or "").startswith(GUESTS) for one in vfs):
        return "drain"
    return "traffic" if any(one["driver"] and one["in_use"] != "" or one["netdev"] for one in vfs) else "none"


def value(one: Any) -> str:
    """A setting as a person reads it."""
    if isinstance(one, bool):
        return "on" if one else "off"
    return "none" if one == "" else str(one)
