# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processors: which CPUs share a core, where the cores sit, which are online.

Sources: Documentation/ABI/stable/sysfs-devices-system-cpu and sysfs-devices-node of the kernel. Old
kernels know only the hexadecimal maps; the sibling list is "0-1" or "0,24" as the numbering has it.
"""

from __future__ import annotations

import re
from typing import Dict, FrozenSet, List, Optional, Tuple

from .. import cpulist
from ..state import Core, Cpu, Node
from .reader import Reader, kb_value, numbered

CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"
NONE: FrozenSet[int] = frozenset()
GPU_NODE = re.compile(r"(?m)^Node:\s+(\d+)")

ARM_VENDORS = {
    0x41: "ARM", 0x42: "Broadcom", 0x43: "Cavium", 0x46: "Fujitsu", 0x48: "HiSilicon", 0x4E: "NVIDIA",
    0x50: "APM", 0x51: "Qualcomm", 0x61: "Apple", 0x6D: "Microsoft", 0x70: "Phytium", 0xC0: "Ampere",
}  # fmt: skip
"""CPU implementer of MIDR_EL1: arch/arm64/include/asm/cputype.h."""


def observe_cpu(reader: Reader) -> Cpu:
    """The `cpu` section."""
    online, present = _online_present(reader)
    nodes = observe_nodes(reader, online)
    cores = _cores(reader, online, {cpu: node["id"] for node in nodes for cpu in cpulist.parse(node["cpus"])})
    info = reader.text("/proc/cpuinfo", "cpu.model")
    if info is None:
        reader.note("cpu.model", "/proc/cpuinfo is missing")
    arch, vendor, model, virt = identify(info or "", reader.text("/proc/sys/kernel/arch", "cpu.arch") or "")
    return {
        "arch": arch,
        "vendor": vendor,
        "model": model,
        "flags_virt": virt,
        "online": cpulist.format(online),
        "offline": cpulist.format(present - online),
        "present": cpulist.format(present),
        "isolated": _attribute(reader, "isolated"),
        "nohz_full": _attribute(reader, "nohz_full"),
        "threads_per_core": max([1, *(len(cpulist.parse(core["cpus"])) for core in cores)]),
        "smt": _smt(reader),
        "boot_cpu": min(online, default=0),
        "sockets": len({core["socket"] for core in cores}),
        "cores": cores,
        "nodes": nodes,
    }


def _set(reader: Reader, path: str, section: str, hexadecimal: bool = False) -> Optional[FrozenSet[int]]:
    """CPUs of a list or map; None where the file is missing or unusable (noted)."""
    text = reader.text(path, section)
    if text is None:
        return None
    try:
        return cpulist.parse_map(text) if hexadecimal else cpulist.parse(text)
    except ValueError as err:
        reader.note(section, "%s: %s" % (path, err))
        return None


def _online_present(reader: Reader) -> Tuple[FrozenSet[int], FrozenSet[int]]:
    """Online and present CPUs; from each CPU's own folder where the kernel gives no list."""
    online = _set(reader, CPU + "/online", "cpu.online")
    present = _set(reader, CPU + "/present", "cpu.present")
    if not online:
        folders = numbered(reader.names(CPU, "cpu.online"), "cpu")
        online = frozenset(_online_one_by_one(reader, folders))
        present = frozenset(folders) if present is None else present
        if not folders:
            reader.note("cpu", "%s names no CPU" % CPU)
    if present is None:
        offline = _set(reader, CPU + "/offline", "cpu.offline")
        present = online | (offline or NONE)
    return online, present | online


def _online_one_by_one(reader: Reader, folders: List[int]) -> List[int]:
    """CPUs whose `online` says 1, or that have none (the boot CPU), unless only they lack a topology."""
    said = {cpu: reader.text("%s/cpu%d/online" % (CPU, cpu), "cpu.online") for cpu in folders}
    placed = {cpu for cpu in folders if reader.exists("%s/cpu%d/topology" % (CPU, cpu))}
    return [cpu for cpu in folders if said[cpu] == "1" or said[cpu] is None and (cpu in placed or not placed)]


