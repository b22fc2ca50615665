# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who makes a bond at boot, and what our files for it are. Pure: from the observed state to a choice.

Nobody is fought: where a file of somebody else says something different of the bond or of its ports, the choice is a
problem that names file, owner and the way out.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..fabric.shapes import MULTIPORT, DesiredBond
from ..model import Problem
from ..state import Claim, Fabric, Managers, Pf
from . import own_ifupdown, own_netplan, own_networkd, own_nm
from .bondview import IFUPDOWN, NETPLAN, NETWORKD, NM, OUTSIDE, View, mac_of, same_options, strength, view

VARIABLE = "vf_lag_bonds"
NOBODY = ""
"""No network manager: the boot units make the bond."""

Files = Dict[str, Tuple[str, int]]


class Choice(NamedTuple):
    """owner: who makes the bond at boot (NOBODY: our units). why: the evidence. files: ours, {path: (text, mode)}.

    foreign: "file:line" of somebody else's configuration that already says the same; then there are no files of ours.
    """

    owner: str
    why: str
    files: Files
    foreign: str
    problems: List[Problem]


def choose(bond: DesiredBond, fabric: Fabric) -> Choice:
    """For one bond. An absent bond, or a multiport eswitch, needs no file."""
    managers = fabric["managers"]
    if bond.absent or bond.kind == MULTIPORT:
        return Choice(NOBODY, "", {}, "", _absent_problems(bond, managers))
    pfs = [pf for pf in fabric["pfs"] if pf["address"] in bond.pfs]
    about = [c for c in managers["claims"] if c["kind"] == "bond" and c["device"] == bond.name]
    if bond.owner == OUTSIDE:
        return Choice(OUTSIDE, "owner: external", {}, ", ".join(place(c) for c in about), [])
    owner, why, found = _owner(bond, about, managers)
    if not found:
        found = _unreadable(owner, managers) + _conflicts(bond, about, pfs, managers, owner)
    covered = [c for c in about if c["owner"] == owner]
    if found or covered:
        return Choice(owner, why, {}, place(covered[0]) if covered else "", found)
    if owner == NOBODY:
        return Choice(NOBODY, why, {}, "", [])
    found = [*_nameless(bond, fabric), *_not_sourced(owner, managers)]
    return Choice(owner, why, {} if found else render(owner, view(bond, fabric)), "", found)


def place(found: Claim) -> str:
    """"/etc/netplan/50-cloud-init.yaml:12"."""
    return "%s:%d" % (found["file"], found["line"])


def render(owner: str, bond: View) -> Files:
    """Our files of a bond."""
    makers: Dict[str, Any] = {
        NETWORKD: own_networkd.render, NM: own_nm.render, IFUPDOWN: own_ifupdown.render, NETPLAN: own_netplan.render,
    }  # fmt: skip
    made: Files = makers[owner](bond)
    return made


def load(owner: str, renderer: str) -> List[List[str]]:
    """Commands that make an owner read its files; none of them disturbs what did not change."""
    if owner == NETPLAN:
        return own_netplan.load(renderer)
    return {NETWORKD: own_networkd.load, NM: own_nm.load, IFUPDOWN: own_ifupdown.load}[owner]() if owner in _UNIT else []


def owner_of(path: str) -> str:
    """Whose file that is, by where it lies; "" where it is of no manager."""
    for owner, folders in (
        (NETWORKD, own_networkd.FOLDERS), (NM, (own_nm.FOLDER, own_nm.IFCFG)), (IFUPDOWN, (own_ifupdown.FOLDER,)),
        (NETPLAN, own_netplan.FOLDERS),
    ):  # fmt: skip
        if path.rpartition("/")[0] in folders:
            return owner
    return ""


_UNIT = {NETWORKD: own_networkd.UNIT, NM: own_nm.UNIT, IFUPDOWN: own_ifupdown.UNIT}
ACTIVE = ("active", "activating", "reloading")


