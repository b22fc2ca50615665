# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep daemons and logins on the host's CPUs: drop-ins for systemd's top-level units.

systemd turns AllowedCPUs= into cpuset.cpus of the unit's control group, for processes that already
run too (systemd.resource-control(5)). machine.slice (libvirt's guests) and kubepods.slice (pods) are
siblings of these units and keep all CPUs; kernel threads live in the root group and are not touched.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, List

from . import cpulist
from .state import Confinement

UNITS = ("init.scope", "system.slice", "user.slice")
"""Everything that runs on a host, besides guests and pods, is in one of these."""

_TEXT = """\
# Written by nearmetal (role cpu_isolation); changes are lost.
[%s]
# Empty first: systemd adds up the lists of all drop-ins.
AllowedCPUs=
AllowedCPUs=%s
"""


def path(unit: str) -> str:
    """The drop-in of a unit."""
    return "/etc/systemd/system/%s.d/50-nearmetal.conf" % unit


FILES = tuple(path(unit) for unit in UNITS)


def files(reserved: FrozenSet[int]) -> Dict[str, str]:
    """The drop-ins, path to content."""
    kind = {"scope": "Scope", "slice": "Slice"}
    return {path(u): _TEXT % (kind[u.rpartition(".")[2]], cpulist.format(reserved)) for u in UNITS}


def absent(confinement: Confinement, unit: str) -> bool:
    """Whether the unit is not there, and its drop-in waits until it starts: user.slice before any login session.

    The cpuset controller is on for all groups of a parent or for none (cgroup v2, "Enabling and Disabling"), so that
    a unit without its files is none where another has them.
    """
    effective = confinement["effective"]
    return effective.get(unit) is None and any(effective.get(other) is not None for other in UNITS)


def loose(confinement: Confinement, reserved: FrozenSet[int]) -> List[str]:
    """Units that the kernel does not hold on exactly these CPUs now."""
    there = [u for u in UNITS if not absent(confinement, u)]
    return [u for u in there if cpulist.parse(confinement["effective"].get(u) or "") != reserved]


def found(confinement: Confinement, units: List[str]) -> str:
    """Where the units may run now, for a plan: "system.slice 0-7, user.slice all"."""
    return ", ".join("%s %s" % (u, confinement["effective"].get(u) or "all CPUs") for u in units)
