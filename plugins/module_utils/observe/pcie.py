# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI Express registers that decide how devices reach each other: ACS, ATS, DevCtl, the link.

Two sources, one shape (state.Pcie): the configuration space itself (`config` of sysfs, as the collector brings it),
and `lspci -vvv` in captured trees. Offsets and bits: include/uapi/linux/pci_regs.h; words of lspci: pciutils ls-caps.c,
ls-ecaps.c. Without privilege the kernel gives 64 bytes, and lspci says "access denied": such functions are left out.
"""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from ..host import HostError
from ..state import Acs, Function, Pcie
from .reader import Reader

DEVICES = "/sys/bus/pci/devices"
LSPCI_FILES = ("/lspci", "/sos_commands/pci/lspci_-nnvv", "/sos_commands/pci/lspci_-nvv", "/lspci-vvv.txt")
"""Where support archives keep what lspci printed."""

READ_OF = ("02", "03", "0b", "12")
"""Network, display, processors, accelerators, and the bridges above them: that far a GPU's and a NIC's path goes."""

ACS_FLAGS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")
"""Bit 0 first. Texts of bits ("0011101") have bit 0 last, as the kernel's config_acs= wants them."""

PORTS = {
    0: "endpoint", 1: "legacy", 4: "root", 5: "upstream", 6: "downstream", 7: "to-pci", 8: "from-pci", 9: "integrated",
    10: "event-collector",
}  # fmt: skip
LSPCI_PORTS = (
    ("Root Port", "root"), ("Upstream Port", "upstream"), ("Downstream Port", "downstream"),
    ("Legacy Endpoint", "legacy"), ("Root Complex Integrated Endpoint", "integrated"),
    ("Root Complex Event Collector", "event-collector"), ("PCI-Express to PCI", "to-pci"),
    ("PCI/PCI-X to PCI-Express", "from-pci"), ("Endpoint", "endpoint"),
)  # fmt: skip
SPEEDS = {1: "2.5", 2: "5", 3: "8", 4: "16", 5: "32", 6: "64"}
"""GT/s."""

_EXPRESS, _ACS, _ATS = 0x10, 0x0D, 0x0F
DEVCTL, ACS_CTL = 8, 6
"""Offsets inside the PCI Express and the ACS capability."""

FIRST_BEYOND = 0x40


def concerned(pci: Sequence[Function]) -> List[str]:
    """Addresses of the functions whose registers are looked at."""
    known = {function["address"]: function for function in pci}
    found: Set[str] = set()
    for function in pci:
        if function["class"][2:4] in READ_OF and not function["physfn"]:
            at: str = function["address"]
            while at in known and at not in found:
                found.add(at)
                at = known[at]["parent"]
    return [function["address"] for function in pci if function["address"] in found]


def observe_pcie(reader: Reader, pci: Sequence[Function]) -> Dict[str, Pcie]:
    """{address: registers} of the functions that matter; those that could not be read are left out, with a note."""
    found: Dict[str, Pcie] = {}
    addresses = concerned(pci)
    lacking = []
    for address in addresses:
        data = _config(reader, address)
        if data is None:
            lacking.append(address)
            continue
        told = parse_config(data)
        if told is not None:
            found[address] = told
        elif len(data) <= FIRST_BEYOND:
            reader.note("pci.config", "only the first 64 bytes could be read (more needs root on the host)")
    if lacking and not reader.host.live:
        found.update(_from_lspci(reader, lacking))
    return found


def _config(reader: Reader, address: str) -> Optional[bytes]:
    """None where there is no such file; an unreadable one is noted by observe_pci, too."""
    path = "%s/%s/config" % (DEVICES, address)
    if not reader.exists(path):
        return None
    try:
        return reader.host.read_bytes(path)
    except HostError as err:
        reader.note("pci.config", "%s: %s" % (err.path, err.reason))
        return b""


def _from_lspci(reader: Reader, addresses: Sequence[str]) -> Dict[str, Pcie]:
    for path in LSPCI_FILES:
        text = reader.text(path, "pci.config") if reader.exists(path) else None
        if text:
            told = parse_lspci(text)
            return {address: told[address] for address in addresses if address in told}
    return {}


def parse_config(data: bytes) -> Optional[Pcie]:
    """Registers of one function; None where it is no PCI Express function, or too little could be read."""
    at = express_at(data)
    if at is None:
        return None
    flags, devcap, devctl = _word(data, at + 2, 2), _word(data, at + 4, 4), _word(data, at + DEVCTL, 2)
    linkcap, linksta = _word(data, at + 12, 4), _word(data, at + 18, 2)
    port = PORTS.get(flags >> 4 & 15, "type%d" % (flags >> 4 & 15))
    linked = port not in ("integrated", "event-collector")
    extended = dict(extended_at(data))
    ats = extended.get(_ATS)
    return {
        "port": port,
        "max_payload": 128 << (devctl >> 5 & 7),
        "max_payload_able": 128 << (devcap & 7),
        "max_read_request": 128 << (devctl >> 12 & 7),
        "relaxed_ordering": bool(devctl & 0x10),
        "link": _link(linksta & 15, linksta >> 4 & 63) if linked else "",
        "link_able": _link(linkcap & 15, linkcap >> 4 & 63) if linked else "",
        "ats_capable": ats is not None,
        "ats_enabled": None if ats is None else bool(_word(data, ats + 6, 2) & 0x8000),
        "acs": _acs(data, extended.get(_ACS)),
    }


