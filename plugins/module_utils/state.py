# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shape of the document that `host_info` returns and every `decide` reads.

CPU sets are cpulists as the kernel writes them ("0-3,8"; "" is the empty set). Sizes are bytes
unless the name says kb. A value that could not be read is None and stands in `unread` with its
reason; a value that the host really lacks is an empty list, string or False.
"""

from __future__ import annotations

from typing import Dict, List, Optional, TypedDict

SCHEMA = 1


class Unread(TypedDict):
    section: str  # "boot", "pci.config", ...
    reason: str


class Core(TypedDict):
    cpus: str  # online siblings of one core
    node: Optional[int]  # None where the kernel has no NUMA
    socket: int
    core_id: Optional[int]
    die: Optional[int]
    kind: str  # "performance", "efficiency" on hybrid processors, else ""


class Node(TypedDict):
    id: int
    cpus: str  # online CPUs, may be ""
    memory_bytes: Optional[int]
    distances: List[int]  # in the order of the nodes in this list
    kind: str  # "cpu", "memory" (CPU-less), "gpu" (memory of an NVIDIA GPU)


class Cpu(TypedDict):
    arch: str
    vendor: str
    model: str
    flags_virt: str  # "vmx", "svm" or ""
    online: str
    offline: str
    present: str
    isolated: Optional[str]  # /sys/devices/system/cpu/isolated; None where not known
    nohz_full: Optional[str]
    threads_per_core: int  # the largest
    smt: str  # /sys/devices/system/cpu/smt/control: "on", "off", "forceoff", "notsupported", ""
    boot_cpu: int  # the lowest online CPU: 0 wherever it is online
    sockets: int
    cores: List[Core]  # online CPUs only, in the order of their lowest CPU
    nodes: List[Node]


class HugePagePool(TypedDict):
    node: int
    size_kb: int
    total: int
    free: int
    surplus: int


class Memory(TypedDict):
    total_bytes: Optional[int]
    hugepage_default_kb: Optional[int]
    hugepage_sizes_kb: List[int]
    hugepages: List[HugePagePool]  # every pool of every node, zero ones too
    thp: Optional[str]  # transparent huge pages: "always", "madvise", "never"


class Kernel(TypedDict):
    release: str
    cmdline: Optional[str]  # running; None without /proc/cmdline
    boot_id: str
    lockdown: str
    uptime_s: Optional[float]


class BootLines(TypedDict, total=False):
    """What else is configured; absent where nobody looked."""

    others: List[str]  # lines of the other entries, and what kernels installed later will get


class Boot(BootLines):
    """What will be booted next. See bootloader.py."""

    loader: str  # "grub", "grub-bls", "systemd-boot", "ostree", "" (unknown)
    configured: Optional[str]  # the default entry's arguments as the boot loader will pass them
    sealed: str  # why arguments cannot be changed here; "" where they can
    sources: List[str]  # files that they were read from


Function = TypedDict(
    "Function",
    {
        "address": str,  # 0000:17:00.0
        "vendor": str,  # "0x15b3"
        "device": str,
        "subsystem": str,  # "0x15b3:0x0023" or ""
        "class": str,  # "0x020000"
        "numa_node": Optional[int],  # None: the firmware does not say (-1)
        "driver": str,
        "iommu_group": Optional[int],
        "sriov_total": int,
        "sriov_vfs": int,
        "physfn": str,  # address of the PF where this is a VF, else ""
        "netdevs": List[str],
        "parent": str,  # address of the bridge above, or ""
        "capabilities": Optional[List[str]],  # ["pm", "pcie", "ats", "sriov"]; None where not read
        "ats_enabled": Optional[bool],  # None: has no ATS, or not read
    },
)
"""One PCI function."""


class Acs(TypedDict):
    """Access Control Services of a bridge (or function): seven bits as text, SrcValid last, DirectTrans first."""

    able: str  # "1011111"
    enabled: str  # "0011101"


class Pcie(TypedDict):
    """PCI Express registers of one function."""

    port: str  # "endpoint", "root", "upstream", "downstream", ...
    max_payload: int  # bytes in force
    max_payload_able: int
    max_read_request: int  # bytes
    relaxed_ordering: bool
    link: str  # "32 GT/s x16"; "" where it has none
    link_able: str
    ats_capable: bool
    ats_enabled: Optional[bool]  # None: not capable
    acs: Optional[Acs]  # None: has none


class IommuTables(TypedDict, total=False):
    """Absent where nobody looked."""

    tables: List[str]  # ACPI tables that describe an IOMMU: "DMAR" (VT-d), "IVRS" (AMD-Vi), "IORT" (SMMU)


class Iommu(IommuTables):
    groups: int
    types: Dict[str, int]  # how many groups of each type: {"identity": 23}
    units: List[str]  # /sys/class/iommu: "dmar0", "ivhd0"; empty: no IOMMU is in use


class Netdev(TypedDict):
    name: str
    pci: str
    mac: str
    mtu: Optional[int]
    operstate: str
    speed_mbps: Optional[int]
    bond: str  # the bond it is in, or ""


class Irq(TypedDict):
    irq: int
    name: str
    affinity: str  # smp_affinity_list
    effective: str


class Confinement(TypedDict):
    """Who may run where: the input of cpu_isolation."""

    cgroup: str  # "v2" with cpusets, "v2-no-cpuset", "v1" (legacy or hybrid), "" (not known)
    slices: Dict[str, Optional[str]]  # cgroup cpuset.cpus of init.scope, system.slice, user.slice, machine.slice
    effective: Dict[str, Optional[str]]  # cpuset.cpus.effective of the same; None: the file is not there
    default_irq_affinity: Optional[str]  # cpulist
    irqs: List[Irq]
    irqbalance: str  # "active", "inactive", "absent", "" (not known)
    files: Dict[str, str]  # the files that cpu_isolation and hugepages own, with their content


class FirmwareValue(TypedDict):
    """As the tool prints it: "True(1)", "16". None: the card does not say."""

    default: Optional[str]
    current: Optional[str]
    next: Optional[str]  # at the next start of the card


class CardFirmware(TypedDict):
    tool: str  # "mstconfig", "mlxconfig", "" where neither is there
    values: Dict[str, FirmwareValue]
    error: str  # why there are no values, ""


Firmware = Dict[str, CardFirmware]
"""By the address of the PF; both ports of a card say the same."""


class Os(TypedDict):
    id: str
    version_id: str
    name: str
    hostname: str
    systemd: bool


class LastReboot(TypedDict):
    """What nearmetal wrote before the last reboot that it asked for."""

    boot_id: str  # the boot that was ended
    reason: str  # digest of what the reboot was for
    wanted: str  # the same in words


class StateFiles(TypedDict, total=False):
    """Absent where nobody looked."""

    files: Dict[str, str]  # content of what the capabilities own (FILES) or want read (PROBE), by path
    firmware: Optional[Firmware]  # None: not asked for
    pcie: Dict[str, Pcie]  # network and display functions, accelerators and the bridges above; unread ones left out


class State(StateFiles):
    schema: int
    live: bool
    os: Os
    cpu: Cpu
    memory: Memory
    kernel: Kernel
    boot: Boot
    iommu: Iommu
    pci: List[Function]
    net: List[Netdev]
    confinement: Confinement
    kvm: Optional[bool]
    last_reboot: Optional[LastReboot]
    unread: List[Unread]