def active(managers: Managers) -> List[str]:
    """The managers that run."""
    return [owner for owner, unit in _UNIT.items() if managers["units"].get(unit, "") in ACTIVE]


def _owner(bond: DesiredBond, about: List[Claim], managers: Managers) -> Tuple[str, str, List[Problem]]:
    running = active(managers)
    if bond.owner != "auto":
        return _named(bond, running, managers)
    for found in about:
        needed = managers["renderer"] if found["owner"] == NETPLAN else found["owner"]
        if needed in running:
            return found["owner"], "%s makes %s (%s)" % (found["owner"], bond.name, place(found)), []
    if managers["renderer"] in running:
        return NETPLAN, "netplan has files, and its renderer %s runs" % managers["renderer"], []
    if len(running) > 1:
        running = [o for o in running if any(c["owner"] == o for c in managers["claims"])] or running
        # networking.service is always active on Debian once it ran, whoever does the work.
        running = [o for o in running if o != IFUPDOWN] or running
    if len(running) > 1:
        text = "%s: both %s run and have files: who shall make the bond?" % (bond.name, " and ".join(running))
        return running[0], "", [Problem(VARIABLE, "auto", text, "set owner of %s to one of them" % bond.name, "host")]
    if running:
        return running[0], "%s is %s" % (_UNIT[running[0]], managers["units"][_UNIT[running[0]]]), []
    return NOBODY, "no network manager runs: the boot units make the bond", []


def _named(bond: DesiredBond, running: List[str], managers: Managers) -> Tuple[str, str, List[Problem]]:
    """The owner that the intent names must be there."""
    needed = managers["renderer"] if bond.owner == NETPLAN else bond.owner
    if needed in running:
        return bond.owner, "owner: %s" % bond.owner, []
    if bond.owner == NETPLAN and not needed:
        text = "%s: owner netplan, but there is no file in %s" % (bond.name, own_netplan.FOLDERS[0])
    else:
        text = "%s: owner %s, but %s is %s" % (
            bond.name, bond.owner, _UNIT[needed], managers["units"].get(_UNIT[needed], "") or "not known")  # fmt: skip
    return bond.owner, "", [Problem(VARIABLE, bond.owner, text, "name who really sets up the network, or auto", "host")]


def _unreadable(owner: str, managers: Managers) -> List[Problem]:
    """What an owner's file says is not known: it may say something else of the bond."""
    return [
        Problem(VARIABLE, text.partition(":")[0], "%s: not known what it says of the bond" % text,
                "make it readable, in plain YAML or INI, or set owner: external and configure the bond there", "host")
        for text in managers["unreadable"] if owner and owner_of(text.partition(":")[0]) == owner
    ]  # fmt: skip


def _conflicts(bond: DesiredBond, about: List[Claim], pfs: List[Pf], managers: Managers, owner: str) -> List[Problem]:
    found: List[Problem] = []
    running = active(managers)
    for one in about:
        needed = managers["renderer"] if one["owner"] == NETPLAN else one["owner"]
        if needed not in running:
            continue
        if one["owner"] != owner:
            found.append(_problem(bond, one, "makes %s, too" % bond.name, owner))
            continue
        differing = same_options(one["options"], bond)
        missing = [a for a in bond.addresses if a not in one["addresses"] + _given(bond, managers, owner)]
        differing += ["address %s is missing" % a for a in missing]
        members = _members(one, bond, pfs, managers)
        differing += ["its ports are %s" % members] if members else []
        if differing:
            found.append(_problem(bond, one, "makes %s otherwise than wanted: %s" % (bond.name, ", ".join(differing)), owner))
    for pf in pfs:
        found += _port_conflicts(bond, pf, managers, owner)
    return found


def _given(bond: DesiredBond, managers: Managers, owner: str) -> List[str]:
    """Addresses that other files of the owner give the bond (networkd has them in .network files)."""
    return [
        a for c in managers["claims"] if c["owner"] == owner and c["kind"] == "device" and c["device"] == bond.name
        for a in c["addresses"]
    ]  # fmt: skip