def _acs(data: bytes, at: Optional[int]) -> Optional[Acs]:
    if at is None:
        return None
    return {"able": bits(_word(data, at + 4, 2)), "enabled": bits(_word(data, at + ACS_CTL, 2))}


def _link(speed: int, width: int) -> str:
    return "%s GT/s x%d" % (SPEEDS.get(speed, "?"), width)


def bits(value: int) -> str:
    """The seven flags as text, bit 0 last."""
    return format(value & 0x7F, "07b")


def _word(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def express_at(data: bytes) -> Optional[int]:
    """Where the PCI Express capability stands."""
    if len(data) <= FIRST_BEYOND or not data[6] & 0x10:
        return None
    at = data[0x34] & 0xFC
    for _hop in range(48):
        if at < FIRST_BEYOND or at + 2 > len(data):
            return None
        if data[at] == _EXPRESS:
            return at if at + 20 <= len(data) else None
        at = data[at + 1] & 0xFC
    return None


def extended_at(data: bytes) -> Iterator[Tuple[int, int]]:
    """(number, offset) of the extended capabilities."""
    at = 0x100
    for _hop in range(96):
        head = _word(data, at, 4)
        if at < 0x100 or at + 8 > len(data) or head in (0, 0xFFFFFFFF):
            return
        yield head & 0xFFFF, at
        at = head >> 20 & 0xFFC


_HEAD = re.compile(r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ")
_ITEM = re.compile(r"(\w+):\s*(.*)")
_FLAG = re.compile(r"(\w+)([+-])")


def parse_lspci(text: str) -> Dict[str, Pcie]:
    """{address: registers} of `lspci -vvv`, with or without domains. Functions without PCI Express are left out."""
    found: Dict[str, Pcie] = {}
    address, lines = "", []  # type: Tuple[str, List[str]]
    for line in [*text.splitlines(), "00:00.0 end"]:
        head = _HEAD.match(line)
        if head is None:
            lines.append(line)
            continue
        told = _lspci_function(lines) if address else None
        if told is not None:
            found[address] = told
        address, lines = head.group(1), []
        if address.count(":") == 1:
            address = "0000:" + address
    return found


def _lspci_items(lines: Sequence[str]) -> Dict[str, str]:
    """"DevCtl" and the like to all that is said of it: lines without a name continue the one before."""
    items: Dict[str, str] = {}
    name = ""
    for line in lines:
        if line.startswith("\tCapabilities:"):
            name = ""
            if "Express" in line:
                items["Express"] = line
            elif "Address Translation Service" in line:
                items["ATS"] = line
        elif line.startswith("\t\t"):
            match = _ITEM.match(line.strip()) if not line.startswith("\t\t\t") else None
            if match:
                name = match.group(1)
                items.setdefault(name, match.group(2))
            elif name:
                items[name] += " " + line.strip()
        else:
            name = ""
    return items


def _lspci_function(lines: Sequence[str]) -> Optional[Pcie]:
    items = _lspci_items(lines)
    if "Express" not in items or "DevCtl" not in items:
        return None
    port = next((port for words, port in LSPCI_PORTS if words in items["Express"]), "")
    devctl = items["DevCtl"]
    acs: Optional[Acs] = None
    if "ACSCtl" in items:
        acs = {"able": _lspci_bits(items.get("ACSCap", "")), "enabled": _lspci_bits(items["ACSCtl"])}
    return {
        "port": port,
        "max_payload": _number(r"MaxPayload (\d+)", devctl),
        "max_payload_able": _number(r"MaxPayload (\d+)", items.get("DevCap", "")),
        "max_read_request": _number(r"MaxReadReq (\d+)", devctl),
        "relaxed_ordering": "RlxdOrd+" in devctl,
        "link": _lspci_link(items.get("LnkSta", "")),
        "link_able": _lspci_link(items.get("LnkCap", "")),
        "ats_capable": "ATS" in items,
        "ats_enabled": "Enable+" in items.get("ATSCtl", "") if "ATS" in items else None,
        "acs": acs,
    }


def _lspci_bits(text: str) -> str:
    on: Mapping[str, str] = dict(_FLAG.findall(text))
    return "".join("1" if on.get(name) == "+" else "0" for name in reversed(ACS_FLAGS))


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match.group(1)) if match else 0


def _lspci_link(text: str) -> str:
    match = re.search(r"Speed ([\d.]+|unknown)\s*(?:GT/s)?[^,]*, Width x(\d+)", text)
    return "%s GT/s x%s" % (match.group(1).replace("unknown", "?"), match.group(2)) if match else ""
