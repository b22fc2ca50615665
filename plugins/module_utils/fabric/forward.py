# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who forwards between the uplink and the VFs in switchdev mode: Open vSwitch or a VLAN-aware Linux bridge.

VLANs of VFs are VLANs of their representors here: the eswitch refuses them on the VF itself. In a bridge, traffic
without a tag is VLAN 1 (the kernel's default_pvid); in Open vSwitch a port without a tag carries all VLANs.
"""

from __future__ import annotations

from typing import List, Optional, Tuple

from ..state import BridgePort, FabricBridge, OvsBridge, OvsPort, Pf, Vf
from .draft import Draft, put
from .shapes import BRIDGE, MULTIPORT, OVS, DesiredBond, Port

NATIVE = 1
"""default_pvid of a Linux bridge."""


def uplinks(draft: Draft, bond: DesiredBond) -> List[Tuple[str, str]]:
    """(target of the operation, name of the device) that carries the traffic out."""
    if bond.kind == MULTIPORT:
        return [(address, draft.pfs[address]["netdev"]) for address in bond.pfs]
    return [(bond.name, bond.name)]


def converge(draft: Draft, bond: DesiredBond) -> None:
    """Bridge, uplink, representors, VLANs, addresses."""
    way = bond.forwarding
    if way.type == BRIDGE:
        _bridge(draft, bond)
    elif way.type == OVS:
        _ovs(draft, bond)
    _addresses(draft, bond)


def _members(draft: Draft, bond: DesiredBond) -> List[Tuple[Port, Pf, Vf]]:
    found = []
    for port in bond.forwarding.ports:
        pf = draft.pfs.get(port.pf)
        vf = next((v for v in pf["vfs"] if v["index"] == port.index), None) if pf else None
        if pf is not None and vf is not None:
            found.append((port, pf, vf))
    return found


def _bridge(draft: Draft, bond: DesiredBond) -> None:
    name = bond.forwarding.name
    have = draft.bridges.get(name)
    if have is None:
        draft.add("bridge_add", name, None, "bridge %s, VLAN-aware" % name)
        have = draft.bridges[name] = {"name": name, "vlan_filtering": True, "ports": [], "addresses": [], "up": False}
    if not have["vlan_filtering"]:
        draft.add("bridge_filtering", name, True, "bridge %s becomes VLAN-aware" % name, "traffic")
        have["vlan_filtering"] = True
    if have["up"] is not True:
        draft.add("dev_up", name, True, "bridge %s: up" % name)
        have["up"] = True
    vlans = sorted({port.vlan or NATIVE for port in bond.forwarding.ports} | {NATIVE})
    for target, device in uplinks(draft, bond):
        _bridge_uplink(draft, have, target, device, vlans)
    for port, pf, vf in _members(draft, bond):
        want = port.vlan or NATIVE
        if vf["representor_master"] != name:
            _leave(draft, pf, vf)
            draft.rep("join_bridge", pf, vf, name, "joins %s" % name)
            put(vf, representor_master=name, representor_vlan=NATIVE)
        if port.vlan is not None and vf["representor_vlan"] != want:
            value = {"vid": want, "former": vf["representor_vlan"] or 0}
            draft.rep("rep_vlan", pf, vf, value, "VLAN %d" % want)
            vf["representor_vlan"] = want
        _up(draft, pf, vf)


def _bridge_uplink(draft: Draft, bridge: FabricBridge, target: str, device: str, vlans: List[int]) -> None:
    port: Optional[BridgePort] = next((p for p in bridge["ports"] if p["name"] == device), None)
    if port is None:
        _leave_others(draft, target, device, bridge["name"])
        draft.add("join_bridge", target, bridge["name"], "%s joins %s" % (device, bridge["name"]), "traffic")
        port = {"name": device, "pvid": NATIVE, "vids": [NATIVE]}
        bridge["ports"].append(port)
    for vlan in vlans:
        if vlan not in port["vids"]:
            draft.add("uplink_vlan", target, vlan, "%s carries VLAN %d" % (device, vlan))
            port["vids"].append(vlan)


def _ovs(draft: Draft, bond: DesiredBond) -> None:
    name = bond.forwarding.name
    ovs = draft.ovs if draft.ovs is not None else {"hw_offload": False, "bridges": []}
    draft.ovs = ovs
    if not ovs["hw_offload"]:
        text = "Open vSwitch: hw-offload (flows that are there already move when ovs-vswitchd restarts)"
        draft.add("ovs_offload", name, True, text)
        ovs["hw_offload"] = True
    have: Optional[OvsBridge] = next((b for b in ovs["bridges"] if b["name"] == name), None)
    if have is None:
        draft.add("ovs_bridge", name, None, "Open vSwitch: bridge %s" % name)
        have = {"name": name, "ports": [], "addresses": [], "up": False}
        ovs["bridges"].append(have)
    if bond.forwarding.addresses and have["up"] is not True:
        draft.add("dev_up", name, True, "bridge %s: up" % name)
        have["up"] = True
    for target, device in uplinks(draft, bond):
        if not any(p["name"] == device for p in have["ports"]):
            _leave_others(draft, target, device, name)
            draft.add("join_ovs", target, {"bridge": name, "tag": 0}, "%s joins %s" % (device, name), "traffic")
            own: OvsPort = {"name": device, "tag": None}
            have["ports"].append(own)
    for port, pf, vf in _members(draft, bond):
        if vf["representor_master"] != name:
            _leave(draft, pf, vf)
            value = {"bridge": name, "tag": port.vlan or 0}
            draft.rep("join_ovs", pf, vf, value, "joins %s%s" % (name, ", VLAN %d" % port.vlan if port.vlan else ""))
            put(vf, representor_master=name, representor_vlan=port.vlan or 0)
        elif port.vlan is not None and (vf["representor_vlan"] or 0) != port.vlan:
            draft.rep("ovs_tag", pf, vf, port.vlan, "VLAN %d" % port.vlan if port.vlan else "no VLAN")
            vf["representor_vlan"] = port.vlan
        _up(draft, pf, vf)


def _up(draft: Draft, pf: Pf, vf: Vf) -> None:
    if vf["representor_up"] is not True:
        draft.rep("rep_up", pf, vf, True, "up")
        vf["representor_up"] = True


def _addresses(draft: Draft, bond: DesiredBond) -> None:
    """A port of a bridge has no use for addresses: they belong to the bridge's own device then."""
    bridge = _own_device(draft, bond)
    for cidr in bond.forwarding.addresses:
        if bridge is not None and cidr not in bridge:
            draft.add("address_add", bond.forwarding.name, cidr, "%s: address %s" % (bond.forwarding.name, cidr))
    have = draft.bonds.get(bond.name)
    if have is None:
        return
    for cidr in bond.addresses:
        if cidr not in have["addresses"]:
            draft.add("address_add", bond.name, cidr, "%s: address %s" % (bond.name, cidr))
    for cidr in bond.forwarding.addresses:
        if cidr in have["addresses"]:
            text = "%s: address %s moves to %s" % (bond.name, cidr, bond.forwarding.name)
            draft.add("address_del", bond.name, cidr, text, "traffic")


def _own_device(draft: Draft, bond: DesiredBond) -> Optional[List[str]]:
    name = bond.forwarding.name
    if bond.forwarding.type == BRIDGE and name in draft.bridges:
        return draft.bridges[name]["addresses"]
    if bond.forwarding.type == OVS and draft.ovs is not None:
        return next((b["addresses"] for b in draft.ovs["bridges"] if b["name"] == name), None)
    return None


def detach(draft: Draft, pf: Pf) -> None:
    """The PF's representors leave their forwarder: flows that are offloaded for them keep the eswitch busy."""
    for vf in pf["vfs"]:
        _leave(draft, pf, vf)


def _leave(draft: Draft, pf: Pf, vf: Vf) -> None:
    """A device is in one forwarder only."""
    master = vf["representor_master"]
    if master:
        kind = "leave_ovs" if _is_ovs(draft, master) else "leave_bridge"
        draft.rep(kind, pf, vf, master, "leaves %s" % master)
        put(vf, representor_master="", representor_vlan=None)


def _leave_others(draft: Draft, target: str, device: str, name: str) -> None:
    """The uplink leaves forwarders other than the wanted one."""
    for bridge in draft.bridges.values():
        for entry in [p for p in bridge["ports"] if p["name"] == device and bridge["name"] != name]:
            draft.add("leave_bridge", target, bridge["name"], "%s leaves %s" % (device, bridge["name"]), "traffic")
            bridge["ports"].remove(entry)
    for other in draft.ovs["bridges"] if draft.ovs is not None else ():
        for port in [p for p in other["ports"] if p["name"] == device and other["name"] != name]:
            draft.add("leave_ovs", target, other["name"], "%s leaves %s" % (device, other["name"]), "traffic")
            other["ports"].remove(port)


def _is_ovs(draft: Draft, name: str) -> bool:
    return draft.ovs is not None and any(bridge["name"] == name for bridge in draft.ovs["bridges"])


def remove(draft: Draft, bond: DesiredBond) -> None:
    """The uplink leaves the forwarder, which goes too where nobody else is in it."""
    name = bond.forwarding.name
    if bond.forwarding.type == BRIDGE and name in draft.bridges:
        _remove_bridge(draft, bond, draft.bridges[name])
    elif bond.forwarding.type == OVS and draft.ovs is not None:
        for bridge in [b for b in draft.ovs["bridges"] if b["name"] == name]:
            _remove_ovs(draft, bond, bridge)


def _remove_bridge(draft: Draft, bond: DesiredBond, bridge: FabricBridge) -> None:
    own = {device: target for target, device in uplinks(draft, bond)}
    reps = {v["representor"] for pf in draft.pfs.values() for v in pf["vfs"]}
    for port in [p for p in bridge["ports"] if p["name"] in own]:
        draft.add("leave_bridge", own[port["name"]], bridge["name"], "%s leaves %s" % (port["name"], bridge["name"]), "traffic")
        bridge["ports"].remove(port)
    if not [p for p in bridge["ports"] if p["name"] not in reps]:
        draft.add("bridge_del", bridge["name"], None, "bridge %s goes" % bridge["name"], "traffic")
        del draft.bridges[bridge["name"]]


def _remove_ovs(draft: Draft, bond: DesiredBond, bridge: OvsBridge) -> None:
    own = {device: target for target, device in uplinks(draft, bond)}
    reps = {v["representor"] for pf in draft.pfs.values() for v in pf["vfs"]}
    for port in [p for p in bridge["ports"] if p["name"] in own]:
        draft.add("leave_ovs", own[port["name"]], bridge["name"], "%s leaves %s" % (port["name"], bridge["name"]), "traffic")
        bridge["ports"].remove(port)
    if not [p for p in bridge["ports"] if p["name"] not in reps] and draft.ovs is not None:
        draft.add("ovs_bridge_del", bridge["name"], None, "Open vSwitch: bridge %s goes" % bridge["name"], "traffic")
        draft.ovs["bridges"].remove(bridge)