def _attribute(reader: Reader, name: str) -> Optional[str]:
    """A cpulist that the kernel keeps; None where it is not known.

    A running kernel without the file was built without the feature: no CPU is in it. Kernels before
    4.15 print "(null)" or nothing but white space for an empty mask.
    """
    path = "%s/%s" % (CPU, name)
    text = reader.text(path, "cpu." + name)
    if text is None:
        if reader.host.live and not reader.exists(path):
            return ""
        if not reader.exists(path):
            reader.note("cpu." + name, "%s is not in this tree" % path)
        return None
    if text in ("(null)", ""):
        return ""
    try:
        return cpulist.format(cpulist.parse(text))
    except ValueError as err:
        reader.note("cpu." + name, "%s: %s" % (path, err))
        return None


def _smt(reader: Reader) -> str:
    """The control file's word; where only `active` is there, "on" is certain, the rest is not."""
    control = reader.text(CPU + "/smt/control", "cpu.smt")
    if control is not None:
        return control
    return "on" if reader.text(CPU + "/smt/active", "cpu.smt") == "1" else ""


def _cores(reader: Reader, online: FrozenSet[int], node_of: Dict[int, int]) -> List[Core]:
    kinds = _kinds(reader, online)
    by_id: Dict[Tuple[Optional[int], Optional[int], Optional[int]], List[int]] = {}
    found: List[Tuple[FrozenSet[int], Optional[int], Optional[int], Optional[int]]] = []
    done: set[int] = set()
    for cpu in sorted(online):
        if cpu in done:
            continue
        base = "%s/cpu%d/topology/" % (CPU, cpu)
        names = set(reader.names(base[:-1], "cpu.cores"))
        core_id, package, die = (
            _known(reader.number(base + name, "cpu.cores") if name in names else None)
            for name in ("core_id", "physical_package_id", "die_id")
        )
        siblings = _siblings(reader, base, names)
        if siblings is None:
            # No sibling file at all: CPUs with the same package, die and core id share a core.
            mates = by_id.setdefault((package, die, core_id), [])
            mates.append(cpu)
            if core_id is not None and len(mates) > 1:
                at = next(i for i, core in enumerate(found) if mates[0] in core[0])
                found[at] = (frozenset(mates), *found[at][1:])
                continue
            siblings = frozenset((cpu,))
        cpus = (siblings & online) - done | {cpu}
        done |= cpus
        found.append((cpus, package, core_id, die))
    return [
        {
            "cpus": cpulist.format(cpus),
            "node": node_of.get(min(cpus)),
            "socket": package or 0,
            "core_id": core_id,
            "die": die,
            "kind": kinds.get(min(cpus), ""),
        }
        for cpus, package, core_id, die in found
    ]


def _known(number: Optional[int]) -> Optional[int]:
    """An id; None where the firmware gives none (-1, also as unsigned 32 bits, on arm64)."""
    return number if number is not None and 0 <= number < 0x7FFFFFFF else None


def _siblings(reader: Reader, base: str, names: set[str]) -> Optional[FrozenSet[int]]:
    for name, hexadecimal in (
        ("thread_siblings_list", False),
        ("core_cpus_list", False),
        ("thread_siblings", True),
        ("core_cpus", True),
    ):
        if name in names:
            cpus = _set(reader, base + name, "cpu.cores", hexadecimal)
            if cpus:
                return cpus
    return None


def _kinds(reader: Reader, online: FrozenSet[int]) -> Dict[int, str]:
    """Kinds of cores on hybrid processors: x86 by PMU, arm64 by capacity; empty where all are alike."""
    big = _set(reader, "/sys/devices/cpu_core/cpus", "cpu.kinds")
    small = _set(reader, "/sys/devices/cpu_atom/cpus", "cpu.kinds")
    if big and small:
        return {**dict.fromkeys(small, "efficiency"), **dict.fromkeys(big, "performance")}
    if not reader.exists("%s/cpu%d/cpu_capacity" % (CPU, min(online, default=0))):
        return {}
    capacity = {}
    for cpu in online:
        value = reader.number("%s/cpu%d/cpu_capacity" % (CPU, cpu), "cpu.kinds")
        if value is not None:
            capacity[cpu] = value
    top = max(capacity.values(), default=0)
    if min(capacity.values(), default=0) == top:
        return {}
    return {cpu: "performance" if value == top else "efficiency" for cpu, value in capacity.items()}


