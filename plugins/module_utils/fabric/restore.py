# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state that a host is in, as a wish: what the guard goes back to by the same planner. Pure."""

from __future__ import annotations

from typing import List, Optional, Sequence, Set

from ..state import Fabric, FabricBond, Pf, Vf
from .shapes import (
    BRIDGE,
    MULTIPORT,
    OVS,
    PLAIN,
    UNBOUND,
    VF_LAG,
    Desired,
    DesiredBond,
    DesiredPf,
    DesiredVf,
    Forwarding,
    Port,
)

NEW_VLAN = 0


def former(fabric: Fabric, wanted: Optional[Desired] = None) -> Desired:
    """What `plan` needs to come back to this state.

    wanted: what is about to be carried out; then only its PFs and bonds are in it, and the bonds and bridges of them
    that are not there yet are to go. None: all PFs that have VFs, are in a bond, or could have VFs.
    """
    if wanted is None:
        pfs = [pf for pf in fabric["pfs"] if pf["vfs"] or pf["bond"] or (pf["sriov_total"] or 0) > 0]
        named: Set[str] = set()
    else:
        listed = {p.address for p in wanted.pfs} | {a for b in wanted.bonds for a in b.pfs}
        pfs = [pf for pf in fabric["pfs"] if pf["address"] in listed]
        named = {b.name for b in wanted.bonds}
    named |= {pf["bond"] for pf in pfs if pf["bond"]}
    every = {pf["address"]: pf for pf in fabric["pfs"]}
    bonds = [_bond(b, _members(b, fabric), fabric) for b in fabric["bonds"] if b["name"] in named and _members(b, fabric)]
    multiport = _multiport(pfs, wanted)
    covered = {a for b in bonds for a in b.pfs}
    found = {pf["address"]: pf for pf in pfs}
    found.update({a: every[a] for a in covered})
    gone = _gone(fabric, wanted, covered, multiport) if wanted is not None else []
    return Desired(
        tuple(_pf(found[a]) for a in sorted(found)), (*gone, *bonds, *multiport), wanted.lag_timeout if wanted is not None else 60
    )


def _members(bond: FabricBond, fabric: Fabric) -> List[Pf]:
    return [pf for pf in fabric["pfs"] if pf["netdev"] and pf["netdev"] in bond["slaves"]]


def _pf(pf: Pf) -> DesiredPf:
    eswitch = pf["eswitch"]
    return DesiredPf(
        address=pf["address"],
        vfs=len(pf["vfs"]) if (pf["sriov_total"] or 0) > 0 or pf["vfs"] else None,
        autoprobe=pf["autoprobe"],
        mtu=pf["mtu"],
        up=pf["up"],
        eswitch=eswitch["mode"],
        steering=eswitch["steering"],
        multiport=eswitch["multiport"],
        hw_tc_offload=pf["hw_tc_offload"],
        vf=tuple(_vf(vf, eswitch["mode"] == "switchdev") for vf in pf["vfs"]),
    )


def _vf(vf: Vf, switchdev: bool) -> DesiredVf:
    """A driver that was set by hand (driver_override) by name; the kernel's choice as such."""
    driver = UNBOUND if not vf["driver"] else vf["driver"] if vf["driver_override"] == vf["driver"] else ""
    return DesiredVf(
        index=vf["index"], driver=driver, mac=vf["mac"], vlan=None if switchdev else vf["vlan"],
        qos=None if switchdev else vf["qos"], proto=None if switchdev else vf["proto"],
        trust=None if switchdev else vf["trust"], spoofchk=None if switchdev else vf["spoofchk"],
        min_tx_rate=vf["min_tx_rate"], max_tx_rate=vf["max_tx_rate"], link_state=vf["link_state"],
        node_guid=vf["node_guid"], port_guid=vf["port_guid"], mtu=vf["mtu"],
    )  # fmt: skip


def _bond(bond: FabricBond, members: Sequence[Pf], fabric: Fabric) -> DesiredBond:
    lags = [pf["lag"] for pf in members]
    active = [lag for lag in lags if lag is not None and lag["state"] == "active" and lag["type"] == "switchdev"]
    kind = VF_LAG if lags and len(active) == len(lags) else PLAIN
    return DesiredBond(
        name=bond["name"], pfs=tuple(sorted(pf["address"] for pf in members)), kind=kind, mode=bond["mode"],
        miimon=bond["miimon"], lacp_rate=bond["lacp_rate"], xmit_hash_policy=bond["xmit_hash_policy"], mtu=bond["mtu"],
        addresses=tuple(bond["addresses"]), forwarding=_forwarding(bond["name"], members, fabric),
    )  # fmt: skip


def _forwarding(uplink: str, members: Sequence[Pf], fabric: Fabric) -> Forwarding:
    for bridge in fabric["ovs"]["bridges"] if fabric["ovs"] else ():
        if any(port["name"] == uplink for port in bridge["ports"]):
            names = {port["name"] for port in bridge["ports"]}
            return Forwarding(OVS, bridge["name"], ports=_ports(members, names), addresses=tuple(bridge["addresses"]))
    for one in fabric["bridges"]:
        if any(port["name"] == uplink for port in one["ports"]):
            names = {port["name"] for port in one["ports"]}
            return Forwarding(BRIDGE, one["name"], ports=_ports(members, names), addresses=tuple(one["addresses"]))
    return Forwarding()


def _ports(members: Sequence[Pf], names: Set[str]) -> "tuple[Port, ...]":
    return tuple(
        Port(pf["address"], vf["index"], vf["representor_vlan"] or NEW_VLAN)
        for pf in members for vf in pf["vfs"] if vf["representor"] and vf["representor"] in names
    )  # fmt: skip


def _multiport(pfs: Sequence[Pf], wanted: Optional[Desired]) -> List[DesiredBond]:
    """Cards that are one multiport eswitch now: no bond device shows it."""
    cards: "dict[str, List[str]]" = {}
    for pf in pfs:
        if pf["eswitch"]["multiport"]:
            cards.setdefault(pf["card"], []).append(pf["address"])
    names = {a: b.name for b in (wanted.bonds if wanted is not None else ()) for a in b.pfs if b.kind == MULTIPORT}
    return [
        DesiredBond(name=names.get(members[0], card), pfs=tuple(members), kind=MULTIPORT)
        for card, members in sorted(cards.items()) if len(members) > 1
    ]  # fmt: skip


def _gone(fabric: Fabric, wanted: Desired, covered: Set[str], multiport: Sequence[DesiredBond]) -> List[DesiredBond]:
    """Bonds and bridges that are to be made, and so were not there."""
    there = {b["name"] for b in fabric["bonds"]} | {b.name for b in multiport}
    bridges = {b["name"] for b in fabric["bridges"]} | {b["name"] for b in (fabric["ovs"] or {"bridges": []})["bridges"]}
    found = []
    for bond in wanted.bonds:
        if bond.absent or bond.name in there:
            continue
        way = bond.forwarding
        new_bridge = way.type in (BRIDGE, OVS) and way.name not in bridges
        found.append(DesiredBond(
            name=bond.name, pfs=tuple(a for a in bond.pfs if a not in covered), kind=bond.kind, mode=bond.mode, absent=True,
            forwarding=Forwarding(way.type, way.name, absent=True) if new_bridge else Forwarding(),
        ))  # fmt: skip
    return found
