# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the variables of sriov and vf_lag whatever the host. Pure."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Dict, List, Mapping, Sequence

from ..model import Problem
from . import select
from .shapes import BRIDGE, EXTERNAL, NONE, OVS

PFS = "sriov_pfs"
BONDS = "vf_lag_bonds"
MODES = ("active-backup", "balance-xor", "802.3ad")
"""What mlx5 can offload: transmission of type active-backup or hash (bond modes 1, 2, 4; lag/lag.c)."""
NUMBERS = {"0": "balance-rr", "1": "active-backup", "2": "balance-xor", "3": "broadcast", "4": "802.3ad", "5": "balance-tlb", "6": "balance-alb"}  # fmt: skip # noqa: E501
MOST_VFS = 64
DEVICE_NAME = re.compile(r"[^\s/:]{1,15}\Z")
_GUID = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){7}\Z")
_INDEX = re.compile(r"(\d+)(?:-(\d+))?\Z")

Options = Mapping[str, Any]


def expand(index: Any) -> List[int]:
    """Numbers of VFs: 3, "0-3", "0-3,6", [0, 2]. Raises ValueError for anything else."""
    if isinstance(index, bool):
        raise ValueError("%r is no number of a VF" % index)
    if isinstance(index, int):
        return [index]
    parts = index if isinstance(index, (list, tuple)) else str(index).split(",")
    found: List[int] = []
    for part in parts:
        match = _INDEX.match(str(part).strip())
        if match is None:
            raise ValueError("%r names no VFs" % part)
        first, last = int(match.group(1)), int(match.group(2) or match.group(1))
        if last < first or last - first > 4095:
            raise ValueError("%r names no VFs" % part)
        found += range(first, last + 1)
    return found


def pfs_problems(entries: Sequence[Options]) -> List[Problem]:
    """sriov_pfs."""
    found: List[Problem] = []
    seen: Dict[str, str] = {}
    macs: Dict[str, str] = {}
    for entry in entries:
        problem = select.malformed(entry["pf"], PFS)
        found += [problem] if problem is not None else []
        name = select.said(entry["pf"])
        if name in seen:
            found.append(Problem(PFS, name, "this PF is given twice", "give each PF once"))
        seen[name] = name
        count = entry.get("vfs")
        if count is not None and count < 0:
            found.append(Problem(PFS, count, "%d VFs cannot be made (%s)" % (count, name), "write 0 or more"))
        found += _mtu_problems(entry, name)
        for options in entry.get("vf") or ():
            found += _vf_problems(options, entry, name, macs)
    return found


def _mtu_problems(entry: Options, name: str) -> List[Problem]:
    found = []
    for options in (entry, *(entry.get("vf") or ())):
        mtu = options.get("mtu")
        if mtu is not None and not 68 <= mtu <= 9978:
            found.append(Problem(PFS, mtu, "no MTU (%s)" % name, "write 68 to 9978, 9000 for jumbo frames"))
        elif mtu is not None and entry.get("mtu") and mtu > entry["mtu"]:
            text = "the MTU of a VF is above that of its PF, %d (%s)" % (entry["mtu"], name)
            found.append(Problem(PFS, mtu, text, "raise the mtu of the PF, or lower that of the VF"))
    return found


def _vf_problems(options: Options, entry: Options, name: str, macs: Dict[str, str]) -> List[Problem]:
    try:
        indexes = expand(options["index"])
    except ValueError as err:
        return [Problem(PFS, options["index"], "%s (%s)" % (err, name), "write 3, 0-3 or a list")]
    found = []
    count = entry.get("vfs")
    if count is not None and indexes and max(indexes) >= count and entry.get("state") != "absent":
        text = "VF %d is described, but only %d VFs are asked for (%s)" % (max(indexes), count, name)
        found.append(Problem(PFS, options["index"], text, "count from 0, or raise vfs"))
    found += _mac_problems(options, indexes, name, macs)
    found += _range_problems(options, name)
    low, high = options.get("min_tx_rate"), options.get("max_tx_rate")
    if low and high and low > high:
        text = "min_tx_rate %d is above max_tx_rate %d (%s)" % (low, high, name)
        found.append(Problem(PFS, low, text, "lower min_tx_rate"))
    for key in ("node_guid", "port_guid"):
        if options.get(key) and not _GUID.match(str(options[key]).lower()):
            found.append(Problem(PFS, options[key], "no GUID (%s)" % name, "write it like 00:11:22:33:44:55:66:77"))
    if (options.get("qos") or options.get("proto") == "802.1ad") and not options.get("vlan"):
        key = "qos" if options.get("qos") else "proto"
        found.append(Problem(PFS, options[key], "%s is about a VLAN, and there is none (%s)" % (key, name), "give vlan too"))
    return found


