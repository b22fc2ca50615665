# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NetworkManager: what its profiles say of devices, and our profiles for a bond. Pure.

Sources: nm-settings-keyfile(5), nm-settings-ifcfg-rh(5). `master` and `slave-type` are read by all versions;
`controller` and `port-type` only since 1.46. A profile file must not be readable by others.
"""

from __future__ import annotations

import re
import uuid
from typing import Any, Dict, List, Mapping, Tuple

from ..state import Claim
from .bondview import MARK, NM, OPTIONS, View, claim, lines, mode_name, sections

FOLDER = "/etc/NetworkManager/system-connections"
IFCFG = "/etc/sysconfig/network-scripts"
PROBE = (FOLDER + "/*", IFCFG + "/ifcfg-*")
UNIT = "NetworkManager.service"
PRIORITY = 100
"""Above 0, which all profiles have by themselves."""
_SPACE = uuid.UUID("b7f6a3d2-5a0e-4c39-8f0f-0d6a2f4c7a11")


def claims(files: Mapping[str, str]) -> List[Claim]:
    """files: {path: text} of all of PROBE."""
    found = [_keyfile(path, files[path]) for path in sorted(files) if path.startswith(FOLDER + "/")]
    ids = {c["options"].pop("uuid"): c["device"] for c in found if "uuid" in c["options"]}
    for one in found:
        one["master"] = ids.get(one["master"], one["master"])
    found += [c for path in sorted(files) if path.startswith(IFCFG + "/ifcfg-") for c in _ifcfg(path, files[path])]
    return [one for one in found if one["kind"]]


def _keyfile(path: str, text: str) -> Claim:
    made = claim(NM, path, 1, "")
    names: Dict[str, str] = {}
    for _at, section, keys in sections(text):
        for line, key, value in keys:
            names["%s.%s" % (section, key)] = value
            if (section, key) == ("connection", "interface-name"):
                made["device"], made["line"] = value, line
            elif section in ("ethernet", "802-3-ethernet") and key == "mac-address":
                made["macs"], made["line"] = [value.lower().replace("-", ":")], line
            elif section in ("ethernet", "802-3-ethernet", "bond") and key == "mtu" and value.isdecimal() and value != "0":
                made["options"]["mtu"] = int(value)
            elif section == "bond" and key in OPTIONS:
                made["options"][key] = mode_name(value) if key == "mode" else value
            elif section in ("ipv4", "ipv6") and re.match(r"address\d*\Z", key):
                made["addresses"].append(value.split(",")[0])
            elif section == "ipv4" and key == "method":
                made["dhcp"] = value == "auto"
            elif (section, key) == ("match", "path"):
                made["paths"] = [word for word in value.split(";") if word]
    kind = names.get("connection.type", "")
    made["kind"] = "bond" if kind == "bond" else "device" if kind in ("ethernet", "802-3-ethernet", "infiniband") else ""
    made["master"] = names.get("connection.controller", names.get("connection.master", ""))
    made["auto"] = names.get("connection.autoconnect", "true") != "false"
    if names.get("connection.uuid"):
        made["options"]["uuid"] = names["connection.uuid"]
    return made


def _ifcfg(path: str, text: str) -> List[Claim]:
    values: Dict[str, str] = {}
    for raw in text.splitlines():
        key, equals, value = raw.strip().partition("=")
        if equals and not key.startswith("#"):
            values[key] = value.strip().strip("'\"")
    bond = values.get("TYPE", "").lower() == "bond" or values.get("BONDING_MASTER", "").lower() == "yes"
    if not bond and values.get("TYPE", "Ethernet").lower() != "ethernet" or values.get("DEVICE") == "lo":
        return []
    options: Dict[str, Any] = {"mtu": int(values["MTU"])} if values.get("MTU", "").isdecimal() else {}
    for word in values.get("BONDING_OPTS", "").split():
        key, _equals, value = word.partition("=")
        if key in OPTIONS:
            options[key] = mode_name(value) if key == "mode" else value
    made = claim(
        NM, path, 1, "bond" if bond else "device", device=values.get("DEVICE", ""), options=options,
        master=values.get("MASTER", values.get("BRIDGE", "")), auto=values.get("ONBOOT", "yes").lower() != "no",
        dhcp=values.get("BOOTPROTO", "").lower() == "dhcp",
    )  # fmt: skip
    made["macs"] = [values["HWADDR"].lower()] if values.get("HWADDR") else []
    made["addresses"] = ["%s/%s" % (values["IPADDR"], values.get("PREFIX", "24"))] if values.get("IPADDR") else []
    return [made]


def profile(name: str) -> str:
    """Name of our profile of a device or port."""
    return "nearmetal-" + name


def render(bond: View) -> Dict[str, Tuple[str, int]]:
    """{path: (text, mode)}."""
    found = {_path(bond.name): (_bond(bond), 0o600)}
    for port in bond.ports:
        name = "%s-%s" % (bond.name, port.key)
        text = [
            *_head(name, "ethernet"), "master=" + _uuid(bond.name), "slave-type=bond", "", "[ethernet]",
            "mac-address=" + port.mac.upper(),
        ]  # fmt: skip
        text += ["mtu=%d" % bond.mtu] if bond.mtu else []
        found[_path(name)] = (lines(text), 0o600)
    if bond.bridge:
        text = [*_head(bond.bridge, "bridge"), "interface-name=" + bond.bridge, "", "[bridge]", "stp=false", "vlan-filtering=true"]
        found[_path(bond.bridge)] = (lines(text + _addresses(bond.bridge_addresses)), 0o600)
    return found


def _path(name: str) -> str:
    return "%s/%s.nmconnection" % (FOLDER, profile(name))


def _uuid(name: str) -> str:
    """The same on every run: a profile with another id would be another profile."""
    return str(uuid.uuid5(_SPACE, name))


def _head(name: str, kind: str) -> List[str]:
    return [
        "# " + MARK, "[connection]", "id=" + profile(name), "uuid=" + _uuid(name), "type=" + kind,
        "autoconnect-priority=%d" % PRIORITY,
    ]  # fmt: skip


def _bond(bond: View) -> str:
    text = [*_head(bond.name, "bond"), "interface-name=" + bond.name, "autoconnect-slaves=1"]
    text += ["master=" + _uuid(bond.bridge), "slave-type=bridge"] if bond.bridge else []
    text += ["", "[bond]", "mode=" + bond.mode]
    text += ["miimon=%d" % bond.miimon] if bond.miimon is not None else []
    text += ["lacp_rate=" + bond.lacp_rate] if bond.lacp_rate else []
    text += ["xmit_hash_policy=" + bond.xmit_hash_policy] if bond.xmit_hash_policy else []
    text += ["", "[ethernet]", "mtu=%d" % bond.mtu] if bond.mtu else []
    return lines(text if bond.bridge else text + _addresses(bond.addresses))


def _addresses(addresses: Tuple[str, ...]) -> List[str]:
    found: List[str] = []
    for family, other in (("ipv4", "disabled"), ("ipv6", "link-local")):
        mine = [a for a in addresses if (":" in a) == (family == "ipv6")]
        found += ["", "[%s]" % family, "method=" + ("manual" if mine else other)]
        found += ["address%d=%s" % (at, address) for at, address in enumerate(mine, 1)]
    return found


def load() -> List[List[str]]:
    """Commands that make NetworkManager read the profiles; active connections stay as they are."""
    return [["nmcli", "connection", "reload"]]
