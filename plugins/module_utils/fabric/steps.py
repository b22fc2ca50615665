# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operations as an operator wants to read them: a step for each PF, VF, bond and bridge. Pure.

What a step says it leads to follows from the wish alone, so that consent to it stays good while the host changes.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..model import DISRUPTIONS, Step
from ..state import Fabric, Pf, Vf
from . import words
from .explain import lag_faults
from .plan import LAG_TYPE
from .shapes import MULTIPORT, PLAIN, Desired, DesiredBond, DesiredPf, DesiredVf, Op, split_target

BOND_OPS = frozenset((
    "bond_add", "bond_set", "bond_del", "bond_up", "bond_mtu", "enslave", "release", "release_dev", "relag", "gate",
))  # fmt: skip
BRIDGE_OPS = frozenset((
    "bridge_add", "bridge_filtering", "bridge_del", "dev_up", "join_bridge", "leave_bridge", "uplink_vlan", "rep_vlan",
    "rep_up", "ovs_offload", "ovs_bridge", "ovs_bridge_del", "join_ovs", "ovs_tag", "leave_ovs", "address_add", "address_del",
))  # fmt: skip
SHOWN = 6
VF_KEYS = (
    "driver", "mac", "vlan", "qos", "proto", "trust", "spoofchk", "link_state", "min_tx_rate", "max_tx_rate",
    "node_guid", "port_guid", "mtu",
)  # fmt: skip


def steps(capability: str, mine: Desired, fabric: Fabric, ops: Sequence[Op], requires: Tuple[str, ...] = ()) -> List[Step]:
    """The steps, in the order in which their first operation is done."""
    pfs = {pf["address"]: pf for pf in fabric["pfs"]}
    groups: Dict[Tuple[str, str], List[Op]] = {}
    anew = {op.target for op in ops if op.kind in ("numvfs", "eswitch")}
    for op in ops:
        groups.setdefault(_group(op, mine, anew), []).append(op)
    found = []
    for (kind, key), members in groups.items():
        before, after, verify = _words(kind, key, mine, pfs, fabric)
        disruption = max((op.disruption for op in members), key=DISRUPTIONS.index)
        found.append(Step(capability, key, before, after, _reason(kind, key, mine, pfs, members), disruption, verify, requires))
    return found


def _group(op: Op, mine: Desired, anew: Any) -> Tuple[str, str]:
    head, word, index = split_target(op.target)
    if op.kind in BRIDGE_OPS:
        bond = _bond_of(op, head, mine)
        if bond is not None and (bond.forwarding.type in ("bridge", "ovs")):
            return "bridge", bond.forwarding.name
        return ("bond", bond.name) if bond is not None else ("pf", head)
    if op.kind in BOND_OPS:
        bond = _bond_of(op, head, mine)
        return ("bond", bond.name) if bond is not None else ("pf", head)
    if word and head not in anew:
        return "vf", "%s-vf%d" % (head, index)
    return "pf", head


def _bond_of(op: Op, head: str, mine: Desired) -> Optional[DesiredBond]:
    for bond in mine.bonds:
        if head in (bond.name, bond.forwarding.name) or head in bond.pfs or op.value == bond.name:
            return bond
    return None


def _reason(kind: str, key: str, mine: Desired, pfs: Mapping[str, Pf], members: Sequence[Op]) -> str:
    texts = list(dict.fromkeys(op.text for op in members))
    # What hurts comes first: who loses a VF must not be behind "and 40 more".
    texts.sort(key=lambda text: all(op.disruption != "drain" for op in members if op.text == text))
    said = "; ".join(texts[:SHOWN]) + ("; and %d more" % (len(texts) - SHOWN) if len(texts) > SHOWN else "")
    bond = next((b for b in mine.bonds if b.name == key), None) if kind == "bond" else None
    if bond is not None and bond.kind != PLAIN and not bond.absent and any(op.kind in ("relag", "gate") for op in members):
        have = [pfs[a] for a in bond.pfs if a in pfs]
        if any(pf["bond"] == bond.name for pf in have):
            faults = lag_faults(have, LAG_TYPE[bond.kind])
            said = "; ".join(faults) + ": " + said if faults else said
    return said


