# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be done about single VFs: settings, drivers, MTU. Nothing here makes a VF anew."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

from ..state import Pf, Vf
from .draft import Draft
from .shapes import UNBOUND, DesiredPf, DesiredVf

ALONE = ("mac", "trust", "spoofchk", "link_state", "node_guid", "port_guid")
VLAN = ("vlan", "qos", "proto")
DEFAULT_MTU = 1500
NOT_IN_SWITCHDEV = frozenset(("vlan", "qos", "proto", "trust", "spoofchk"))
"""mlx5_eswitch_set_vport_vlan, _spoofchk and _trust answer EOPNOTSUPP outside legacy mode; intent.py refuses them."""


def wishes(wish: DesiredPf) -> Dict[int, DesiredVf]:
    """The VFs of which something is wanted."""
    return {vf.index: vf for vf in wish.vf}


def attributes(draft: Draft, wish: DesiredPf, pf: Pf) -> None:
    """Settings by way of the PF. Those that the driver does not report are only set on new VFs."""
    listed = wishes(wish)
    new = pf["address"] in draft.new
    for vf in pf["vfs"]:
        if vf["index"] not in listed:
            continue
        want = listed[vf["index"]]
        for key in ALONE:
            if _differs(pf, vf, want, key, new):
                draft.attribute(pf, vf, {key: getattr(want, key)})
        if any(_differs(pf, vf, want, key, new) for key in VLAN):
            have: Any = vf
            said = {key: getattr(want, key) for key in VLAN}
            draft.attribute(pf, vf, {k: have[k] if v is None else v for k, v in said.items()})
        for key in _rate_order(vf, want):
            if _differs(pf, vf, want, key, new):
                draft.attribute(pf, vf, {key: getattr(want, key)})


def _differs(pf: Pf, vf: Vf, want: DesiredVf, key: str, new: bool) -> bool:
    wished = getattr(want, key)
    have = vf[key]  # type: ignore[literal-required]
    if wished is None or key in NOT_IN_SWITCHDEV and pf["eswitch"]["mode"] == "switchdev":
        return False
    return wished != have and (have is not None or new)


def _rate_order(vf: Vf, want: DesiredVf) -> Tuple[str, str]:
    """The kernel refuses a lower limit above the upper one, also on the way: 0 is no limit."""
    high, low = want.max_tx_rate, vf["min_tx_rate"] or 0
    return ("min_tx_rate", "max_tx_rate") if high and high < low else ("max_tx_rate", "min_tx_rate")


def drivers(draft: Draft, wish: DesiredPf, pf: Pf, former: Mapping[Tuple[str, int], str]) -> None:
    """Each VF to its driver. former: drivers of VFs that were unbound for a while, and get them back."""
    listed = wishes(wish)
    for vf in pf["vfs"]:
        want = listed.get(vf["index"], DesiredVf(vf["index"]))
        driver = want.driver
        if driver is None:
            driver = former.get((pf["address"], vf["index"]))
        if driver == UNBOUND:
            draft.unbind(pf, vf)
        elif driver is not None and _other_driver(vf, driver):
            draft.unbind(pf, vf)
            draft.bind(pf, vf, driver)
        elif vf["netdev"] and want.mac and vf["netdev_mac"] not in ("", want.mac):
            # The VF's driver reads the address that the PF has set when it starts.
            again = vf["driver"] if vf["driver_override"] else ""
            draft.unbind(pf, vf, "its MAC takes effect when its driver starts")
            draft.bind(pf, vf, again, "traffic")


def _other_driver(vf: Vf, driver: str) -> bool:
    if driver:
        return vf["driver"] not in (driver, "?")
    return not vf["driver"] or bool(vf["driver_override"]) and vf["driver_override"] == vf["driver"] and vf["driver"] != "?"


def mtus(draft: Draft, wish: DesiredPf, pf: Pf) -> None:
    """MTU of the VFs' own devices, where the host has them, and of representors: that of the PF, or their own."""
    listed = wishes(wish)
    for vf in pf["vfs"]:
        want = listed.get(vf["index"], DesiredVf(vf["index"]))
        mtu = want.mtu or wish.mtu
        if mtu is None:
            continue
        if pf["eswitch"]["mode"] == "switchdev" and (vf["representor_mtu"] or DEFAULT_MTU) != mtu:
            draft.rep("rep_mtu", pf, vf, mtu, "MTU %d" % mtu)
            vf["representor_mtu"] = mtu
        bound_now = not vf["netdev"] and _gets_netdev(draft, pf, vf)
        if vf["netdev"] and vf["mtu"] != mtu or bound_now and mtu != DEFAULT_MTU:
            draft.add("vf_mtu", "%s/vf%d" % (pf["address"], vf["index"]), mtu, "VF %d of %s: MTU %d" % (
                vf["index"], pf["netdev"], mtu), "none" if bound_now else "traffic")  # fmt: skip
            vf["mtu"] = mtu


def _gets_netdev(draft: Draft, pf: Pf, vf: Vf) -> bool:
    """Whether this plan gives the VF to a driver of the kernel's network."""
    target = "%s/vf%d" % (pf["address"], vf["index"])
    return vf["driver"] not in ("", "vfio-pci") and any(op.kind == "bind" and op.target == target for op in draft.ops)
