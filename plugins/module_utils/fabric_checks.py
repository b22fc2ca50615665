# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of VF LAG: bond, eswitch, activation. Each takes a View and gives a Hit for each place where it is wrong.

The rules are those of the driver (Linux drivers/net/ethernet/mellanox/mlx5/core/lag/lag.c): the bond holds exactly the
ports of one card, mode active-backup or hash; all ports in the same eswitch mode; a port with VFs in switchdev; VFs
unbound while LAG changes.
"""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Tuple

from .fabric_view import LAG_MODES, Bond, Part, View, counted, label, lag_state, number, switchdev

MOST_VFS = 64
"""More than so many, by the firmware's NUM_OF_VFS, and LAG never activates (Mellanox ovs-tests, NUM_OF_VFS=65)."""

OFFLOADED = ("switchdev", "multiport_eswitch")
"""Types of LAG that carry VFs; `roce` carries the host's own traffic only."""


class Hit(NamedTuple):
    """Evidence of one fault, and the addresses and netdevs of what it is about."""

    evidence: str
    where: Tuple[str, ...]


def at(bond: Bond) -> Tuple[str, ...]:
    """A bond and its PFs."""
    return (bond.name, *(pf["address"] for pf in bond.pfs))


def _bound(bond: Bond) -> List[Tuple[Part, List[Part]]]:
    return [
        (pf, vfs)
        for pf in bond.pfs
        for vfs in [[vf for vf in pf.get("vfs") or () if vf.get("driver")]]
        if vfs
    ]


def vfs_bound_early(view: View) -> Iterator[Hit]:
    """VFs have a driver and LAG is not active, or not of a type that carries VFs."""
    for bond in view.lags:
        state, kind = lag_state(bond)
        bound = _bound(bond)
        if state is None or not bound or (state == "active" and (kind is None or kind in OFFLOADED)):
            continue
        if not all(switchdev(pf) for pf in bond.pfs):
            continue  # legacy mode explains it, whatever is bound
        what = "; ".join("%s of %s" % (counted(vfs), label(pf)) for pf, vfs in bound)
        one = sum(len(vfs) for _pf, vfs in bound) == 1
        if state == "active":
            said = "%s bound before LAG became active: type is %s, not switchdev" % (
                "was" if one else "were",
                kind,
            )
        else:
            said = "%s bound while LAG is %s" % ("is" if one else "are", state)
        where = tuple(vf["address"] for _pf, vfs in bound for vf in vfs)
        yield Hit("%s %s" % (what, said), at(bond) + where)


def lag_type(view: View) -> Iterator[Hit]:
    """LAG is active and of a type that does not carry VFs, and no bound VF explains it."""
    for bond in view.lags:
        state, kind = lag_state(bond)
        if (
            state != "active"
            or kind is None
            or kind in OFFLOADED
            or (_bound(bond) and all(map(switchdev, bond.pfs)))
        ):
            continue
        modes = ", ".join(
            "%s is %s" % (label(pf), (pf.get("eswitch") or {}).get("mode") or "not known") for pf in bond.pfs
        )
        yield Hit(
            "LAG of %s is active, its type is %s, not switchdev (eswitch: %s)" % (bond.name, kind, modes),
            at(bond),
        )


def lag_no_carrier(view: View) -> Iterator[Hit]:
    """LAG is inactive because the bond has no carrier."""
    for bond in view.lags:
        dark = [label(pf) for pf in bond.pfs if pf.get("carrier") is False]
        if lag_state(bond)[0] == "disabled" and bond.pfs and _dark(bond):
            ports = "; no carrier on %s" % ", ".join(dark) if dark else ""
            yield Hit(
                "LAG of %s is disabled, the bond's MII status is %s%s" % (bond.name, _mii(bond), ports),
                at(bond),
            )


def _mii(bond: Bond) -> str:
    return bond.data.get("mii_status") or "not known"


def _dark(bond: Bond) -> bool:
    return _mii(bond) == "down" or all(pf.get("carrier") is False for pf in bond.pfs)


def port_dark(view: View) -> Iterator[Hit]:
    """One port of a bond has no carrier: the next fault is an outage."""
    for bond in view.bonds:
        dark = [pf for pf in bond.pfs if pf.get("carrier") is False]
        if dark and len(dark) < len(bond.pfs) + len(bond.foreign):
            names = ", ".join(label(pf) for pf in dark)
            yield Hit(
                "%s of %s has no carrier" % (names, bond.name), (bond.name, *(pf["address"] for pf in dark))
            )