def _words(kind: str, key: str, mine: Desired, pfs: Mapping[str, Pf], fabric: Fabric) -> Tuple[str, str, str]:
    """(before, after, how it is verified)."""
    if kind == "vf":
        address, _dash, number = key.rpartition("-vf")
        wish = next((v for v in mine.pf(address).vf if v.index == int(number)), DesiredVf(int(number)))
        have = next((v for v in pfs[address]["vfs"] if v["index"] == int(number)), None)
        return _vf_have(wish, have), _vf_wish(wish), "ip -d link show, and the driver link of the VF"
    if kind == "bond":
        bond = next(b for b in mine.bonds if b.name == key)
        return _bond_have(bond, pfs, fabric), _bond_wish(bond), _bond_verify(bond)
    if kind == "bridge":
        bond = next(b for b in mine.bonds if b.forwarding.name == key)
        return _bridge_have(key, fabric), _bridge_wish(bond), "members and VLANs, as bridge or ovs-vsctl lists them"
    pf = pfs[key]
    return _pf_have(mine.pf(key), pf), _pf_wish(mine.pf(key)), "sriov_numvfs, and devlink dev eswitch show pci/%s" % key


def _pf_wish(wish: DesiredPf) -> str:
    said = ["%d VFs" % wish.vfs] if wish.vfs is not None else []
    said += [wish.eswitch] if wish.eswitch else []
    said += [wish.steering] if wish.steering and wish.eswitch == "switchdev" else []
    said += ["multiport eswitch"] if wish.multiport else []
    said += ["hw-tc-offload"] if wish.hw_tc_offload else []
    said += ["MTU %d" % wish.mtu] if wish.mtu else []
    drivers = sorted({vf.driver for vf in wish.vf if vf.driver})
    said += ["driver %s" % " and ".join(drivers)] if drivers else []
    return ", ".join(said) or "as the bond needs it"


def _pf_have(wish: DesiredPf, pf: Pf) -> str:
    said = ["%d VFs" % len(pf["vfs"])] if wish.vfs is not None else []
    said += [pf["eswitch"]["mode"] or ""] if wish.eswitch else []
    said += [pf["eswitch"]["steering"] or ""] if wish.steering else []
    said += ["MTU %s" % pf["mtu"]] if wish.mtu else []
    drivers = sorted({vf["driver"] for vf in pf["vfs"] if vf["driver"]})
    said += ["driver %s" % " and ".join(drivers)] if drivers else []
    return ", ".join(word for word in said if word) or "not as wanted"


def _vf_wish(wish: DesiredVf) -> str:
    found = [(key, getattr(wish, key)) for key in VF_KEYS]
    said = ["%s %s" % (key, words.value(value)) for key, value in found if value not in (None, "")]
    return ", ".join(said + (["the kernel's driver"] if wish.driver == "" else [])) or "as before"


def _vf_have(wish: DesiredVf, vf: Optional[Vf]) -> str:
    if vf is None:
        return "absent"
    have: Any = vf
    said = ["%s %s" % (key, words.value(have[key])) for key in VF_KEYS if getattr(wish, key) is not None and have[key] is not None]
    return ", ".join(said) + words.user(vf) if said else "not as wanted"


def _bond_wish(bond: DesiredBond) -> str:
    pfs = " and ".join(bond.pfs)
    if bond.absent:
        return "absent"
    if bond.kind == MULTIPORT:
        return "multiport eswitch of %s" % pfs
    return "%s of %s%s" % (bond.mode, pfs, "" if bond.kind == PLAIN else ", LAG active as switchdev")


def _bond_have(bond: DesiredBond, pfs: Mapping[str, Pf], fabric: Fabric) -> str:
    have = next((b for b in fabric["bonds"] if b["name"] == bond.name), None)
    said = "%s of %s" % (have["mode"], " and ".join(have["slaves"]) or "nothing") if have else "absent"
    lags = [pfs[a]["lag"] for a in bond.pfs if a in pfs]
    if bond.kind == PLAIN or not any(lags):
        return said
    kinds = sorted({lag["type"] or lag["state"] for lag in lags if lag is not None})
    return "%s, LAG %s" % (said, " and ".join(kinds))


def _bond_verify(bond: DesiredBond) -> str:
    if bond.kind == PLAIN or bond.absent:
        return "ip -d link show %s" % bond.name
    return "/sys/kernel/debug/mlx5/%s/lag: state is active, type is %s" % (bond.pfs[0], LAG_TYPE[bond.kind])


def _bridge_wish(bond: DesiredBond) -> str:
    if bond.absent:
        return "absent"
    way = bond.forwarding
    vlans = sorted({port.vlan for port in way.ports if port.vlan})
    kind = "bridge" if way.type == "bridge" else "Open vSwitch"
    said = "%s %s with %s and %d representors" % (kind, way.name, bond.name, len(way.ports))
    return said + (", VLAN %s" % ", ".join(str(v) for v in vlans) if vlans else "")


def _bridge_have(name: str, fabric: Fabric) -> str:
    ports = next((len(b["ports"]) for b in fabric["bridges"] if b["name"] == name), None)
    for bridge in fabric["ovs"]["bridges"] if fabric["ovs"] else ():
        ports = len(bridge["ports"]) if bridge["name"] == name else ports
    return "absent" if ports is None else "%s with %d ports" % (name, ports)
