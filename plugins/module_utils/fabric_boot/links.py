# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices, addresses and routes as they were, and how to come back to them: what the planner of PFs does not know.

Above all the management path: a bond, bridge or VLAN of devices that are no PFs, addresses, the default route.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Set

from ..host import Host, HostError
from ..observe.links import NET, REPRESENTOR, Link, observe_links
from ..observe.management import below
from ..observe.reader import Reader
from ..state import Fabric

Then = Dict[str, Any]
"""One device: name, pci, kind, data, up, mtu, master, addresses."""
VIRTUAL = ("bond", "bridge")
_BOND = ("mode", "miimon")


def snapshot(host: Host, fabric: Fabric, more: Sequence[str] = ()) -> List[Then]:
    """Devices of the management path, bonds with their members, PFs, and those named: as they are now."""
    links = observe_links(Reader(host))
    wanted: Set[str] = {*fabric["management"], *more, *(pf["netdev"] for pf in fabric["pfs"])}
    wanted |= {link["name"] for link in links.values() if link["kind"] == "bond"}
    wanted = below(wanted, links, fabric["ovs"])
    wanted |= {links[name]["master"] for name in wanted if links[name]["master"] in links}
    return [
        {
            "name": link["name"], "pci": link["pci"], "kind": link["kind"], "up": link["up"], "mtu": link["mtu"],
            "master": link["master"] if link["master"] in links else "", "addresses": link["addresses"],
            "data": {k: link["data"][k] for k in (*_BOND, "vlan_filtering") if link["data"].get(k) is not None},
        }
        for link in links.values() if link["name"] in wanted and link["name"] != "lo"
    ]  # fmt: skip


def routes(host: Host) -> Dict[str, List[str]]:
    """Routes of the main table, {"-4": lines, "-6": lines}; without those that the kernel makes or routers announce."""
    found: Dict[str, List[str]] = {}
    for family in ("-4", "-6"):
        try:
            said = host.run(["ip", family, "route", "show"])
        except HostError:
            continue
        if said.rc == 0:
            found[family] = [line for line in map(bare, _joined(said.stdout)) if line]
    return found


def _joined(text: str) -> List[str]:
    """Next hops stand in lines of their own."""
    found: List[str] = []
    for line in text.splitlines():
        if line[:1] in ("\t", " ") and found:
            found[-1] += " " + line.strip()
        else:
            found.append(line)
    return found


def bare(line: str) -> str:
    """A route without what only tells its state; "" for one that comes by itself."""
    words = line.split()
    if "kernel" in words or "ra" in words[words.index("proto") + 1 : words.index("proto") + 2] if "proto" in words else False:
        return ""
    return " ".join(word for word in words if word not in ("linkdown", "dead", "offload", "rt_offload", "pervasive"))


def back(then: Sequence[Then], now: Mapping[str, Link]) -> List[List[str]]:
    """Commands that lead back, in order; none where nothing differs. A device that is gone for good is left out."""
    found: List[List[str]] = []
    names: Dict[str, str] = {one["name"]: _find(one, now) for one in then}
    for one in then:
        if not names[one["name"]] and one["kind"] in VIRTUAL:
            found.append(_add(one))
            found.append(["ip", "link", "set", one["name"], "up"])
            names[one["name"]] = one["name"]
    for one in then:
        if names[one["name"]]:
            found += _device(one, now.get(names[one["name"]]), names)
    return found


def _find(one: Then, now: Mapping[str, Link]) -> str:
    if one["pci"] and not one["kind"]:
        for link in now.values():
            if link["pci"] == one["pci"] and not link["kind"] and not REPRESENTOR.match(link["port_name"]):
                return link["name"]
    return one["name"] if one["name"] in now else ""


def _add(one: Then) -> List[str]:
    words = ["ip", "link", "add", one["name"], "type", one["kind"]]
    if one["kind"] == "bond":
        for key in _BOND:
            words += [key, str(one["data"][key])] if key in one["data"] else []
    elif one["data"].get("vlan_filtering"):
        words += ["vlan_filtering", "1"]
    return words


def _device(one: Then, link: Optional[Link], names: Mapping[str, str]) -> List[List[str]]:
    name = link["name"] if link is not None else one["name"]
    master = names.get(one["master"], one["master"])
    found: List[List[str]] = []
    up = link["up"] if link is not None else True
    if link is not None and link["master"] != master:
        if master:
            found += [["ip", "link", "set", name, "down"], ["ip", "link", "set", name, "master", master]]
            up = False
        else:
            found.append(["ip", "link", "set", name, "nomaster"])
    if link is not None and one["mtu"] is not None and link["mtu"] != one["mtu"]:
        found.append(["ip", "link", "set", name, "mtu", str(one["mtu"])])
    if one["up"] is not None and up != one["up"]:
        found.append(["ip", "link", "set", name, "up" if one["up"] else "down"])
    have = link["addresses"] if link is not None else []
    found += [["ip", "addr", "del", a, "dev", name] for a in have if a not in one["addresses"]]
    found += [["ip", "addr", "add", a, "dev", name] for a in one["addresses"] if a not in have]
    return found


def lost_routes(then: Mapping[str, Sequence[str]], now: Mapping[str, Sequence[str]]) -> List[List[str]]:
    """Commands for routes that are no longer there. Those through a gateway come last: their subnet must be there."""
    found = []
    for family, lines in then.items():
        missing = [line for line in lines if line not in now.get(family, ())]
        for line in sorted(missing, key=lambda text: " via " in text):
            found.append(["ip", family, "route", "replace", *line.split()])
    return found


def current(host: Host) -> Dict[str, Link]:
    """The devices now."""
    return observe_links(Reader(host))


def there(host: Host, name: str) -> bool:
    """Whether a device of that name is there."""
    return host.exists("%s/%s" % (NET, name))
