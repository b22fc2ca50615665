# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the files of a network manager say of a device (Claim), and what ours are to say of a bond (View). Pure."""

from __future__ import annotations

import fnmatch
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..fabric.shapes import BRIDGE, EXTERNAL, OVS, DesiredBond
from ..state import Claim, Fabric, Pf

NETWORKD, NM, IFUPDOWN, NETPLAN = "networkd", "NetworkManager", "ifupdown", "netplan"
OUTSIDE = "external"
MARK = "Written by nearmetal: changes are lost"
OPTIONS = ("mode", "miimon", "lacp_rate", "xmit_hash_policy")
MODES = ("balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb")
"""In the order of the kernel's numbers (bonding.rst)."""


class PortView(NamedTuple):
    """A port of the bond: by its permanent MAC, which no renaming changes."""

    key: str  # PCI address with dashes: "0000-08-00.0"
    address: str
    mac: str


class View(NamedTuple):
    """A bond as the files are to say it. bridge: Linux bridge that it joins. keep_master: somebody else gives it one."""

    name: str
    mode: str
    miimon: Optional[int]
    lacp_rate: Optional[str]
    xmit_hash_policy: Optional[str]
    mtu: Optional[int]
    addresses: Tuple[str, ...]
    ports: Tuple[PortView, ...]
    bridge: str
    bridge_addresses: Tuple[str, ...]
    keep_master: bool


def view(bond: DesiredBond, fabric: Fabric) -> View:
    """The bond with its ports as they are on this host."""
    way = bond.forwarding
    bridged = way.type == BRIDGE and bool(way.name)
    hashed = bond.mode in ("balance-xor", "802.3ad")
    return View(
        bond.name, bond.mode, bond.miimon, bond.lacp_rate if bond.mode == "802.3ad" else None,
        bond.xmit_hash_policy if hashed else None, bond.mtu, bond.addresses,
        tuple(PortView(a.replace(":", "-"), a, mac_of(a, fabric)) for a in bond.pfs),
        way.name if bridged else "", way.addresses if bridged else (), way.type in (OVS, EXTERNAL),
    )  # fmt: skip


def mac_of(address: str, fabric: Fabric) -> str:
    """Permanent MAC of a PF; "" where it has no network device."""
    return next((pf["mac"].lower() for pf in fabric["pfs"] if pf["address"] == address), "")


def claim(owner: str, file: str, line: int, kind: str, **more: Any) -> Claim:
    """A claim with what is said; the rest empty. kind: "bond", "device"."""
    made: Dict[str, Any] = {
        "owner": owner, "file": file, "line": line, "kind": kind, "device": "", "macs": [], "paths": [], "master": "",
        "ports": [], "options": {}, "addresses": [], "dhcp": False, "auto": True,
    }  # fmt: skip
    made.update(more)
    return made  # type: ignore[return-value]


def ours(path: str) -> bool:
    """Whether the file is named as those that nearmetal writes."""
    return re.match(r"(\d\d-)?nearmetal-", path.rpartition("/")[2]) is not None


def strength(found: Claim, pf: Pf) -> str:
    """How a claim fits a PF: "exact" (this device is meant), "pattern" (any device like it), "" (not at all).

    All that is given must fit; a name counts only with the device's present name.
    """
    exact = False
    if found["macs"]:
        if pf["mac"].lower() not in found["macs"]:
            return ""
        exact = True
    if found["paths"]:
        path = "pci-" + pf["address"]
        if not any(fnmatch.fnmatchcase(path, p) for p in found["paths"]):
            return ""
        exact = exact or path in found["paths"]
    names = found["device"].split()
    if names:
        if not pf["netdev"] or not any(fnmatch.fnmatchcase(pf["netdev"], n) for n in names):
            return ""
        exact = exact or pf["netdev"] in names
    return "exact" if exact else "pattern"


def same_options(options: Mapping[str, Any], bond: DesiredBond) -> List[str]:
    """What a foreign configuration of the bond says otherwise than wanted: ["mode balance-rr, not 802.3ad"]."""
    wanted: Dict[str, Any] = {"mode": bond.mode, "miimon": bond.miimon, "mtu": bond.mtu}
    wanted["lacp_rate"] = bond.lacp_rate if bond.mode == "802.3ad" else None
    wanted["xmit_hash_policy"] = bond.xmit_hash_policy if bond.mode in ("balance-xor", "802.3ad") else None
    found = []
    for key, value in wanted.items():
        said = options.get(key, _DEFAULTS.get(key))
        if value is not None and said is not None and str(said) != str(value):
            found.append("%s %s, not %s" % (key, said, value))
    return found


_DEFAULTS = {"mode": "balance-rr"}
"""What a bond is that is said nothing of (the kernel's default)."""


def mode_name(text: str) -> str:
    """A mode by its name; numbers are allowed in many places."""
    word = text.strip().lower()
    return MODES[int(word)] if word in "0123456" and word else word


def sections(text: str) -> List[Tuple[int, str, List[Tuple[int, str, str]]]]:
    """Of an INI file: (line, section, [(line, key, value)]) in order, keys as often as they stand. Lines from 1."""
    found: List[Tuple[int, str, List[Tuple[int, str, str]]]] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            found.append((number, line[1:-1], []))
        elif found and "=" in line and line[0] not in "#;":
            key, value = (part.strip() for part in line.split("=", 1))
            found[-1][2].append((number, key, value))
    return found


def lines(parts: Sequence[str]) -> str:
    """Text of lines; "" for none."""
    return "".join(part + "\n" for part in parts)
