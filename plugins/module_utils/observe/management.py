# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The devices without which nobody reaches the host: default routes, the SSH connection, and what lies below them."""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Mapping, Optional, Set

from ..host import HostError
from ..state import Ovs
from .links import Link, ask
from .reader import Reader

SSH = ("printenv", "SSH_CONNECTION")
"""sudo hides the variable; then the processes above know it (the probe looks there by itself)."""


def observe_management(reader: Reader, links: Dict[str, Link], ovs: Optional[Ovs]) -> List[str]:
    """Names of devices, sorted."""
    found = _default_routes(reader) & set(links)
    server = _server_address(reader)
    if server:
        found |= {link["name"] for link in links.values() if server in (a.split("/")[0] for a in link["addresses"])}
    return sorted(below(found, links, ovs))


def below(names: Iterable[str], links: Mapping[str, Link], ovs: Optional[Ovs]) -> Set[str]:
    """The devices, and all that they stand on: bond slaves, bridge ports, the device of a VLAN."""
    done: Set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in done or name not in links:
            continue
        done.add(name)
        link = links[name]
        todo += [other["name"] for other in links.values() if other["master"] == name]
        todo += [link["below"]] if link["below"] else []
        for bridge in ovs["bridges"] if ovs else ():
            if name == bridge["name"] or any(p["name"] == name for p in bridge["ports"]) and not link["pci"]:
                todo += [p["name"] for p in bridge["ports"]]
    return done


def _default_routes(reader: Reader) -> Set[str]:
    """/proc/net/route: destination and mask in hexadecimal; ipv6_route: prefix length in the second column."""
    found = set()
    for line in (reader.text("/proc/net/route", "fabric") or "").splitlines():
        words = line.split()
        if len(words) > 7 and words[1] == words[7] == "00000000":
            found.add(words[0])
    for line in (reader.text("/proc/net/ipv6_route", "fabric") or "").splitlines():
        words = line.split()
        if len(words) > 9 and words[0] == "0" * 32 and words[1] == "00" and words[9] != "lo":
            found.add(words[9])
    return found


def _server_address(reader: Reader) -> str:
    text = ask(Reader(reader.host), SSH) or _above(reader)
    words = text.split()
    return words[2].split("%")[0] if len(words) == 4 else ""


def _above(reader: Reader) -> str:
    """SSH_CONNECTION of the nearest process above that has it; only where /proc is this process's own."""
    process = "self"
    for _hop in range(10):
        try:
            environment = reader.host.read("/proc/%s/environ" % process)
            status = reader.host.read("/proc/%s/status" % process)
        except HostError:
            return ""
        for word in environment.split("\0"):
            if word.startswith("SSH_CONNECTION="):
                return word.partition("=")[2]
        parent = re.search(r"^PPid:\s+(\d+)", status, re.MULTILINE)
        if parent is None or parent.group(1) in ("0", "1"):
            return ""
        process = parent.group(1)
    return ""
