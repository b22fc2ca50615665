# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI functions, the IOMMU above them, and which of them are physical or virtual functions.

Sources: Documentation/ABI/testing/sysfs-bus-pci; capability numbers from the PCI Express base
specification as in include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

import posixpath
import re
from typing import Dict, FrozenSet, List, Optional, Set, Tuple

from .. import cpulist
from ..host import HostError
from ..state import Function, Iommu, Node
from .reader import Reader, numbered

DEVICES = "/sys/bus/pci/devices"
ACPI = "/sys/firmware/acpi/tables"
TABLES = ("DMAR", "IVRS", "IORT")
GROUPS = "/sys/kernel/iommu_groups"
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")

CAPABILITIES = {0x01: "pm", 0x03: "vpd", 0x05: "msi", 0x10: "pcie", 0x11: "msix"}
EXTENDED = {0x01: "aer", 0x03: "serial", 0x0D: "acs", 0x0E: "ari", 0x0F: "ats", 0x10: "sriov", 0x13: "pri", 0x1B: "pasid"}  # fmt: skip # noqa: E501
CAPABLE_CLASSES = ("01", "02", "03", "0b", "12")
"""Storage, network, display, processors, accelerators: what capabilities are read of."""


def observe_iommu(reader: Reader) -> Iommu:
    """The `iommu` section. Groups without units: the kernel knows devices, but nothing translates."""
    groups = numbered(reader.names(GROUPS, "iommu"), "")
    types: Dict[str, int] = {}
    for group in groups:
        kind = reader.text("%s/%d/type" % (GROUPS, group), "iommu")
        if kind:
            types[kind] = types.get(kind, 0) + 1
    units = reader.names("/sys/class/iommu", "iommu")
    if not groups and not units and not reader.host.live and not reader.exists(GROUPS):
        reader.note("iommu", "%s is not in this tree" % GROUPS)
    found: Iommu = {"groups": len(groups), "types": types, "units": units}
    if reader.exists(ACPI):
        found["tables"] = [name for name in TABLES if reader.exists("%s/%s" % (ACPI, name))]
    return found


def observe_pci(reader: Reader, nodes: List[Node]) -> List[Function]:
    """The `pci` section, in the order of the addresses."""
    netdevs = _netdevs(reader)
    cpus_of = {node["id"]: cpulist.parse(node["cpus"]) for node in nodes if node["cpus"]}
    addresses = reader.names(DEVICES, "pci")
    if not addresses and not reader.host.live and not reader.exists(DEVICES):
        reader.note("pci", "%s is not in this tree" % DEVICES)
    functions = []
    for address in addresses:
        function = _function(reader, address, cpus_of, netdevs)
        if function is not None:
            functions.append(function)
    return functions


def _netdevs(reader: Reader) -> Optional[Dict[str, List[str]]]:
    """Network devices by PCI address, from the targets of their links; None without /sys/class/net."""
    names = reader.names("/sys/class/net", "net")
    if not names:
        return None
    found: Dict[str, List[str]] = {}
    for name in names:
        parts = reader.link("/sys/class/net/" + name).split("/")
        address = next((part for part in reversed(parts) if ADDRESS.match(part)), "")
        if address:
            found.setdefault(address, []).append(name)
    return found


def _function(
    reader: Reader,
    address: str,
    cpus_of: Dict[int, FrozenSet[int]],
    netdevs: Optional[Dict[str, List[str]]],
) -> Optional[Function]:
    target = reader.link("%s/%s" % (DEVICES, address))
    base = posixpath.normpath(posixpath.join(DEVICES, target)) if target else "%s/%s" % (DEVICES, address)
    try:
        names = set(reader.host.list(base))
    except HostError as err:
        reader.note("pci." + address, "%s: %s" % (err.path, err.reason))
        return None
    section = "pci"
    vendor, device, subsystem, class_, driver = _identity(reader, base, names)
    if not vendor or not class_:
        reader.note(section + ".identity", "%s: no vendor, device or class to be read" % base)
    physfn = _last(reader.link(base + "/physfn")) if "physfn" in names else ""
    group = _last(reader.link(base + "/iommu_group")) if "iommu_group" in names else ""
    total = reader.number(base + "/sriov_totalvfs", section) if "sriov_totalvfs" in names else 0
    made = reader.number(base + "/sriov_numvfs", section) if "sriov_numvfs" in names else 0
    above = _last(base.rpartition("/")[0])
    function: Function = {
        "address": address,
        "vendor": vendor,
        "device": device,
        "subsystem": subsystem,
        "class": class_,
        "numa_node": _numa_node(reader, base, names, cpus_of),
        "driver": driver,
        "iommu_group": int(group) if group.isdecimal() else None,
        "sriov_total": total or 0,
        "sriov_vfs": made or 0,
        "physfn": physfn,
        "netdevs": _net_of(reader, base, names) if netdevs is None else netdevs.get(address, []),
        "parent": above if ADDRESS.match(above) else "",
        "capabilities": None,
        "ats_enabled": None,
    }
    if "config" in names and class_[2:4] in CAPABLE_CLASSES and not physfn:
        function["capabilities"], function["ats_enabled"] = _capabilities(reader, base)
    return function


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _identity(reader: Reader, base: str, names: Set[str]) -> Tuple[str, str, str, str, str]:
    """Vendor, device, subsystem, class and driver: all in `uevent`, or each in a file of its own."""
    text = reader.text(base + "/uevent", "pci") if "uevent" in names else None
    if text and "PCI_ID=" in text:
        event = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        vendor, _colon, device = event["PCI_ID"].lower().partition(":")
        maker, _colon, kind = event.get("PCI_SUBSYS_ID", "").lower().partition(":")
        subsystem = "0x%s:0x%s" % (maker, kind) if kind and maker + kind != "0" * 8 else ""
        number = event.get("PCI_CLASS", "0")
        class_ = "0x" + number.lower().rjust(6, "0")
        return "0x" + vendor, "0x" + device, subsystem, class_, event.get("DRIVER", "")
    words = [
        (reader.text("%s/%s" % (base, name), "pci") or "").lower() if name in names else ""
        for name in ("vendor", "device", "subsystem_vendor", "subsystem_device", "class")
    ]
    if not (words[0] and words[4]) and "config" in names:
        _identity_from_config(reader, base, words)
    vendor, device, maker, kind, class_ = words
    known = bool(maker and kind) and (maker, kind) != ("0x0000", "0x0000")
    driver = _last(reader.link(base + "/driver")) if "driver" in names else ""
    return vendor, device, "%s:%s" % (maker, kind) if known else "", class_, driver


