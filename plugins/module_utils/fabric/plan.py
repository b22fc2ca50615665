# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what is wanted and what is there to the operations, in the one order that works. Pure.

Rules of mlx5 (Linux drivers/net/ethernet/mellanox/mlx5/core: lag/lag.c, eswitch_offloads.c, lag/mpesw.c):
VFs are unbound while a LAG comes or goes, or the firmware refuses, and a LAG that was ended with bound VFs comes back
only after a restart of the driver; the number of VFs and the steering mode change in legacy mode; the eswitch does not
change its mode while offloaded flows exist, so representors leave the forwarder first; all PFs of a LAG are in the same
mode; the driver looks at the bond only when something happens to it.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..state import Fabric, Pf
from . import forward, vfplan
from .draft import MLX5, Draft
from .shapes import EARLY, LATE, MULTIPORT, PLAIN, VF_LAG, Desired, DesiredBond, DesiredPf, Op

LAG_TYPE = {VF_LAG: "switchdev", MULTIPORT: "multiport_eswitch"}
HASH_MODES = ("balance-xor", "802.3ad")


def plan(desired: Desired, fabric: Fabric) -> List[Op]:
    """Operations in order; none where nothing differs. PFs that are not there are left out (intent.py tells)."""
    draft = Draft(fabric)
    for bond in sorted(desired.bonds, key=lambda b: not b.absent):  # what goes frees its PFs first
        members = [desired.pf(address) for address in bond.pfs if address in draft.pfs]
        if len(members) == len(bond.pfs):
            _Group(draft, desired, bond, members).run()
    for wish in desired.pfs:
        if wish.address in draft.pfs and desired.bond_of(wish.address) is None:
            _Group(draft, desired, None, [wish]).run()
    return draft.ops


def lag_active(bond: DesiredBond, pfs: Sequence[Pf]) -> bool:
    """Whether mlx5 offloads the PFs as one: state and type; by the common switch id where there are no LAG files.

    The files are there since Linux 5.19, and lockdown may hide them. Under a shared FDB all ports say one switch id.
    """
    if bond.kind == MULTIPORT:
        return all(pf["eswitch"]["multiport"] is True for pf in pfs)
    known = [pf["lag"] for pf in pfs]
    if any(lag is None for lag in known):
        ids = {pf["switch_id"] for pf in pfs}
        return len(ids) == 1 and ids != {""}
    return all(lag is not None and lag["state"] == "active" and lag["type"] == "switchdev" for lag in known)


