"""/proc and /sys as far as they never change: processors, NUMA nodes, the PCI functions of the chassis."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from .hardware import Part, cpus_of, folder, parts
from .layer import Layer

CPU, NODE = "/sys/devices/system/cpu", "/sys/devices/system/node"
CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
model name\t: INTEL(R) XEON(R) PLATINUM 8562Y+
flags\t\t: fpu vme de pse tsc msr pae mce cx8 apic sep lm vmx constant_tsc ept invpcid avx512f pdpe1gb

"""


def ranges(cpus: Iterable[int]) -> str:
    """As the kernel prints a set of CPUs: 0-3,8."""
    found: list[list[int]] = []
    for cpu in sorted(cpus):
        if found and cpu == found[-1][1] + 1:
            found[-1][1] = cpu
        else:
            found.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def mask(cpus: Iterable[int], every: int) -> str:
    """The hexadecimal form, in groups of 32 bits."""
    value = sum(1 << cpu for cpu in cpus)
    groups = [f"{value >> at & 0xFFFFFFFF:08x}" for at in range(0, max(every, 1), 32)]
    return ",".join(reversed(groups))


def parse(text: str) -> list[int]:
    """CPUs of a list such as 0-3,8. Raises ValueError."""
    found: set[int] = set()
    for item in filter(None, (part.strip() for part in text.strip().split(","))):
        first, _dash, last = item.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return sorted(found)


@cache
def layer(sockets: int, cores: int, threads: int, memory_gib: int, gpu: str) -> Layer:
    """The layer of one kind of server; shared by all of that kind, so nothing may change it."""
    hw = {"sockets": sockets, "cores": cores, "threads": threads}
    found = Layer()
    every = sorted(cpu for node in range(sockets) for cpu in cpus_of(hw, node))
    for name in ("online", "present", "possible"):
        found.file(f"{CPU}/{name}", ranges(every) + "\n")
    found.file(f"{CPU}/offline", "\n")
    found.file(f"{CPU}/smt/control", "on\n")
    found.file(f"{CPU}/smt/active", "1\n")
    for node in range(sockets):
        own = cpus_of(hw, node)
        for core in range(cores):
            mates = [cpu for cpu in own if (cpu - node * cores - core) % (sockets * cores) == 0]
            for cpu in mates:
                base = f"{CPU}/cpu{cpu}"
                found.file(f"{base}/online", "1\n")
                found.file(f"{base}/topology/thread_siblings_list", ranges(mates) + "\n")
                found.file(f"{base}/topology/core_id", f"{core}\n")
                found.file(f"{base}/topology/physical_package_id", f"{node}\n")
                found.file(f"{base}/topology/die_id", "0\n")
        place = f"{NODE}/node{node}"
        found.file(f"{place}/cpulist", ranges(own) + "\n")
        found.file(f"{place}/cpumap", mask(own, len(every)) + "\n")
        found.file(
            f"{place}/distance", " ".join("10" if node == other else "21" for other in range(sockets)) + "\n"
        )
        kb = memory_gib * 1048576 // sockets
        found.file(
            f"{place}/meminfo",
            f"\nNode {node} MemTotal:       {kb} kB\nNode {node} MemFree:        {kb // 2} kB\n",
        )
    found.file(f"{NODE}/online", f"0-{sockets - 1}\n")
    found.file("/proc/cpuinfo", CPUINFO)
    found.file("/proc/sys/kernel/arch", "x86_64\n")
    for part in parts(gpu):
        _part(found, part, gpu, hw)
    return found


def _part(found: Layer, part: Part, gpu: str, hw: dict[str, int]) -> None:
    base = folder(part.address, gpu)
    found.link(f"/sys/bus/pci/devices/{part.address}", "../../.." + base.removeprefix("/sys"))
    for name, value in (
        ("class", f"0x{part.class_:06x}"),
        ("vendor", f"0x{part.vendor:04x}"),
        ("device", f"0x{part.device:04x}"),
        ("subsystem_vendor", f"0x{part.subsystem[0]:04x}"),
        ("subsystem_device", f"0x{part.subsystem[1]:04x}"),
        ("numa_node", str(part.node)),
        ("local_cpulist", ranges(cpus_of(hw, part.node))),
        ("max_link_speed", "32.0 GT/s PCIe"),
        ("max_link_width", "16"),
        ("current_link_speed", "32.0 GT/s PCIe"),
        ("current_link_width", "16"),
    ):
        found.file(f"{base}/{name}", value + "\n")
