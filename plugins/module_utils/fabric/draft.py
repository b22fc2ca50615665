# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy of what was observed, on which each planned operation takes its effect: so one plan is complete.

Each method appends the operation and changes the copy as the kernel will. What cannot be foreseen (addresses of new
VFs, names of representors) stays empty; the executor finds it.
"""

from __future__ import annotations

import copy
from typing import Any, Dict, List, Mapping, Optional

from ..state import Fabric, FabricBond, Pf, Vf
from . import words
from .shapes import EARLY, LATE, Op, rep_target, vf_target

MLX5 = "mlx5_core"

_NEW_VF: Dict[str, Any] = {
    "address": "", "driver": "", "driver_override": "", "netdev": "", "netdev_mac": "", "mac": "", "vlan": 0, "qos": 0,
    "proto": "802.1Q", "trust": False, "spoofchk": None, "link_state": "auto", "min_tx_rate": 0, "max_tx_rate": 0,
    "node_guid": None, "port_guid": None, "mtu": None, "in_use": "", "representor": "", "representor_mtu": None,
    "representor_up": False, "representor_master": "", "representor_vlan": None,
}  # fmt: skip


def put(one: Any, **values: Any) -> None:
    """Change some values of a PF or VF."""
    one.update(values)


class Draft:
    """ops: what is to be done so far. phase: of the operations that are appended now."""

    def __init__(self, fabric: Fabric) -> None:
        self.pfs: Dict[str, Pf] = {pf["address"]: copy.deepcopy(pf) for pf in fabric["pfs"]}
        self.bonds: Dict[str, FabricBond] = {bond["name"]: copy.deepcopy(bond) for bond in fabric["bonds"]}
        self.bridges = {bridge["name"]: copy.deepcopy(bridge) for bridge in fabric["bridges"]}
        self.ovs = copy.deepcopy(fabric["ovs"])
        self.ops: List[Op] = []
        self.phase = EARLY
        self.new: Dict[str, bool] = {}  # PFs whose VFs are made by this plan
        self.seen: Dict[str, List[Vf]] = {pf["address"]: pf["vfs"] for pf in fabric["pfs"]}  # who has them now

    def add(self, kind: str, target: str, value: Any, text: str, disruption: str = "none") -> None:
        """Append an operation as it is."""
        self.ops.append(Op(kind, target, value, self.phase, disruption, text))

    def names(self, addresses: Any) -> List[str]:
        """Network devices of PFs, sorted; addresses stand for those that have none."""
        return sorted(self.pfs[a]["netdev"] or a for a in addresses)

    # --- PFs

    def autoprobe(self, pf: Pf, value: bool) -> None:
        """Whether the kernel looks for drivers of new VFs."""
        if pf["autoprobe"] is not None and pf["autoprobe"] != value and (pf["sriov_total"] or 0) > 0:
            self.add("autoprobe", pf["address"], value, "%s: the kernel %s drivers of new VFs" % (
                words.pf(pf), "looks for" if value else "does not look for"))  # fmt: skip
            pf["autoprobe"] = value

    def count(self, pf: Pf, want: int) -> None:
        """VFs of a PF. The kernel knows no way from one count to another but by none (EBUSY)."""
        have = len(pf["vfs"])
        if have == want:
            return
        if have:
            lost = [] if pf["address"] in self.new else self.seen[pf["address"]]
            self.add("numvfs", pf["address"], 0, words.destroyed(pf, lost), words.loss(pf["vfs"]))
            pf["vfs"] = []
        if want:
            # igb restarts the port when VFs are made (igb_sriov_reinit); mlx5 does not.
            self.add("numvfs", pf["address"], want, "%s: %d VFs are made" % (words.pf(pf), want),
                     "none" if pf["driver"] == MLX5 else "traffic")  # fmt: skip
            for index in range(want):
                new: Any = dict(_NEW_VF, index=index)
                if pf["autoprobe"]:
                    new["driver"] = "?"
                pf["vfs"].append(new)
            self.new[pf["address"]] = True
        pf["sriov_vfs"] = want

    def eswitch(self, pf: Pf, mode: str) -> None:
        """Legacy or switchdev."""
        if pf["eswitch"]["mode"] in (mode, None):
            return
        self.add("eswitch", pf["address"], mode, "%s: eswitch from %s to %s" % (words.pf(pf), pf["eswitch"]["mode"], mode),
                 "traffic")  # fmt: skip
        pf["eswitch"]["mode"] = mode
        pf["lag"] = None if pf["lag"] is None else {"state": "disabled", "type": None, "members": pf["lag"]["members"]}
        if mode == "switchdev":
            self.add("wait_switch_id", pf["address"], None, "%s: wait for its switch id" % words.pf(pf))
        else:
            pf["eswitch"]["multiport"] = pf["eswitch"]["multiport"] and False
            pf["switch_id"] = ""
        for vf in pf["vfs"]:
            put(vf, representor="", representor_up=False, representor_master="", representor_vlan=None, representor_mtu=None)

    def steering(self, pf: Pf, mode: Optional[str]) -> None:
        """Mode of flow steering (smfs, dmfs); it changes in legacy mode only."""
        if mode and pf["eswitch"]["steering"] not in (mode, None):
            self.add("steering", pf["address"], mode, "%s: flow steering %s" % (words.pf(pf), mode))
            pf["eswitch"]["steering"] = mode

    def multiport(self, pf: Pf, on: bool) -> None:
        """Multiport eswitch."""
        if pf["eswitch"]["multiport"] is not None and pf["eswitch"]["multiport"] != on:
            self.add("multiport", pf["address"], on, "%s: multiport eswitch %s" % (words.pf(pf), _on(on)), "traffic")
            pf["eswitch"]["multiport"] = on

    def hw_tc(self, pf: Pf, on: Optional[bool]) -> None:
        """Offload of tc rules."""
        if on is not None and pf["hw_tc_offload"] is not None and pf["hw_tc_offload"] != on:
            self.add("hw_tc", pf["address"], on, "%s: hw-tc-offload %s" % (words.pf(pf), _on(on)))
            pf["hw_tc_offload"] = on

    def pf_up(self, pf: Pf, up: Optional[bool]) -> None:
        """Administrative state; VFs have no link while their PF is down."""
        if up is not None and pf["up"] is not None and pf["up"] != up:
            self.add("up", pf["address"], up, "%s: %s" % (words.pf(pf), "up" if up else "down"), "none" if up else "traffic")
            pf["up"] = up

    def pf_mtu(self, pf: Pf, mtu: Optional[int]) -> None:
        """MTU of the PF's device."""
        if mtu is not None and pf["mtu"] != mtu:
            self.add("mtu", pf["address"], mtu, "%s: MTU %s to %d" % (words.pf(pf), pf["mtu"], mtu), "traffic")
            pf["mtu"] = mtu

    # --- VFs

    def unbind(self, pf: Pf, vf: Vf, why: str = "") -> None:
        """Take the VF from its driver."""
        if vf["driver"]:
            text = "%s is taken from %s%s" % (words.vf(pf, vf["index"]), vf["driver"], words.user(vf))
            self.add("unbind", vf_target(pf["address"], vf["index"]), None, text + (": " + why if why else ""),
                     words.loss([vf]))  # fmt: skip
            put(vf, driver="", netdev="", netdev_mac="", in_use="", mtu=None)

    def bind(self, pf: Pf, vf: Vf, driver: str, disruption: str = "none") -> None:
        """Give the VF to a driver; "" is the one that the kernel chooses."""
        name = driver or "the kernel's choice of driver"
        self.add("bind", vf_target(pf["address"], vf["index"]), driver, "%s to %s" % (words.vf(pf, vf["index"]), name), disruption)
        put(vf, driver=driver or "?", driver_override=driver, netdev_mac=vf["mac"] or "")

    def attribute(self, pf: Pf, vf: Vf, values: Mapping[str, Any]) -> None:
        """Settings of a VF that the PF sets; those of one command together."""
        said = ", ".join("%s %s" % (k, words.value(v)) for k, v in values.items())
        self.add("vf", vf_target(pf["address"], vf["index"]), dict(values), "%s: %s" % (words.vf(pf, vf["index"]), said))
        put(vf, **values)

    # --- bonds

    def release(self, pf: Pf) -> None:
        """Take the PF out of its bond or bridge."""
        if not pf["master"]:
            return
        bond = self.bonds.get(pf["master"])
        self.add("release", pf["address"], pf["master"], "%s leaves %s" % (words.pf(pf), pf["master"]), "traffic")
        if bond is not None:
            bond["slaves"] = [name for name in bond["slaves"] if name != pf["netdev"]]
            pf["up"] = False  # the bond closes a member that leaves
        self._no_lag(pf)
        put(pf, master="", bond="")

    def enslave(self, pf: Pf, bond: str) -> None:
        """Put the PF into the bond."""
        self.add("enslave", pf["address"], bond, "%s joins %s" % (words.pf(pf), bond), "traffic")
        put(pf, master=bond, bond=bond, up=True, mtu=self.bonds[bond]["mtu"])
        self.bonds[bond]["slaves"] = sorted([*self.bonds[bond]["slaves"], pf["netdev"] or pf["address"]])

    def _no_lag(self, pf: Pf) -> None:
        for other in self.pfs.values():
            if other["lag"] is not None and other["card"] == pf["card"]:
                other["lag"] = {"state": "disabled", "type": None, "members": other["lag"]["members"]}

    def bond_add(self, name: str, values: Dict[str, Any]) -> None:
        """A new bond."""
        said = ", ".join("%s %s" % (k, v) for k, v in values.items())
        self.add("bond_add", name, values, "bond %s: %s" % (name, said), "traffic")
        self.bonds[name] = {
            "name": name, "mode": values["mode"], "slaves": [], "active_slave": "", "miimon": values.get("miimon"),
            "lacp_rate": values.get("lacp_rate"), "xmit_hash_policy": values.get("xmit_hash_policy"), "mii_status": "",
            "mtu": 1500, "up": False, "mac": "", "addresses": [], "partner_mac": "", "owner": "", "owner_files": [],
            "master": "",
        }  # fmt: skip

    def bond_del(self, name: str) -> None:
        """The bond goes."""
        self.add("bond_del", name, None, "bond %s goes" % name, "traffic")
        del self.bonds[name]
        for bridge in self.bridges.values():
            bridge["ports"] = [port for port in bridge["ports"] if port["name"] != name]

    def rep(self, kind: str, pf: Pf, vf: Vf, value: Any, text: str) -> None:
        """Something about a representor."""
        self.add(kind, rep_target(pf["address"], vf["index"]), value, "%s: representor %s" % (words.vf(pf, vf["index"]), text))

    def late(self) -> None:
        """From here on: what has to wait for the network."""
        self.phase = LATE


def _on(value: bool) -> str:
    return "on" if value else "off"
