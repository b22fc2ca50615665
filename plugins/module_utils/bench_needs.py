# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the benchmark needs to know and to find on a host before anything is started."""

from __future__ import annotations

import re
import shutil
from typing import Any, Dict, Mapping, NamedTuple, Sequence, Tuple

from .bench_domain import Guest, cell_memory
from .bench_scenarios import BenchError, Side
from .bench_stress import parse_version
from .host import Host, HostError

HEADROOM_MB = 64
"""Memory of a node that must stay free beside the guests where they use ordinary pages."""


class Tools(NamedTuple):
    """Programs of this host and what they say of themselves."""

    stress_ng: str
    busybox: str
    stress_ng_version: str
    qemu: str
    libvirt: str


def find_tools(host: Host) -> Tools:
    """Everything that must be installed, or one BenchError that names all that is missing."""
    needed = {
        "stress-ng": "stress-ng",
        "busybox": "busybox-static",
        "virsh": "libvirt-clients",
        "ldd": "libc-bin",
    }
    paths = {name: shutil.which(name, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin") for name in needed}
    missing = [needed[name] for name, path in paths.items() if not path]
    if not host.exists("/dev/kvm"):
        raise BenchError(
            "/dev/kvm is missing, and a guest without KVM is no measure of anything; switch on virtualization "
            "in the BIOS (VT-x, SVM) and load kvm_intel or kvm_amd"
        )
    if missing:
        raise BenchError("missing on this host: install the packages %s" % ", ".join(sorted(missing)))
    said = host.run(["virsh", "--connect", "qemu:///system", "version"])
    if said.rc:
        raise BenchError(
            "libvirt does not answer (%s); install libvirt-daemon-system and qemu-system, and start libvirtd"
            % said.stderr.strip().replace("\n", " ")
        )
    libvirt, qemu = parse_libvirt_versions(said.stdout)
    if not qemu:
        raise BenchError(
            "libvirt has no QEMU driver here; install the packages libvirt-daemon-system and qemu-system-x86"
        )
    version = parse_version(host.run(["stress-ng", "--version"]).stdout)
    return Tools(str(paths["stress-ng"]), str(paths["busybox"]), version, qemu, libvirt)


def parse_libvirt_versions(text: str) -> Tuple[str, str]:
    """(libvirt, QEMU) of `virsh version`; "" where not said."""
    library = re.search(r"[Uu]sing library: libvirt ([\d.]+)", text)
    hypervisor = re.search(r"[Rr]unning hypervisor: QEMU ([\d.]+)", text)
    return (library.group(1) if library else "", hypervisor.group(1) if hypervisor else "")


def emulation(host: Host) -> str:
    """Why figures of this host mean nothing; "" for real hardware.

    A processor says that it is virtual by the flag `hypervisor` (x86), the firmware by its vendor
    name; systemd-detect-virt knows more and is asked first where it exists.
    """
    try:
        said = host.run(["systemd-detect-virt", "--vm"]).stdout.strip()
    except HostError:
        said = ""
    cpuinfo = host.get("/proc/cpuinfo")
    vendor = host.get("/sys/class/dmi/id/sys_vendor")
    return emulation_reason(said, cpuinfo, vendor)


def emulation_reason(detected: str, cpuinfo: str, dmi_vendor: str) -> str:
    """The rule of `emulation`. detected: word of systemd-detect-virt, "" where it cannot be asked."""
    model = _cpuinfo_field(cpuinfo, "model name")
    if detected == "qemu" or "QEMU TCG" in model:
        return "this host is itself emulated by QEMU without hardware acceleration (TCG): no figure means anything"
    virtual = detected if detected != "none" else ""
    if not virtual and " hypervisor" in _cpuinfo_field(cpuinfo, "flags"):
        virtual = "a hypervisor"
    if not virtual and dmi_vendor in ("QEMU", "Red Hat", "VMware, Inc.", "innotek GmbH", "Xen"):
        virtual = dmi_vendor
    if virtual:
        return "this host is itself a virtual machine (%s): what is called bare metal here is not" % virtual
    return ""


def has_cpu_flag(cpuinfo: str, flag: str) -> bool:
    """Whether the first processor of /proc/cpuinfo has a flag."""
    return flag in _cpuinfo_field(cpuinfo, "flags").split()


def _cpuinfo_field(cpuinfo: str, name: str) -> str:
    found = re.search(r"^%s\s*:(.*)$" % re.escape(name), cpuinfo, re.MULTILINE)
    return found.group(1) if found else ""


def memory_need(sides: Sequence[Side], memory_mb: int) -> Dict[int, int]:
    """MiB on each host node when all guests are up at once."""
    need: Dict[int, int] = {}
    for side in sides:
        for node, size in cell_memory(side, memory_mb):
            need[node] = need.get(node, 0) + size
    return need


def choose_pages(
    need: Mapping[int, int], pools: Sequence[Mapping[str, int]], cell_mb: int, asked: str
) -> int:
    """Size in kB of the huge pages for the guests, 0 for ordinary ones.

    need: MiB per node. pools: HugePagePool documents. asked: "auto", "always" or "never". The
    largest size that divides a cell's memory and is free in number on every node is taken. Raises
    BenchError where "always" cannot be met.
    """
    if asked == "never":
        return 0
    sizes = sorted({p["size_kb"] for p in pools if p["size_kb"] >= 2048}, reverse=True)
    free = {(p["node"], p["size_kb"]): p["free"] * p["size_kb"] // 1024 for p in pools}
    for size in sizes:
        if cell_mb * 1024 % size == 0 and all(free.get((node, size), 0) >= mb for node, mb in need.items()):
            return size
    if asked == "always":
        raise BenchError(
            "benchmark_vm_hugepages=always: the guests need %s in free huge pages of one size; free: %s"
            % (_per_node(need), _pools(pools))
        )
    return 0


def _per_node(need: Mapping[int, int]) -> str:
    return ", ".join("%d MiB on node %d" % (mb, node) for node, mb in sorted(need.items()))


def _pools(pools: Sequence[Mapping[str, int]]) -> str:
    parts = ["%d x %d kB on node %d" % (p["free"], p["size_kb"], p["node"]) for p in pools if p["free"]]
    return ", ".join(parts) or "none"


def check_memory(need: Mapping[int, int], free_mb: Mapping[int, int]) -> None:
    """Raise BenchError where ordinary pages of a node do not suffice for its guests and the host."""
    for node, mb in sorted(need.items()):
        if free_mb.get(node, 0) < mb + HEADROOM_MB:
            raise BenchError(
                "NUMA node %d has %d MiB free, the guests need %d MiB there beside %d MiB for the host; lower "
                "benchmark_vm_memory_mb or ask for fewer benchmark_vm_scenarios"
                % (node, free_mb.get(node, 0), mb, HEADROOM_MB)
            )


def parse_node_free(meminfo: str) -> int:
    """MiB that a node can give: MemFree and the page cache of /sys/devices/system/node/nodeN/meminfo."""
    names = ("MemFree", "Active(file)", "Inactive(file)")
    fields = {
        m.group(1): int(m.group(2)) for m in re.finditer(r"^Node \d+ (\S+):\s+(\d+)", meminfo, re.MULTILINE)
    }
    return sum(fields.get(name, 0) for name in names) // 1024


def node_free(host: Host, nodes: Sequence[int]) -> Dict[int, int]:
    """MiB that each node can give; a host without NUMA is node 0."""
    free = {}
    for node in nodes:
        text = host.get("/sys/devices/system/node/node%d/meminfo" % node)
        free[node] = parse_node_free(
            text or re.sub("^", "Node 0 ", host.get("/proc/meminfo"), flags=re.MULTILINE)
        )
    return free


def guest_of(
    host: Host, state: Mapping[str, Any], sides: Sequence[Side], memory_mb: int, pages: str
) -> Guest:
    """What all guests of this host have in common. Raises BenchError where memory does not suffice."""
    need = memory_need(sides, memory_mb)
    cell_mb = min(memory_mb // len(side.cells) for side in sides)
    size = choose_pages(need, state["memory"]["hugepages"], cell_mb, pages)
    if not size:
        check_memory(need, node_free(host, sorted(need)))
    arch = state["cpu"]["arch"]
    topoext = has_cpu_flag(host.get("/proc/cpuinfo"), "topoext")
    machine = choose_machine(arch, host.run(["virsh", "--connect", "qemu:///system", "capabilities"]).stdout)
    return Guest(arch, memory_mb, size, machine, topoext)


def choose_machine(arch: str, capabilities: str) -> str:
    """Machine type of the guests. capabilities: output of `virsh capabilities`.

    An x86 guest of type "pc" starts a quarter faster than one of type "q35" (measured on an emulated
    host) and computes the same; distributions begin to leave it out.
    """
    if arch == "aarch64":
        return "virt"
    return "pc" if ">pc</machine>" in capabilities else "q35"