def _identity_from_config(reader: Reader, base: str, words: List[str]) -> None:
    """Fill in what the files lack from the standard header (bytes 0-3 ids, 9-11 class)."""
    data = _config(reader, base)
    if len(data) < 16:
        return
    values = ["0x%02x%02x" % (data[1], data[0]), "0x%02x%02x" % (data[3], data[2]), "", ""]
    values.append("0x%02x%02x%02x" % (data[11], data[10], data[9]))
    words[:] = [word or value for word, value in zip(words, values)]


def _numa_node(
    reader: Reader, base: str, names: Set[str], cpus_of: Dict[int, FrozenSet[int]]
) -> Optional[int]:
    """The node that the firmware gives; None where it gives none (-1).

    A tree without `numa_node` may still have the CPUs near the device: where they are just those of
    one of several nodes, it is that node.
    """
    if "numa_node" in names:
        node = reader.number(base + "/numa_node", "pci.numa_node")
        return node if node is not None and node >= 0 else None
    if len(cpus_of) < 2:
        return None
    for name in ("local_cpulist", "local_cpus"):
        if name in names:
            try:
                text = reader.text("%s/%s" % (base, name), "pci.numa_node") or ""
                near = cpulist.parse(text) if name == "local_cpulist" else cpulist.parse_map(text)
            except ValueError as err:
                reader.note("pci.numa_node", "%s/%s: %s" % (base, name, err))
                return None
            found = [node for node, cpus in cpus_of.items() if cpus <= near]
            return found[0] if len(found) == 1 else None
    return None


def _net_of(reader: Reader, base: str, names: Set[str]) -> List[str]:
    return reader.names(base + "/net", "net") if "net" in names else []


def _config(reader: Reader, base: str) -> bytes:
    try:
        return reader.host.read_bytes(base + "/config")
    except HostError as err:
        reader.note("pci.config", "%s: %s" % (err.path, err.reason))
        return b""


def _capabilities(reader: Reader, base: str) -> Tuple[Optional[List[str]], Optional[bool]]:
    """Names of the capabilities, and whether ATS is enabled (None: it has none, or it was not read).

    Without privilege the kernel gives only the first 64 bytes, which end before the first capability.
    """
    data = _config(reader, base)
    if len(data) < 64:
        return None, None
    if not data[6] & 0x10:
        return [], None
    if len(data) == 64:
        reader.note("pci.config", "only the first 64 bytes could be read (more needs root on the host)")
        return None, None
    found, at = [], data[0x34] & 0xFC
    for _hop in range(48):
        if at < 0x40 or at + 2 > len(data):
            break
        found.append(CAPABILITIES.get(data[at], "0x%02x" % data[at]))
        at = data[at + 1] & 0xFC
    more, ats = _extended(data) if "pcie" in found else ([], None)
    return found + more, ats


def _extended(data: bytes) -> Tuple[List[str], Optional[bool]]:
    found: List[str] = []
    ats = None
    at = 0x100
    for _hop in range(96):
        head = int.from_bytes(data[at : at + 4], "little")
        if at < 0x100 or head in (0, 0xFFFFFFFF):
            break
        number = head & 0xFFFF
        found.append(EXTENDED.get(number, "ext-0x%02x" % number))
        if number == 0x0F:
            ats = bool(int.from_bytes(data[at + 6 : at + 8], "little") & 0x8000)
        at = head >> 20 & 0xFFC
    return found, ats
