# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may set up the network of this host, and what its files say of devices. Only reads."""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from ..fabric_boot import bootfile, own_ifupdown, own_netplan, own_networkd, own_nm, units
from ..fabric_boot.bondview import ours
from ..host import HostError
from ..state import Claim, Managers
from .reader import Reader

UNITS = (own_networkd.UNIT, own_nm.UNIT, own_ifupdown.UNIT)
COMMANDS: Tuple[Tuple[str, ...], ...] = tuple(("systemctl", "is-active", unit) for unit in UNITS)

BOOT_UNITS = ("%s/%s" % (units.FOLDER, units.EARLY), "%s/%s" % (units.FOLDER, units.LATE), *units.LINKS)
PROBE: Tuple[str, ...] = (
    *own_networkd.PROBE, *own_nm.PROBE, *own_ifupdown.PROBE, *own_netplan.PROBE, bootfile.PATH, *BOOT_UNITS,
)  # fmt: skip


def observe_managers(reader: Reader) -> Managers:
    """The section. A file that cannot be read stands in `unreadable`: what it says is not known."""
    unreadable: List[str] = []
    networkd = _texts(reader, own_networkd.PROBE, unreadable)
    profiles = _texts(reader, own_nm.PROBE, unreadable)
    interfaces = _texts(reader, own_ifupdown.PROBE, unreadable)
    netplan = _texts(reader, own_netplan.PROBE, unreadable)
    told = own_netplan.read(_others(netplan))
    claims: List[Claim] = [
        *own_networkd.claims(_others(networkd)), *own_nm.claims(_others(profiles)),
        *own_ifupdown.claims(_others(interfaces)), *told.claims,
    ]  # fmt: skip
    every = {**networkd, **profiles, **interfaces, **netplan}
    own = {path: text for path, text in every.items() if ours(path)}
    own.update(_texts(reader, (bootfile.PATH, *BOOT_UNITS), unreadable))
    return {
        "units": {unit: _active(reader, unit) for unit in UNITS},
        "renderer": told.renderer if netplan else "",
        "sourced": own_ifupdown.sourced(interfaces),
        "claims": claims,
        "unreadable": unreadable + told.errors,
        "own": own,
    }


def _others(files: Dict[str, str]) -> Dict[str, str]:
    return {path: text for path, text in files.items() if not ours(path)}


def _texts(reader: Reader, patterns: Sequence[str], unreadable: List[str]) -> Dict[str, str]:
    found = {}
    for pattern in patterns:
        for path in reader.glob(pattern):
            try:
                if reader.host.exists(path):
                    found[path] = reader.host.read(path)
            except HostError as err:
                unreadable.append(str(err))
    return found


def _active(reader: Reader, unit: str) -> str:
    """What `systemctl is-active` says; "" where nobody asked, "absent" where there is no systemctl."""
    try:
        return reader.host.run(["systemctl", "is-active", unit]).stdout.strip()
    except HostError:
        return ""
