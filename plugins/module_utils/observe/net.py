# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network devices of hardware, and the bonds over them. Bridges, veths and tunnels are left out."""

from __future__ import annotations

import posixpath
from typing import List, Optional

from ..state import Netdev
from .pci import ADDRESS
from .reader import Reader

NET = "/sys/class/net"


def observe_net(reader: Reader) -> List[Netdev]:
    """The `net` section, in the order of the names."""
    names = reader.names(NET, "net")
    if not names and not reader.host.live and not reader.exists(NET):
        reader.note("net", "%s is not in this tree" % NET)
    bonds = (reader.text(NET + "/bonding_masters", "net") or "").split()
    return [
        device
        for name in names
        if name != "bonding_masters"
        for device in [_device(reader, name, name in bonds)]
        if device is not None
    ]


def _device(reader: Reader, name: str, is_bond: bool) -> Optional[Netdev]:
    target = reader.link("%s/%s" % (NET, name))
    base = posixpath.normpath(posixpath.join(NET, target)) if target else "%s/%s" % (NET, name)
    if "/virtual/" in base and not is_bond or name == "lo":
        return None
    address = next((part for part in reversed(base.split("/")) if ADDRESS.match(part)), "")
    if not target and not address:
        address = posixpath.basename(reader.link(base + "/device"))
    return {
        "name": name,
        "pci": address if ADDRESS.match(address) else "",
        "mac": reader.text(base + "/address", "net") or "",
        "mtu": reader.number(base + "/mtu", "net"),
        "operstate": reader.text(base + "/operstate", "net") or "",
        "speed_mbps": _speed(reader, base),
        "bond": posixpath.basename(reader.link(base + "/master")) if not is_bond else "",
    }


def _speed(reader: Reader, base: str) -> Optional[int]:
    """The link's speed; None while it is down, when the kernel answers "invalid argument" or -1."""
    quiet = Reader(reader.host)
    speed = quiet.number(base + "/speed", "net.speed")
    return speed if speed is not None and 0 < speed < 2**31 else None
