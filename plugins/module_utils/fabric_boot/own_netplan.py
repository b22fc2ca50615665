# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""netplan: what its files say of devices, and our file for a bond, with either renderer. Pure.

Source: netplan-yaml(5): files are merged in the order of their names; an id in `bonds` or `bridges` is the device's
name, one in `ethernets` with `match` is only a name within netplan; a MAC in `match` is the permanent one.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from ..state import Claim
from . import miniyaml
from .bondview import MARK, NETPLAN, NETWORKD, NM, View, claim, lines, mode_name

FOLDERS = ("/etc/netplan", "/run/netplan", "/lib/netplan", "/usr/lib/netplan")
PROBE = tuple(folder + "/*.yaml" for folder in FOLDERS)
_OPTIONS = {
    "mode": "mode", "mii-monitor-interval": "miimon", "lacp-rate": "lacp_rate", "transmit-hash-policy": "xmit_hash_policy",
}  # fmt: skip


class Told(NamedTuple):
    """claims; renderer of the whole; errors: files that could not be read, with the reason."""

    claims: List[Claim]
    renderer: str
    errors: List[str]


def read(files: Mapping[str, str]) -> Told:
    """files: {path: text} of all of PROBE; of files of one name that in /etc wins."""
    chosen: Dict[str, str] = {}
    for folder in FOLDERS:
        for path in files:
            if path.rpartition("/")[0] == folder:
                chosen.setdefault(path.rpartition("/")[2], path)
    found: List[Claim] = []
    errors: List[str] = []
    renderer = NETWORKD
    for name in sorted(chosen):
        try:
            document = miniyaml.load(files[chosen[name]])
        except miniyaml.YamlError as err:
            errors.append("%s: %s" % (chosen[name], err))
            continue
        network = document.get("network") if isinstance(document, dict) else None
        if isinstance(network, dict):
            renderer = NM if network.get("renderer") == "NetworkManager" else renderer
            renderer = NETWORKD if network.get("renderer") == "networkd" else renderer
            found += _claims(chosen[name], network)
    return Told(_resolved(found), renderer, errors)


def _entries(network: Any, kind: str) -> List[Tuple[str, int, Any]]:
    part = network.get(kind)
    if not isinstance(part, miniyaml.Map):
        return []
    return [(key, part.lines[key], value) for key, value in part.items() if isinstance(value, dict)]


def _claims(path: str, network: Any) -> List[Claim]:
    found = []
    for key, line, value in _entries(network, "ethernets"):
        match = value.get("match") if isinstance(value.get("match"), dict) else {}
        device = str(match.get("name") or "") if match else key
        made = claim(NETPLAN, path, line, "device", device=device, ports=[key])
        made["macs"] = [str(match["macaddress"]).lower()] if match.get("macaddress") else []
        found.append(_common(made, value))
    for key, line, value in _entries(network, "bonds"):
        made = claim(NETPLAN, path, line, "bond", device=key, ports=[str(i) for i in value.get("interfaces") or ()])
        parameters = value.get("parameters") if isinstance(value.get("parameters"), dict) else {}
        for name, said in parameters.items():
            if name in _OPTIONS:
                made["options"][_OPTIONS[name]] = mode_name(str(said)) if name == "mode" else said
        found.append(_common(made, value))
    for key, line, value in _entries(network, "bridges"):
        ports = [str(i) for i in value.get("interfaces") or ()]
        found.append(_common(claim(NETPLAN, path, line, "bridge", device=key, ports=ports), value))
    return found


def _common(made: Claim, value: Any) -> Claim:
    if isinstance(value.get("mtu"), int):
        made["options"]["mtu"] = value["mtu"]
    made["addresses"] = [a if isinstance(a, str) else str(next(iter(a))) for a in value.get("addresses") or () if a]
    made["dhcp"] = value.get("dhcp4") is True
    return made


def _resolved(found: List[Claim]) -> List[Claim]:
    """Ids in `interfaces` become the master of what has that id, whatever file it stands in."""
    for above in found:
        for member in above["ports"] if above["kind"] in ("bond", "bridge") else ():
            for one in found:
                if one["kind"] == "device" and one["ports"] == [member] or one["kind"] == "bond" and one["device"] == member:
                    one["master"] = one["master"] or above["device"]
    for one in found:
        if one["kind"] == "device":
            one["ports"] = []
    return [one for one in found if one["kind"] != "bridge"]


def render(bond: View) -> Dict[str, Tuple[str, int]]:
    """{path: (text, mode)}; late in the order, so that no other file has the last word."""
    text = ["# " + MARK, "network:", "  version: 2", "  ethernets:"]
    names = ["nearmetal-%s" % port.key for port in bond.ports]
    for name, port in zip(names, bond.ports):
        text += ["    %s:" % name, "      match:", '        macaddress: "%s"' % port.mac]
        text += ["      mtu: %d" % bond.mtu] if bond.mtu else []
        text += ["      dhcp4: false", "      dhcp6: false", "      link-local: []"]
    text += ["  bonds:", "    %s:" % bond.name, "      interfaces: [%s]" % ", ".join(names)]
    text += ["      mtu: %d" % bond.mtu] if bond.mtu else []
    text += ["      parameters:", "        mode: " + bond.mode]
    text += ["        mii-monitor-interval: %d" % bond.miimon] if bond.miimon is not None else []
    text += ["        lacp-rate: " + bond.lacp_rate] if bond.lacp_rate else []
    text += ["        transmit-hash-policy: " + bond.xmit_hash_policy] if bond.xmit_hash_policy else []
    text += ["      link-local: []"] if bond.bridge else _addresses(bond.addresses)
    if bond.bridge:
        text += ["  bridges:", "    %s:" % bond.bridge, "      interfaces: [%s]" % bond.name]
        text += ["      parameters:", "        stp: false", *_addresses(bond.bridge_addresses)]
    return {"%s/90-nearmetal-%s.yaml" % (FOLDERS[0], bond.name): (lines(text), 0o600)}


def _addresses(addresses: Tuple[str, ...]) -> List[str]:
    return ["      addresses:", *['        - "%s"' % a for a in addresses]] if addresses else ["      dhcp4: false"]


def load(renderer: str) -> List[List[str]]:
    """Commands that make the renderer read what netplan makes of the files. `netplan apply` would restart more."""
    after = ["nmcli", "connection", "reload"] if renderer == NM else ["networkctl", "reload"]
    return [["netplan", "generate"], after]
