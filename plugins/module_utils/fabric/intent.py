# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From role variables to Desired, and what cannot be. Pure.

`sriov` and `vf_lag` are the options of these roles (or None): sriov = {"pfs": [...], ...}, vf_lag = {"bonds": [...], ...}.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..model import Problem
from ..state import Fabric, Pf
from . import select
from .intent_checks import PFS, Options, bonds_problems, expand, pfs_problems
from .shapes import (
    BRIDGE,
    MULTIPORT,
    OVS,
    PLAIN,
    VF_LAG,
    Desired,
    DesiredBond,
    DesiredPf,
    DesiredVf,
    Forwarding,
    Port,
)

BONDS = "vf_lag_bonds"
ATTRIBUTES = (
    "mac", "vlan", "qos", "proto", "trust", "spoofchk", "min_tx_rate", "max_tx_rate", "link_state", "node_guid",
    "port_guid", "mtu",
)  # fmt: skip


class Built(NamedTuple):
    """desired: of the whole host; entries: options of each PF by address, for checks against the host."""

    desired: Desired
    problems: List[Problem]
    entries: Dict[str, Mapping[str, Any]]


def problems(sriov: Optional[Options], vf_lag: Optional[Options]) -> List[Problem]:
    """What is wrong whatever the host."""
    return pfs_problems((sriov or {}).get("pfs") or ()) + bonds_problems((vf_lag or {}).get("bonds") or ())


def build(sriov: Optional[Options], vf_lag: Optional[Options], fabric: Fabric) -> Built:
    """What the variables mean on this host. Where there are problems, `desired` lacks what they are about."""
    found: List[Problem] = []
    entries = _resolve_pfs((sriov or {}).get("pfs") or (), fabric["pfs"], found)
    bonds = []
    for options in (vf_lag or {}).get("bonds") or ():
        bond = _bond(options, fabric, entries, found)
        if bond is not None:
            bonds.append(bond)
    pfs = []
    for address in sorted({*entries, *(a for bond in bonds for a in bond.pfs)}):
        owner = next((bond for bond in bonds if address in bond.pfs), None)
        pfs.append(_pf(address, entries.get(address), owner))
    timeout = (vf_lag or {}).get("timeout") or 60
    return Built(Desired(tuple(pfs), tuple(_with_ports(b, entries) for b in bonds), timeout), found, entries)


def part(desired: Desired, lag: bool) -> Desired:
    """What the role vf_lag carries out (bonds and their PFs), or what the role sriov does (all other PFs)."""
    in_bond = {address for bond in desired.bonds for address in bond.pfs}
    pfs = tuple(pf for pf in desired.pfs if (pf.address in in_bond) == lag)
    return Desired(pfs, desired.bonds if lag else (), desired.lag_timeout)


def _resolve_pfs(given: Sequence[Options], pfs: Sequence[Pf], found: List[Problem]) -> Dict[str, Options]:
    entries: Dict[str, Options] = {}
    for entry in given:
        pf, problem = select.find(entry["pf"], pfs, PFS)
        if problem is not None or pf is None:
            found += [problem] if problem is not None else []
        elif pf["address"] in entries:
            text = "%s is given twice" % pf["address"]
            found.append(Problem(PFS, select.said(entry["pf"]), text, "give each PF once"))
        else:
            entries[pf["address"]] = entry
    return entries


def _bond(options: Options, fabric: Fabric, entries: Mapping[str, Options], found: List[Problem]) -> Optional[DesiredBond]:
    pfs: List[Pf] = []
    for selector in options["pfs"]:
        pf, problem = select.find(selector, fabric["pfs"], BONDS)
        if problem is not None:
            found.append(problem)
        elif pf is not None:
            pfs.append(pf)
    if len(pfs) != len(options["pfs"]):
        return None
    absent = options.get("state") == "absent"
    kind = MULTIPORT if options.get("multiport") else VF_LAG if options.get("lag", True) else PLAIN
    way = options.get("forwarding") or {}
    bridged = way.get("type") in (BRIDGE, OVS)
    addresses = tuple(options.get("addresses") or ())
    own = [entries[pf["address"]].get("mtu") for pf in pfs if pf["address"] in entries]
    mtu = options.get("mtu") or next((value for value in own if value), None)
    return DesiredBond(
        name=options["name"],
        pfs=tuple(sorted(pf["address"] for pf in pfs)),
        kind=kind,
        mode=options.get("mode") or "active-backup",
        miimon=options.get("miimon"),
        lacp_rate=options.get("lacp_rate"),
        xmit_hash_policy=options.get("xmit_hash_policy"),
        mtu=mtu,
        addresses=() if bridged else addresses,
        owner=options.get("owner") or "auto",
        absent=absent,
        forwarding=Forwarding(
            type=way.get("type") or "none",
            name=way.get("name") or "",
            owner=way.get("owner") or "",
            addresses=addresses if bridged else (),
            absent=absent and bridged,
        ),
        steering=options.get("steering") or None,
    )