def lag_inactive(view: View) -> Iterator[Hit]:
    """LAG is inactive and none of the other checks says why."""
    others = (vfs_bound_early, lag_no_carrier, bond_mode, bond_foreign, bond_two_cards, eswitch_mixed, legacy_with_vfs,
              too_many_vfs, multiport_and_bond)  # fmt: skip
    explained = {name for check in others for hit in check(view) for name in hit.where}
    for bond in view.lags:
        if lag_state(bond)[0] == "disabled" and bond.pfs and bond.name not in explained:
            yield Hit(
                "LAG of %s is disabled; the bond's MII status is %s" % (bond.name, _mii(bond)), at(bond)
            )


def bond_mode(view: View) -> Iterator[Hit]:
    """A mode that is not offloaded."""
    for bond in view.lags:
        if bond.mode and bond.mode not in LAG_MODES:
            yield Hit("%s has mode %s" % (bond.name, bond.data.get("mode")), at(bond))


def bond_foreign(view: View) -> Iterator[Hit]:
    """Slaves that are no ports of the card."""
    for bond in view.lags:
        if bond.foreign and bond.pfs:
            yield Hit("%s also holds %s" % (bond.name, ", ".join(bond.foreign)), at(bond) + bond.foreign)


def bond_two_cards(view: View) -> Iterator[Hit]:
    """Ports of several cards."""
    for bond in view.lags:
        cards = {pf["card"]: pf for pf in bond.pfs if pf.get("card")}
        if len(cards) > 1:
            names = "; ".join("%s on card %s" % (label(pf), pf["card"]) for pf in bond.pfs)
            yield Hit("%s holds ports of %d cards: %s" % (bond.name, len(cards), names), at(bond))


def eswitch_mixed(view: View) -> Iterator[Hit]:
    """Ports of one bond in different eswitch modes."""
    for bond in view.lags:
        modes = [(label(pf), (pf.get("eswitch") or {}).get("mode")) for pf in bond.pfs]
        if len({said for _first, said in modes if said}) > 1:
            yield Hit(
                "%s: %s" % (bond.name, ", ".join("%s is %s" % (n, said or "not known") for n, said in modes)),
                at(bond),
            )


def legacy_with_vfs(view: View) -> Iterator[Hit]:
    """A port that has VFs is in legacy mode under a bond."""
    for bond in view.lags:
        for pf in bond.pfs:
            if pf.get("sriov_vfs") and (pf.get("eswitch") or {}).get("mode") == "legacy":
                count = "%d VF%s" % (pf["sriov_vfs"], "s" if pf["sriov_vfs"] > 1 else "")
                yield Hit("%s has %s and is in legacy mode, in %s" % (label(pf), count, bond.name), at(bond))


def too_many_vfs(view: View) -> Iterator[Hit]:
    """The firmware's NUM_OF_VFS is too large for LAG, now or after the next reset."""
    for bond in view.lags:
        for pf in bond.pfs:
            said = _num_of_vfs(view, pf)
            if said:
                yield Hit(
                    "%s: NUM_OF_VFS is %s; it has %s VFs" % (label(pf), said, pf.get("sriov_vfs")), at(bond)
                )
                break  # the value is the card's: the other port says the same


def _num_of_vfs(view: View, pf: Part) -> str:
    """A NUM_OF_VFS that is too large, in words; sriov_totalvfs says it, too, where the firmware was not asked."""
    value = ((view.firmware.get(pf["address"]) or {}).get("values") or {}).get("NUM_OF_VFS") or {}
    now, then = number(value.get("current")), number(value.get("next"))
    if now is None:
        now = pf.get("sriov_total")
    if now is not None and now > MOST_VFS:
        return str(now)
    return "%d after the next reset" % then if then is not None and then > MOST_VFS else ""


def multiport_and_bond(view: View) -> Iterator[Hit]:
    """The multiport eswitch is on, and the ports are bonded."""
    for bond in view.lags:
        on = [pf for pf in bond.pfs if (pf.get("eswitch") or {}).get("multiport")]
        if on:
            yield Hit(
                "esw_multiport is on at %s, in %s" % (", ".join(label(pf) for pf in on), bond.name), at(bond)
            )