class _Group:
    """A bond with its PFs, or one PF alone."""

    def __init__(self, draft: Draft, desired: Desired, bond: Optional[DesiredBond], wishes: List[DesiredPf]) -> None:
        self.draft, self.desired, self.bond, self.wishes = draft, desired, bond, wishes
        self.pfs: List[Tuple[DesiredPf, Pf]] = [(wish, draft.pfs[wish.address]) for wish in wishes]
        self.kind = bond.kind if bond is not None else PLAIN
        present = bond is not None and not bond.absent
        self.want_bond = present and self.kind != MULTIPORT
        self.want_multiport = present and self.kind == MULTIPORT
        # Where the firmware joins the PFs, VFs have to be unbound whenever something about that changes.
        self.strict = any(pf["driver"] == MLX5 for _wish, pf in self.pfs) and (
            self.kind != PLAIN or any(pf["lag"] is not None and pf["lag"]["type"] in LAG_TYPE.values() for _wish, pf in self.pfs)
        )
        self.former: Dict[Tuple[str, int], str] = {}

    def shape_differs(self, wish: DesiredPf, pf: Pf) -> bool:
        """Whether VFs have to be made anew or the eswitch changes."""
        eswitch = pf["eswitch"]
        return (
            _differ(wish.vfs, len(pf["vfs"]))
            or _differ(wish.eswitch, eswitch["mode"])
            or _differ(wish.steering or None, eswitch["steering"])
            or _differ(wish.multiport, eswitch["multiport"])
        )

    def bond_differs(self) -> bool:
        """Whether the bond has to be made, unmade, or gets other members or another mode."""
        bond = self.bond
        if bond is None:
            return False
        have = self.draft.bonds.get(bond.name)
        if not self.want_bond:
            return have is not None and bond.absent or any(pf["bond"] for _wish, pf in self.pfs)
        return have is None or have["mode"] != bond.mode or have["slaves"] != self.draft.names(bond.pfs)

    def lag_differs(self) -> bool:
        """Whether the offload is not as wanted although the pieces may be."""
        bond = self.bond
        if bond is None or bond.absent or bond.kind == PLAIN:
            return False
        return not lag_active(bond, [pf for _wish, pf in self.pfs])

    def run(self) -> None:
        """All operations of the group, in order."""
        draft = self.draft
        draft.phase = EARLY
        probing = {pf["address"]: pf["autoprobe"] for _wish, pf in self.pfs}
        shape = {wish.address: self.shape_differs(wish, pf) for wish, pf in self.pfs}
        lag = self.lag_differs()
        rebuild = any(shape.values()) or self.strict and (self.bond_differs() or lag)
        complete = self.want_bond and not self.bond_differs()
        if rebuild:
            self._unbind([pf for _wish, pf in self.pfs if self.strict or shape[pf["address"]]])
        left = self._take_apart(shape)
        self._eswitch_and_vfs()
        for wish, pf in self.pfs:
            draft.pf_up(pf, wish.up)
            draft.hw_tc(pf, wish.hw_tc_offload)
            vfplan.attributes(draft, wish, pf)
        draft.phase = LATE if self.bond is not None and not self.bond.absent else EARLY
        if self.want_bond:
            self._bond(relag=self.kind == VF_LAG and lag and complete and not left)
        self._mtu()
        if self.kind != PLAIN and (self.want_bond or self.want_multiport) and (rebuild or lag):
            self._gate()
        for wish, pf in self.pfs:
            vfplan.drivers(draft, wish, pf, self.former)
            vfplan.mtus(draft, wish, pf)
        if self.bond is not None and not self.bond.absent:
            forward.converge(draft, self.bond)
        for wish, pf in self.pfs:
            former = probing[pf["address"]]
            value = wish.autoprobe if wish.autoprobe is not None else former
            if value is not None:
                draft.autoprobe(pf, value)

    def _unbind(self, pfs: Sequence[Pf]) -> None:
        why = "the LAG changes" if self.strict else ""
        for pf in pfs:
            for vf in pf["vfs"]:
                if vf["driver"]:
                    self.former[(pf["address"], vf["index"])] = vf["driver"] if vf["driver_override"] else ""
                    self.draft.unbind(pf, vf, why)

    def _take_apart(self, shape: Dict[str, bool]) -> bool:
        """What would be in the way: representors in a forwarder, PFs in a bond. Whether a PF has left its bond."""
        bond, draft = self.bond, self.draft
        if bond is None:
            return False
        changing = [pf for _wish, pf in self.pfs if shape[pf["address"]]]
        for pf in [pf for _wish, pf in self.pfs] if bond.absent else changing if self.strict else []:
            forward.detach(draft, pf)
        if bond.absent:
            forward.remove(draft, bond)
        have = draft.bonds.get(bond.name)
        leave = not self.want_bond or self.strict and bool(changing) or have is not None and have["mode"] != bond.mode
        left = False
        for _wish, pf in self.pfs:
            if leave and pf["bond"] or pf["master"] not in ("", bond.name):
                draft.release(pf)
                left = True
        if bond.absent and have is not None and self.kind != MULTIPORT:
            draft.bond_del(bond.name)
        elif have is not None:
            left = self._strangers(bond, have["mode"] != bond.mode) or left
        return left

    def _strangers(self, bond: DesiredBond, every: bool) -> bool:
        """Members of the bond that are none of its PFs: with them mlx5 makes no LAG."""
        have = self.draft.bonds[bond.name]
        own = self.draft.names(bond.pfs)
        leaving = [name for name in have["slaves"] if every or name not in own] if self.want_bond else []
        for name in leaving:
            self.draft.add("release_dev", name, bond.name, "%s leaves %s" % (name, bond.name), "traffic")
            have["slaves"].remove(name)
        return bool(leaving)

    def _eswitch_and_vfs(self) -> None:
        draft, multiport = self.draft, self.kind == MULTIPORT
        for wish, pf in self.pfs:
            if _differ(wish.vfs, len(pf["vfs"])):
                # So that nothing binds new VFs before their time; the wanted value is set at the end.
                draft.autoprobe(pf, False)
        for wish, pf in self.pfs if multiport else ():
            if wish.vfs is not None and len(pf["vfs"]) not in (0, wish.vfs):
                draft.count(pf, 0)
        self._to_legacy()
        if not self.want_multiport:
            self._counts()
        for wish, pf in self.pfs:
            draft.steering(pf, wish.steering)
        for pf in [pf for wish, pf in self.pfs if wish.eswitch == "switchdev"]:
            draft.eswitch(pf, "switchdev")
        if self.want_multiport:
            for _wish, pf in self.pfs:
                draft.multiport(pf, True)
            self._counts()

    def _to_legacy(self) -> None:
        """Where the number of VFs or the steering mode changes, or legacy is what is wanted."""
        for pf in [pf for wish, pf in self.pfs if wish.multiport is False]:
            self.draft.multiport(pf, False)
        for wish, pf in self.pfs:
            count = _differ(wish.vfs, len(pf["vfs"])) and not self.want_multiport
            steering = _differ(wish.steering or None, pf["eswitch"]["steering"])
            if wish.eswitch is not None and (wish.eswitch == "legacy" or count or steering):
                if pf["eswitch"]["mode"] == "switchdev":
                    self.draft.multiport(pf, False)
                self.draft.eswitch(pf, "legacy")

    def _counts(self) -> None:
        for wish, pf in self.pfs:
            if wish.vfs is not None:
                self.draft.count(pf, wish.vfs)

    def _bond(self, relag: bool) -> None:
        bond, draft = self.bond, self.draft
        if bond is None:
            raise AssertionError("only called where there is a bond")
        have = draft.bonds.get(bond.name)
        options = _options(bond)
        if have is None:
            draft.bond_add(bond.name, options)
            have = draft.bonds[bond.name]
        else:
            known: Any = have
            changed = {key: value for key, value in options.items() if known.get(key) not in (value, None)}
            if changed:
                said = ", ".join("%s %s to %s" % (k, known[k], v) for k, v in changed.items())
                harm = "traffic" if set(changed) & {"mode", "lacp_rate"} else "none"
                draft.add("bond_set", bond.name, changed, "bond %s: %s" % (bond.name, said), harm)
                known.update(changed)
                have["up"] = False if harm == "traffic" else have["up"]
        for _wish, pf in self.pfs:
            if pf["master"] != bond.name:
                draft.enslave(pf, bond.name)
        if relag:
            last = self.pfs[-1][1]
            text = "%s: %s leaves it and comes back, so that mlx5 looks at it again" % (bond.name, last["netdev"])
            draft.add("relag", last["address"], {"bond": bond.name, "pfs": list(bond.pfs), "type": LAG_TYPE[bond.kind]}, text,
                      "traffic")  # fmt: skip
        if have["up"] is False:
            draft.add("bond_up", bond.name, True, "bond %s: up" % bond.name)
            have["up"] = True

    def _mtu(self) -> None:
        bond, draft = self.bond, self.draft
        if bond is None or not self.want_bond:
            for wish, pf in self.pfs:
                draft.pf_mtu(pf, wish.mtu)
            return
        mtu = bond.mtu or next((wish.mtu for wish, _pf in self.pfs if wish.mtu), None)
        have = draft.bonds[bond.name]
        if mtu is not None and (have["mtu"] != mtu or any(pf["mtu"] != mtu for _wish, pf in self.pfs)):
            # A bond hands its MTU down (bond_change_mtu).
            text = "bond %s and its PFs: MTU %s to %d" % (bond.name, have["mtu"], mtu)
            draft.add("bond_mtu", bond.name, mtu, text, "traffic")
            have["mtu"] = mtu
            for _wish, pf in self.pfs:
                pf["mtu"] = mtu

    def _gate(self) -> None:
        bond = self.bond
        if bond is None:
            raise AssertionError("only called where there is a bond")
        wanted = LAG_TYPE[bond.kind]
        value = {"pfs": list(bond.pfs), "type": wanted, "timeout": self.desired.lag_timeout}
        self.draft.add("gate", bond.name, value, "wait until the LAG of %s is active and of type %s" % (bond.name, wanted))
        for _wish, pf in self.pfs:
            if pf["lag"] is not None:
                pf["lag"] = {"state": "active", "type": wanted, "members": list(bond.pfs)}


def _differ(want: Any, have: Any) -> bool:
    """Whether there is a wish and something else. What could not be read differs from nothing."""
    return want is not None and have is not None and want != have


def _options(bond: DesiredBond) -> Dict[str, Any]:
    """What `ip link ... type bond` is told; the mode first, as others depend on it."""
    options: Dict[str, Any] = {"mode": bond.mode}
    if bond.miimon is not None:
        options["miimon"] = bond.miimon
    if bond.lacp_rate and bond.mode == "802.3ad":
        options["lacp_rate"] = bond.lacp_rate
    if bond.xmit_hash_policy and bond.mode in HASH_MODES:
        options["xmit_hash_policy"] = bond.xmit_hash_policy
    return options