def _pf(address: str, entry: Optional[Options], bond: Optional[DesiredBond]) -> DesiredPf:
    """The wish for one PF: `entry` of sriov_pfs and the bond that it is in."""
    offloaded = bond is not None and bond.kind != PLAIN
    switchdev = offloaded and bond is not None and not bond.absent
    removed = entry is not None and entry.get("state") == "absent"
    count: Optional[int] = None
    if entry is not None:
        count = 0 if removed else entry.get("vfs")
    elif bond is not None and bond.absent and offloaded:
        count = 0  # the VFs were made for the LAG
    probing: Optional[bool] = True if removed or entry is None and count == 0 else None
    if entry is not None and not removed:
        probing = bool(entry.get("autoprobe", True))
    mtu = (bond.mtu if bond is not None and not bond.absent else None) or (None if entry is None or removed else entry.get("mtu"))
    return DesiredPf(
        address=address,
        vfs=count,
        autoprobe=False if switchdev else probing,
        mtu=mtu,
        up=True if count or switchdev else None,
        eswitch=("switchdev" if switchdev else "legacy") if offloaded else None,
        steering=bond.steering if switchdev and bond is not None else None,
        multiport=(switchdev if bond is not None and bond.kind == MULTIPORT else False) if offloaded else None,
        hw_tc_offload=switchdev if offloaded else None,
        vf=() if entry is None or removed else _vfs(entry, count or 0, switchdev, bool(probing)),
    )


def _vfs(entry: Options, count: int, switchdev: bool, autoprobe: bool) -> Tuple[DesiredVf, ...]:
    """Every VF, with what is said of all and of this one. VLANs are the representors' business in switchdev mode."""
    settings: Dict[int, Dict[str, Any]] = {index: {} for index in range(count)}
    for options in entry.get("vf") or ():
        for index in expand(options["index"]):
            if index in settings:
                settings[index].update({k: v for k, v in options.items() if v is not None and k != "index"})
    found = []
    for index, values in settings.items():
        driver = values.get("driver", entry.get("driver"))
        if driver in (None, ""):
            driver = "" if autoprobe else None
        wished = {key: values.get(key) for key in ATTRIBUTES}
        if isinstance(wished["mac"], str):
            wished["mac"] = select.normal("mac", wished["mac"])
        for key in ("vlan", "qos", "proto", "trust", "spoofchk") if switchdev else ():
            wished[key] = None
        found.append(DesiredVf(index=index, driver=driver, **wished))
    return tuple(found)


def _with_ports(bond: DesiredBond, entries: Mapping[str, Options]) -> DesiredBond:
    """The bond with a port for each VF's representor and the VLAN that was asked for the VF."""
    if bond.forwarding.type not in (BRIDGE, OVS) or bond.absent:
        return bond
    ports = []
    for address in bond.pfs:
        entry = entries.get(address)
        for index in range(0 if entry is None or entry.get("state") == "absent" else entry.get("vfs") or 0):
            ports.append(Port(address, index, vlan_of(entry or {}, index) or 0))
    return replace(bond, forwarding=replace(bond.forwarding, ports=tuple(ports)))


def vlan_of(entry: Options, index: int) -> Optional[int]:
    """The VLAN asked for a VF; the last entry that names it counts."""
    vlan: Optional[int] = None
    for options in entry.get("vf") or ():
        if index in expand(options["index"]) and options.get("vlan") is not None:
            vlan = int(options["vlan"])
    return vlan