def observe_nodes(reader: Reader, online: FrozenSet[int]) -> List[Node]:
    """NUMA nodes in the order of their ids; none where the kernel has no NUMA."""
    gpus = _gpu_nodes(reader)
    nodes: List[Node] = []
    ids = numbered(reader.names(NODE, "cpu.nodes"), "node")
    for number in ids:
        base = "%s/node%d" % (NODE, number)
        names = reader.names(base, "cpu.nodes")
        cpus = _node_cpus(reader, base, names) & online
        kind = "gpu" if number in gpus and not cpus else "cpu" if cpus else "memory"
        distances = _distances(reader, base, len(ids)) if "distance" in names else []
        if not distances:
            reader.note("cpu.nodes.distances", "%s/distance is not there or of no use" % base)
        nodes.append(
            {
                "id": number,
                "cpus": cpulist.format(cpus),
                "memory_bytes": _node_memory(reader, base),
                "distances": distances,
                "kind": kind,
            }
        )
    return nodes


def _node_cpus(reader: Reader, base: str, names: List[str]) -> FrozenSet[int]:
    for name in ("cpulist", "cpumap"):
        if name in names:
            cpus = _set(reader, "%s/%s" % (base, name), "cpu.nodes", name == "cpumap")
            if cpus is not None:
                return cpus
    return frozenset(numbered(names, "cpu"))


def _distances(reader: Reader, base: str, nodes: int) -> List[int]:
    """One number for each node of the list, or none at all: a partial row would be misread."""
    words = (reader.text(base + "/distance", "cpu.nodes.distances") or "").split()
    return [int(w) for w in words] if len(words) == nodes and all(w.isdecimal() for w in words) else []


def _node_memory(reader: Reader, base: str) -> Optional[int]:
    text = reader.text(base + "/meminfo", "memory.nodes")
    kb = kb_value(text, "MemTotal") if text is not None else None
    if kb is None:
        reader.note("memory.nodes", "%s/meminfo says no MemTotal" % base)
        return None
    return kb * 1024


def _gpu_nodes(reader: Reader) -> FrozenSet[int]:
    """Nodes that are the memory of an NVIDIA GPU (NVLink to POWER9, Grace): the driver says which."""
    found = []
    base = "/proc/driver/nvidia/gpus"
    for gpu in reader.names(base, "cpu.nodes"):
        text = reader.text("%s/%s/numa_status" % (base, gpu), "cpu.nodes") or ""
        node = GPU_NODE.search(text)
        if node:
            found.append(int(node.group(1)))
    return frozenset(found)


def identify(info: str, arch: str) -> Tuple[str, str, str, str]:
    """Architecture, vendor, model and virtualization flag from /proc/cpuinfo (its first CPU is enough)."""
    fields: Dict[str, str] = {}
    for line in info.splitlines():
        key, _colon, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    flags = fields.get("flags", "").split()
    virt = next((flag for flag in ("vmx", "svm") if flag in flags), "")
    vendor = fields.get("vendor_id", "")
    if "CPU implementer" in fields:
        code = int(fields["CPU implementer"], 0)
        part = fields.get("CPU part", "")
        aarch64 = fields.get("CPU architecture", "") in ("8", "AArch64") or "asimd" in fields.get("Features", "")
        model = fields.get("model name") or ("part " + part if part else "")
        return arch or ("aarch64" if aarch64 else "arm"), ARM_VENDORS.get(code, "0x%02x" % code), model, ""
    if fields.get("cpu", "").startswith("POWER"):
        return arch or "ppc64le", "IBM", fields["cpu"].split(",")[0].split(" (")[0], ""
    if vendor == "IBM/S390":
        return arch or "s390x", "IBM", fields.get("machine", ""), ""
    model = " ".join(fields.get("model name", "").split())
    guess = ("x86_64" if "lm" in flags else "i686") if flags else ""
    return arch or guess, vendor, model, virt
