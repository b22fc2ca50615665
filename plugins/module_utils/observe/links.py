# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network devices as `ip` tells them, with what sysfs says where no command was run.

Shapes of the JSON: iproute2, ip/ipaddress.c (print_vfinfo, print_linkinfo) and ip/iplink_bond.c. A VF's address is
"mac" until iproute2 5.3 and "address" since; "vlan_list" has one object without keys where there is no VLAN.
"""

from __future__ import annotations

import json
import posixpath
import re
from typing import Any, Dict, List, Optional, Sequence, TypedDict

from ..host import HostError, Missing, Refused
from .pci import ADDRESS
from .reader import Reader

NET = "/sys/class/net"
NO_MAC = "00:00:00:00:00:00"
REPRESENTOR = re.compile(r"(?:c\d+)?pf(\d+)vf(\d+)\Z")
"""phys_port_name of a VF's representor (devlink.c, devlink_nl port attributes)."""


class Link(TypedDict):
    """One device of the host's own network namespace. None: not read."""

    name: str
    pci: str  # of its parent: for a representor, the PF
    mac: str
    permanent: str
    mtu: Optional[int]
    up: Optional[bool]  # administratively
    carrier: Optional[bool]
    master: str
    below: str  # device of a VLAN or macvlan
    port_name: str
    switch_id: str
    kind: str  # "bond", "bridge", "vlan", ""
    data: Dict[str, Any]  # linkinfo info_data
    slave: Dict[str, Any]  # linkinfo info_slave_data
    vfs: Optional[List[Dict[str, Any]]]  # vfinfo_list
    addresses: List[str]


def ask(reader: Reader, argv: Sequence[str], section: str = "fabric") -> Optional[str]:
    """What a command prints; None where it fails or nobody ran it. Only what surprises is noted."""
    try:
        said = reader.host.run(list(argv), timeout=30)
    except Refused:
        return None
    except Missing:
        reader.note(section, "%s: command not found" % argv[0])
        return None
    except HostError as err:
        reader.note(section, str(err))
        return None
    if said.rc == 0:
        return said.stdout
    words = " ".join((said.stderr or said.stdout).split())
    if "not supported" not in words:
        reader.note(section, "%s: %s" % (" ".join(argv), words[:200] or "exit status %d" % said.rc))
    return None


def ask_json(reader: Reader, argv: Sequence[str]) -> Any:
    """The JSON that a command prints; None where there is none."""
    text = ask(reader, argv)
    if text is None or not text.strip():
        return None
    try:
        return json.loads(text)
    except ValueError as err:
        reader.note("fabric", "%s: no JSON: %s" % (" ".join(argv), err))
        return None


def observe_links(reader: Reader, commands: bool = True) -> Dict[str, Link]:
    """All devices by name. commands: whether `ip` is worth asking (sysfs alone knows no VF attributes)."""
    found = {name: _from_sysfs(reader, name) for name in reader.names(NET, "fabric") if name != "bonding_masters"}
    told = ask_json(reader, ("ip", "-j", "-d", "link", "show")) if commands else None
    for entry in told or ():
        if isinstance(entry, dict) and entry.get("ifname"):
            link = found.setdefault(entry["ifname"], _empty(entry["ifname"]))
            _told(link, entry)
    for entry in (ask_json(reader, ("ip", "-j", "addr", "show")) if commands else None) or ():
        if isinstance(entry, dict) and entry.get("ifname") in found:
            found[entry["ifname"]]["addresses"] = [
                "%s/%s" % (a["local"], a["prefixlen"])
                for a in entry.get("addr_info") or ()
                if "local" in a and "prefixlen" in a and a.get("scope") != "link"
            ]
    return found


def _empty(name: str) -> Link:
    return {
        "name": name, "pci": "", "mac": "", "permanent": "", "mtu": None, "up": None, "carrier": None, "master": "",
        "below": "", "port_name": "", "switch_id": "", "kind": "", "data": {}, "slave": {}, "vfs": None,
        "addresses": [],
    }  # fmt: skip


def _from_sysfs(reader: Reader, name: str) -> Link:
    link = _empty(name)
    target = reader.link("%s/%s" % (NET, name))
    base = posixpath.normpath(posixpath.join(NET, target)) if target else "%s/%s" % (NET, name)
    link["pci"] = next((part for part in reversed(base.split("/")) if ADDRESS.match(part)), "")
    quiet = Reader(reader.host)  # most drivers answer "not supported" for some of these
    link["mac"] = link["permanent"] = quiet.text(base + "/address", "net") or ""
    link["mtu"] = quiet.number(base + "/mtu", "net")
    state = quiet.text(base + "/operstate", "net")
    link["carrier"] = None if state is None else state == "up"
    link["master"] = posixpath.basename(reader.link(base + "/master"))
    link["port_name"] = quiet.text(base + "/phys_port_name", "net") or ""
    link["switch_id"] = quiet.text(base + "/phys_switch_id", "net") or ""
    mode = quiet.text(base + "/bonding/mode", "net")
    if mode:
        link["kind"], link["data"] = "bond", {"mode": mode.split()[0]}
    return link


def _told(link: Link, entry: Dict[str, Any]) -> None:
    """Fill in what `ip -d` says; what it leaves out is really not there."""
    info = entry.get("linkinfo") or {}
    flags = entry.get("flags") or ()
    parent = str(entry.get("parentdev") or "")
    link["pci"] = parent if ADDRESS.match(parent) else link["pci"]
    link["mac"] = entry.get("address") or ""
    link["permanent"] = entry.get("permaddr") or link["mac"]
    link["mtu"] = entry.get("mtu")
    link["up"] = "UP" in flags
    link["carrier"] = "LOWER_UP" in flags
    link["master"] = entry.get("master") or ""
    link["below"] = entry.get("link") or ""
    link["port_name"] = entry.get("phys_port_name") or link["port_name"]
    link["switch_id"] = entry.get("phys_switch_id") or link["switch_id"]
    link["kind"] = info.get("info_kind") or ""
    link["data"] = info.get("info_data") or {}
    link["slave"] = info.get("info_slave_data") or {}
    link["vfs"] = entry.get("vfinfo_list") or []


def vf_attributes(told: Dict[str, Any]) -> Dict[str, Any]:
    """The attributes of one entry of vfinfo_list, named as in state.Vf; what the driver does not report is left out."""
    vlans = told.get("vlan_list")
    vlan = vlans[0] if vlans else told
    found: Dict[str, Any] = {}
    mac = told.get("address", told.get("mac"))
    if mac is not None:
        found["mac"] = "" if mac.lower() == NO_MAC else mac.lower()
    found["vlan"], found["qos"] = vlan.get("vlan", 0), vlan.get("qos", 0)
    found["proto"] = vlan.get("protocol", "802.1Q")
    rate = told.get("rate") or {}
    found["max_tx_rate"] = rate.get("max_tx", told.get("tx_rate", 0))
    found["min_tx_rate"] = rate.get("min_tx", 0)
    for key in ("spoofchk", "trust", "link_state"):
        if key in told:
            found[key] = told[key]
    for key, name in (("node guid", "node_guid"), ("port guid", "port_guid")):
        if key in told or name in told:
            found[name] = str(told.get(key, told.get(name))).lower()
    return found