def _mac_problems(options: Options, indexes: Sequence[int], name: str, macs: Dict[str, str]) -> List[Problem]:
    if not options.get("mac"):
        return []
    mac = select.normal("mac", str(options["mac"]))
    if re.match(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z", mac) is None or mac == "00:00:00:00:00:00":
        return [Problem(PFS, options["mac"], "no MAC address of a VF (%s)" % name, "write it like 02:00:00:00:00:01")]
    if int(mac[:2], 16) & 1:
        text = "a multicast address: the lowest bit of its first byte is set (%s)" % name
        return [Problem(PFS, options["mac"], text, "use an even first byte, such as 02")]
    if len(indexes) > 1:
        return [Problem(PFS, options["mac"], "one MAC for %d VFs (%s)" % (len(indexes), name), "give each VF its own entry")]
    here = "VF %d, %s" % (indexes[0] if indexes else 0, name)
    if mac in macs:
        text = "the same MAC for two VFs: %s, and %s" % (macs[mac], here)
        return [Problem(PFS, options["mac"], text, "give each VF a MAC of its own")]
    macs[mac] = here
    return []


def _range_problems(options: Options, name: str) -> List[Problem]:
    found = []
    for key, most, hint in (
        ("vlan", 4094, "write 1 to 4094, or 0 for none"), ("qos", 7, "write 0 to 7"),
        ("min_tx_rate", 10**7, "write Mbit/s, 0 for no limit"), ("max_tx_rate", 10**7, "write Mbit/s, 0 for no limit"),
    ):  # fmt: skip
        value = options.get(key)
        if value is not None and not 0 <= value <= most:
            found.append(Problem(PFS, value, "no %s (%s)" % (key, name), hint))
    return found


def bonds_problems(bonds: Sequence[Options]) -> List[Problem]:
    """vf_lag_bonds."""
    found: List[Problem] = []
    names: Dict[str, bool] = {}
    for options in bonds:
        name = options["name"]
        if not DEVICE_NAME.match(name) or name in (".", "..", "all", "default"):
            found.append(Problem(BONDS, name, "no name for a network device", "write up to 15 characters, such as bond0"))
        if name in names:
            found.append(Problem(BONDS, name, "this bond is given twice", "give each bond once"))
        names[name] = True
        found += [p for p in (select.malformed(selector, BONDS) for selector in options["pfs"]) if p is not None]
        found += _bond_problems(options)
    return found


def _bond_problems(options: Options) -> List[Problem]:
    found = []
    name, mode = options["name"], str(options.get("mode") or "active-backup")
    said = [select.said(selector) for selector in options["pfs"]]
    if len(options["pfs"]) != 2 or len(set(said)) != 2:
        text = "%s needs two PFs, and %d are given" % (name, len(set(said)))
        found.append(Problem(BONDS, ", ".join(said), text, "name both ports of one card"))
    if mode not in MODES and not options.get("multiport"):
        known = NUMBERS.get(mode, mode)
        text = "bond mode %s (%s) cannot be offloaded: mlx5 makes a LAG of %s only" % (mode, known, ", ".join(MODES))
        if mode in NUMBERS and known in MODES:
            text = "bond mode %s is written %s here" % (mode, known)
        found.append(Problem(BONDS, mode, text, "write %s" % (known if known in MODES else "802.3ad, or active-backup")))
    found += _option_problems(options, name, mode)
    for cidr in options.get("addresses") or ():
        try:
            if "/" not in str(cidr):
                raise ValueError("no prefix length")
            ipaddress.ip_interface(str(cidr))
        except ValueError:
            found.append(Problem(BONDS, cidr, "no address with prefix length (%s)" % name, "write it like 192.0.2.4/24"))
    mtu = options.get("mtu")
    if mtu is not None and not 68 <= mtu <= 9978:
        found.append(Problem(BONDS, mtu, "no MTU (%s)" % name, "write 68 to 9978"))
    return found + _forwarding_problems(options, name)


def _option_problems(options: Options, name: str, mode: str) -> List[Problem]:
    found = []
    if options.get("lacp_rate") and mode != "802.3ad":
        text = "lacp_rate is about LACP, and the mode of %s is %s" % (name, mode)
        found.append(Problem(BONDS, options["lacp_rate"], text, "set mode: 802.3ad, or remove lacp_rate"))
    if options.get("xmit_hash_policy") and mode == "active-backup":
        text = "active-backup sends by one PF only: there is nothing to hash (%s)" % name
        found.append(Problem(BONDS, options["xmit_hash_policy"], text, "remove xmit_hash_policy, or set another mode"))
    if options.get("miimon") is not None and options["miimon"] <= 0:
        text = "without link monitoring a dead cable is never noticed (%s)" % name
        found.append(Problem(BONDS, options["miimon"], text, "write 100"))
    if options.get("multiport") and options.get("lag") is False:
        found.append(Problem(BONDS, name, "multiport is a kind of LAG, and lag is false", "remove one of them"))
    return found


def _forwarding_problems(options: Options, name: str) -> List[Problem]:
    way = options.get("forwarding") or {}
    kind = way.get("type") or NONE
    if kind in (BRIDGE, OVS) and not way.get("name"):
        return [Problem(BONDS, kind, "forwarding by %s needs the bridge's name (%s)" % (kind, name), "give name: br0")]
    if kind == EXTERNAL and not way.get("owner"):
        return [Problem(BONDS, kind, "who forwards for the VFs of %s is not said" % name, "give owner: ovn-kubernetes, for example")]
    if kind in (BRIDGE, OVS) and not DEVICE_NAME.match(str(way["name"])):
        return [Problem(BONDS, way["name"], "no name for a network device", "write up to 15 characters, such as br0")]
    if way.get("name") == name:
        return [Problem(BONDS, name, "the bridge has the name of the bond", "give the bridge another name")]
    return []
