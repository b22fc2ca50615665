# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ifupdown: what /etc/network/interfaces says of devices, and our file for a bond. Pure.

Sources: interfaces(5), README.Debian of ifenslave. Names in `bond-slaves` are names of today, which a new kernel may
change: ours says `none` there, and lets the boot program add the ports by their PCI address.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, Tuple

from ..state import Claim
from .bondview import IFUPDOWN, MARK, View, claim, lines, mode_name

MAIN = "/etc/network/interfaces"
FOLDER = "/etc/network/interfaces.d"
PROBE = (MAIN, FOLDER + "/*")
UNIT = "networking.service"
PROGRAM = "/usr/bin/python3 /usr/local/lib/nearmetal/fabric.pyz"


def claims(files: Mapping[str, str]) -> List[Claim]:
    """files: {path: text} of all of PROBE."""
    auto: List[str] = []
    found: List[Claim] = []
    for path in sorted(files):
        if path == MAIN or path.startswith(FOLDER + "/"):
            _file(path, files[path], found, auto)
    for one in found:
        one["auto"] = one["device"] in auto
    for bond in [c for c in found if c["kind"] == "bond"]:
        for port in bond["ports"]:
            found.append(claim(IFUPDOWN, bond["file"], bond["line"], "device", device=port, master=bond["device"]))
    return found


def _file(path: str, text: str, found: List[Claim], auto: List[str]) -> None:
    current: Dict[str, Claim] = {}
    for number, words in _words(text):
        if words[0] in ("auto", "allow-auto", "allow-hotplug"):
            auto += words[1:]
        elif words[0] == "iface" and len(words) > 1:
            made = next((c for c in found if c["device"] == words[1]), None)
            if made is None:
                made = claim(IFUPDOWN, path, number, "device", device=words[1])
                found.append(made)
            made["dhcp"] = made["dhcp"] or words[-1] == "dhcp"
            current = {"": made}
        elif words[0] in ("source", "source-directory", "mapping"):
            current = {}
        elif current:
            _option(current[""], words[0].replace("_", "-"), words[1:])


def _words(text: str) -> List[Tuple[int, List[str]]]:
    found = []
    start, held = 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        start = start if held else number
        held += raw
        if raw.endswith("\\"):
            held = held[:-1] + " "
            continue
        if held.strip() and not held.lstrip().startswith("#"):
            found.append((start, held.split()))
        held = ""
    return found


def _option(made: Claim, key: str, words: List[str]) -> None:
    value = " ".join(words)
    if key == "address" and value:
        made["addresses"].append(value)
    elif key == "mtu" and value.isdecimal():
        made["options"]["mtu"] = int(value)
    elif key in ("bond-slaves", "slaves", "bond-ports"):
        made["kind"] = "bond"
        made["ports"] = [word for word in words if word != "none"]
    elif key in ("bond-mode", "bond-miimon", "bond-lacp-rate", "bond-xmit-hash-policy"):
        made["kind"] = "bond"
        name = key[5:].replace("-", "_")
        made["options"][name] = mode_name(value) if name == "mode" else _LACP.get(value, value) if name == "lacp_rate" else value
    elif key in ("bond-master", "bridge-master"):
        made["master"] = value


_LACP = {"0": "slow", "1": "fast"}


def sourced(files: Mapping[str, str]) -> bool:
    """Whether the main file takes in the folder in which ours lies."""
    taken = [words[1] for _number, words in _words(files.get(MAIN, "")) if words[0].startswith("source") and len(words) > 1]
    return any(path.rstrip("*").rstrip("/") in (FOLDER, "interfaces.d") for path in taken)


def render(bond: View) -> Dict[str, Tuple[str, int]]:
    """{path: (text, mode)}. The name has no dot: run-parts and `source-directory` leave others out."""
    plain = [] if bond.bridge else list(bond.addresses)
    options = ["bond-slaves none", "bond-mode " + bond.mode]
    options += ["bond-miimon %d" % bond.miimon] if bond.miimon is not None else []
    options += ["bond-lacp-rate " + bond.lacp_rate] if bond.lacp_rate else []
    options += ["bond-xmit-hash-policy " + bond.xmit_hash_policy] if bond.xmit_hash_policy else []
    options += ["post-up %s enslave %s" % (PROGRAM, bond.name)]
    options += ["post-up ip link set dev %s mtu %d" % (bond.name, bond.mtu)] if bond.mtu else []
    text = ["# " + MARK, "auto " + bond.name]
    first = plain[0] if plain else ""
    text += _stanza(bond.name, first, options)
    for address in plain[1:]:
        text += ["", *_stanza(bond.name, address, [])]
    return {"%s/nearmetal-%s" % (FOLDER, bond.name): (lines(text), 0o644)}


def _stanza(name: str, address: str, options: List[str]) -> List[str]:
    family = "inet6" if ":" in address else "inet"
    head = "iface %s %s %s" % (name, family, "static" if address else "manual")
    return [head, *["    " + o for o in (["address " + address] if address else []) + options]]


def load() -> List[List[str]]:
    """Nothing: ifupdown reads its files when it is called, and the bond is already as they say."""
    return []
