# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd-networkd: what its files say of devices, and our files for a bond. Pure.

Sources: systemd.netdev(5), systemd.network(5): of files of one name that in /etc wins over that in /run; the first
file, by name, that matches a device counts. PermanentMACAddress= holds when the bond gives its ports another address.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from ..state import Claim
from .bondview import MARK, NETWORKD, View, claim, lines, mode_name, sections

FOLDERS = ("/etc/systemd/network", "/run/systemd/network")
PROBE = tuple("%s/*.%s" % (folder, kind) for folder in FOLDERS for kind in ("netdev", "network"))
UNIT = "systemd-networkd.service"
FROM_NETPLAN = "10-netplan-"
_OPTIONS = {"Mode": "mode", "LACPTransmitRate": "lacp_rate", "TransmitHashPolicy": "xmit_hash_policy"}


def claims(files: Mapping[str, str]) -> List[Claim]:
    """files: {path: text} of all of PROBE. Those that netplan makes are left out: netplan's own files are the word."""
    chosen: Dict[str, str] = {}
    for folder in FOLDERS:
        for path in files:
            if path.rpartition("/")[0] == folder and not path.rpartition("/")[2].startswith(FROM_NETPLAN):
                chosen.setdefault(path.rpartition("/")[2], path)
    found = []
    for name in sorted(chosen):
        parsed = sections(files[chosen[name]])
        if name.endswith(".netdev"):
            found += _netdev(chosen[name], parsed)
        elif name.endswith(".network"):
            found += _network(chosen[name], parsed)
    return found


Parsed = List[Tuple[int, str, List[Tuple[int, str, str]]]]


def _netdev(path: str, parsed: Parsed) -> List[Claim]:
    head = {key: (line, value) for _at, name, keys in parsed if name == "NetDev" for line, key, value in keys}
    if head.get("Kind", (0, ""))[1] != "bond" or "Name" not in head:
        return []
    options: Dict[str, Any] = {"mtu": int(head["MTUBytes"][1])} if head.get("MTUBytes", (0, ""))[1].isdecimal() else {}
    for _at, name, keys in parsed:
        for _line, key, value in keys if name == "Bond" else ():
            if key == "MIIMonitorSec":
                options["miimon"] = milliseconds(value)
            elif key in _OPTIONS:
                options[_OPTIONS[key]] = mode_name(value) if key == "Mode" else value
    return [claim(NETWORKD, path, head["Name"][0], "bond", device=head["Name"][1], options=options)]


def _network(path: str, parsed: Parsed) -> List[Claim]:
    made = claim(NETWORKD, path, 1, "device")
    for at, name, keys in parsed:
        for _line, key, value in keys:
            if name == "Match":
                made["line"] = at
                _match(made, key, value)
            elif name == "Network" and key in ("Bond", "Bridge", "VRF", "BatmanAdvanced"):
                made["master"] = value
            elif name in ("Network", "Address") and key == "Address" and value:
                made["addresses"].append(value)
            elif name == "Network" and key == "DHCP":
                made["dhcp"] = value.lower() not in ("no", "false", "0", "none")
            elif name == "Link" and key == "MTUBytes" and value.isdecimal():
                made["options"]["mtu"] = int(value)
            elif name == "Link" and key == "Unmanaged" and value.lower() in ("yes", "true", "1"):
                made["auto"] = False
    return [made] if parsed else []


def _match(made: Claim, key: str, value: str) -> None:
    if key in ("Name", "OriginalName"):
        made["device"] = (made["device"] + " " + value).strip()
    elif key in ("MACAddress", "PermanentMACAddress"):
        made["macs"] += [word.lower().replace("-", ":") for word in value.split()]
    elif key == "Path":
        made["paths"] += value.split()


def milliseconds(text: str) -> int:
    """A time span: "100ms", "0.1", "1s"; one without a unit is in seconds. -1 where it is none."""
    number = text.strip().lower()
    factor = 1000.0
    for unit, value in (("ms", 1.0), ("msec", 1.0), ("us", 0.001), ("sec", 1000.0), ("s", 1000.0)):
        if number.endswith(unit):
            number, factor = number[: -len(unit)].strip(), value
            break
    try:
        return int(float(number) * factor + 0.5)
    except ValueError:
        return -1


def render(bond: View) -> Dict[str, Tuple[str, int]]:
    """{path: (text, mode)}. The names sort before those of others, so that ours match first."""
    base = "%s/05-nearmetal-%s" % (FOLDERS[0], bond.name)
    found = {base + ".netdev": (_bond_netdev(bond), 0o644), base + ".network": (_bond_network(bond), 0o644)}
    for port in bond.ports:
        text = lines([
            "# " + MARK, "[Match]", "PermanentMACAddress=" + port.mac, "", "[Network]", "Bond=" + bond.name,
            "LinkLocalAddressing=no",
        ])  # fmt: skip
        found["%s-%s.network" % (base, port.key)] = (text, 0o644)
    if bond.bridge:
        name = "%s/05-nearmetal-%s" % (FOLDERS[0], bond.bridge)
        head = ["# " + MARK, "[NetDev]", "Name=" + bond.bridge, "Kind=bridge", "", "[Bridge]", "VLANFiltering=yes"]
        found[name + ".netdev"] = (lines(head), 0o644)
        body = ["# " + MARK, "[Match]", "Name=" + bond.bridge, "", "[Network]"]
        found[name + ".network"] = (lines(body + _addresses(bond.bridge_addresses)), 0o644)
    return found


def _bond_netdev(bond: View) -> str:
    text = ["# " + MARK, "[NetDev]", "Name=" + bond.name, "Kind=bond"]
    text += ["MTUBytes=%d" % bond.mtu] if bond.mtu else []
    text += ["", "[Bond]", "Mode=" + bond.mode]
    text += ["MIIMonitorSec=%dms" % bond.miimon] if bond.miimon is not None else []
    text += ["LACPTransmitRate=" + bond.lacp_rate] if bond.lacp_rate else []
    text += ["TransmitHashPolicy=" + bond.xmit_hash_policy] if bond.xmit_hash_policy else []
    return lines(text)


def _bond_network(bond: View) -> str:
    text = ["# " + MARK, "[Match]", "Name=" + bond.name]
    text += ["", "[Link]", "MTUBytes=%d" % bond.mtu] if bond.mtu else []
    text += ["", "[Network]"]
    if bond.bridge:
        text += ["Bridge=" + bond.bridge, "LinkLocalAddressing=no"]
    elif bond.keep_master:
        # A version that does not know the word (before 255) ignores it, and only takes the bond out when it is reloaded.
        text += ["KeepMaster=yes", *_addresses(bond.addresses)]
    else:
        text += _addresses(bond.addresses)
    return lines(text)


def _addresses(addresses: Tuple[str, ...]) -> List[str]:
    return ["Address=" + address for address in addresses] or ["LinkLocalAddressing=ipv6"]


def load() -> List[List[str]]:
    """Commands that make networkd read its files; it sets up only devices whose files changed."""
    return [["networkctl", "reload"]]