def _members(one: Claim, bond: DesiredBond, pfs: List[Pf], managers: Managers) -> str:
    """Which PFs a foreign bond has, where they are not those that are wanted; "" where they are."""
    ports = [c for c in managers["claims"] if c["owner"] == one["owner"] and c["kind"] == "device" and c["master"] == bond.name]
    have = [pf["address"] for pf in pfs if any(strength(c, pf) for c in ports)]
    if len(have) == len(bond.pfs):
        return ""
    return " and ".join(have) or "none of the wanted PFs"


def _port_conflicts(bond: DesiredBond, pf: Pf, managers: Managers, owner: str) -> List[Problem]:
    found = []
    running = active(managers)
    for one in managers["claims"]:
        needed = managers["renderer"] if one["owner"] == NETPLAN else one["owner"]
        if one["kind"] != "device" or needed not in running or not one["auto"]:
            continue
        fits = strength(one, pf)
        # Of patterns, ours come first by their name or priority; only with networkd may another file sort before them.
        if not fits or fits == "pattern" and not _before_ours(one):
            continue
        if one["master"] and one["master"] != bond.name:
            found.append(_problem(bond, one, "puts %s into %s" % (_name(pf), one["master"]), owner))
        elif not one["master"] and (one["dhcp"] or one["addresses"]):
            said = "DHCP" if one["dhcp"] else ", ".join(one["addresses"])
            found.append(_problem(bond, one, "sets up %s by itself (%s)" % (_name(pf), said), owner))
    return found


def _before_ours(one: Claim) -> bool:
    return one["owner"] == NETWORKD and one["file"].rpartition("/")[2] < "05-nearmetal-"


def _name(pf: Pf) -> str:
    return "%s (%s)" % (pf["netdev"], pf["address"]) if pf["netdev"] else pf["address"]


def _problem(bond: DesiredBond, one: Claim, what: str, owner: str) -> Problem:
    fix = "take it out of %s and let nearmetal write it (owner: %s), or set it there as wanted, with owner: external" % (
        one["file"], owner or one["owner"])  # fmt: skip
    return Problem(VARIABLE, bond.name, "%s: %s of %s %s" % (bond.name, place(one), one["owner"], what), fix, "host")


def _nameless(bond: DesiredBond, fabric: Fabric) -> List[Problem]:
    """Ports are known by their MAC: a name may change, and the path is that of their representors, too."""
    return [
        Problem(VARIABLE, a, "%s: %s has no network device, and so no MAC by which its owner could know it" % (bond.name, a),
                "bind the PF to its network driver", "host")
        for a in bond.pfs if not mac_of(a, fabric)
    ]  # fmt: skip


def _not_sourced(owner: str, managers: Managers) -> List[Problem]:
    if owner != IFUPDOWN or managers["sourced"]:
        return []
    text = "%s does not take in %s: ifupdown would never read the file of the bond" % (own_ifupdown.MAIN, own_ifupdown.FOLDER)
    return [Problem(VARIABLE, own_ifupdown.MAIN, text, "add the line: source %s/*" % own_ifupdown.FOLDER, "host")]


def _absent_problems(bond: DesiredBond, managers: Managers) -> List[Problem]:
    """A bond that somebody else makes comes back at the next boot."""
    if not bond.absent or bond.owner == OUTSIDE:
        return []
    running = active(managers)
    found: List[Problem] = []
    for one in managers["claims"]:
        needed: Optional[str] = managers["renderer"] if one["owner"] == NETPLAN else one["owner"]
        if one["kind"] == "bond" and one["device"] == bond.name and needed in running:
            text = "%s: %s of %s makes it again at the next boot" % (bond.name, place(one), one["owner"])
            found.append(Problem(VARIABLE, bond.name, text, "take it out of %s" % one["file"], "host"))
    return found
