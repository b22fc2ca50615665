# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/etc/nearmetal/fabric.json: what the boot units bring about, a part for each role. Pure."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Dict, Mapping

from ..fabric.shapes import MULTIPORT, Desired, DesiredPf, FabricError, from_json, to_json

PATH = "/etc/nearmetal/fabric.json"
VERSION = 1


def parse(text: str) -> Dict[str, Desired]:
    """Parts by role. Raises FabricError."""
    try:
        data = json.loads(text)
        if data["version"] != VERSION:
            raise FabricError("version %s, not %d" % (data["version"], VERSION))
        parts: Dict[str, Any] = data["parts"]
        return {role: from_json(json.dumps(part)) for role, part in parts.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as err:
        raise FabricError("%s: %s" % (PATH, err)) from None


def dump(parts: Mapping[str, Desired]) -> str:
    """The text; "" where nothing is to be done at boot."""
    documents = {role: json.loads(to_json(part)) for role, part in parts.items() if part.pfs or part.bonds}
    if not documents:
        return ""
    return json.dumps({"version": VERSION, "parts": documents}, indent=1, sort_keys=True) + "\n"


def merged(parts: Mapping[str, Desired]) -> Desired:
    """All parts as one wish. A PF that two parts name is the business of the part with its bond."""
    in_bonds = {a for part in parts.values() for bond in part.bonds for a in bond.pfs}
    pfs: Dict[str, DesiredPf] = {}
    for _role, part in sorted(parts.items()):
        own = {a for bond in part.bonds for a in bond.pfs}
        for pf in part.pfs:
            if pf.address in own or pf.address not in in_bonds:
                pfs[pf.address] = pf
    bonds = tuple(bond for _role, part in sorted(parts.items()) for bond in part.bonds)
    timeout = max([part.lag_timeout for part in parts.values()] or [60])
    return Desired(tuple(pfs[a] for a in sorted(pfs)), bonds, timeout)


def at_boot(desired: Desired, owners: Mapping[str, str]) -> Desired:
    """What is left to do at boot: a fresh boot has no VFs and no bonds, so that what is to go is gone.

    owners: who makes each bond, by its name.
    """
    bonds = tuple(
        replace(bond, owner=owners.get(bond.name, "") if bond.kind != MULTIPORT else "") for bond in desired.bonds if not bond.absent
    )
    members = {a for bond in bonds for a in bond.pfs}
    pfs = tuple(pf for pf in desired.pfs if pf.address in members or pf.vfs or pf.mtu or pf.vf)
    return Desired(pfs, bonds, desired.lag_timeout)


def unnamed(part: Desired, desired: Desired) -> Desired:
    """What stays of a former part: bonds and PFs that the new wish neither names nor needs."""
    named = {b.name for b in desired.bonds}
    taken = {p.address for p in desired.pfs} | {a for b in desired.bonds for a in b.pfs}
    bonds = tuple(b for b in part.bonds if b.name not in named and not taken & set(b.pfs))
    lost = {a for b in part.bonds if b not in bonds for a in b.pfs}
    return Desired(tuple(p for p in part.pfs if p.address not in taken | lost), bonds, part.lag_timeout)
