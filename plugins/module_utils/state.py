# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shape of the document that `host_info` returns and every `decide` reads.

CPU sets are cpulists as the kernel writes them ("0-3,8"; "" is the empty set). Sizes are bytes
unless the name says kb. A value that could not be read is None and stands in `unread` with its
reason; a value that the host really lacks is an empty list, string or False.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict

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


class Eswitch(TypedDict):
    """The embedded switch of a PF; all None where the driver has none (igb) or nobody could be asked."""

    mode: Optional[str]  # "legacy", "switchdev"
    steering: Optional[str]  # "smfs", "dmfs", "hmfs"
    multiport: Optional[bool]  # devlink parameter esw_multiport
    inline: Optional[str]
    encap: Optional[str]


class Lag(TypedDict):
    """What mlx5 says in debugfs (lag/*). The kernel answers EINVAL for `type` while the LAG is not active."""

    state: str  # "active", "disabled"
    type: Optional[str]  # "roce", "switchdev", "multipath", "multiport_eswitch"; None: not active
    members: List[str]  # PCI addresses


class Vf(TypedDict):
    """One virtual function. None: not read, or not reported by the PF's driver; "": really nothing."""

    index: int
    address: str
    driver: str  # "" is unbound
    driver_override: Optional[str]
    netdev: str
    netdev_mac: str  # permanent address of the VF's own device: the administrative one takes effect at binding
    mac: Optional[str]  # administrative, told by the PF; "" is all zeros (the VF chooses)
    vlan: Optional[int]  # 0: none
    qos: Optional[int]
    proto: Optional[str]  # "802.1Q", "802.1ad"
    trust: Optional[bool]
    spoofchk: Optional[bool]
    link_state: Optional[str]  # "auto", "enable", "disable"
    min_tx_rate: Optional[int]  # Mbit/s, 0: no limit
    max_tx_rate: Optional[int]
    node_guid: Optional[str]
    port_guid: Optional[str]
    mtu: Optional[int]  # of its netdev
    in_use: Optional[str]  # what holds it: "VM db1", "a guest that has it open", "bond0"; "": free
    representor: str
    representor_mtu: Optional[int]
    representor_up: Optional[bool]  # administratively
    representor_master: str  # Linux bridge, or "ovs-system"
    representor_vlan: Optional[int]  # PVID in a VLAN-aware bridge, tag in Open vSwitch; 0: none


class Pf(TypedDict):
    """One physical function with SR-IOV, or a port of a bond that the fabric roles may manage."""

    address: str
    driver: str
    netdev: str  # "" where no network driver has it
    port_name: str  # phys_port_name: "p0"; "" where the driver has none
    mac: str  # permanent
    serial: str  # VPD SN; "" where there is none
    card: str  # address without the function: "0000:08:00"
    numa_node: Optional[int]
    sriov_total: Optional[int]  # what firmware allows now; None: not read
    sriov_vfs: Optional[int]
    sriov_capable: Optional[bool]  # the function has the SR-IOV capability; None: not read
    autoprobe: Optional[bool]
    mtu: Optional[int]
    up: Optional[bool]  # administratively
    carrier: Optional[bool]
    bond: str  # bond that it is in, or ""
    master: str  # any master
    addresses: List[str]  # with prefix length: "192.0.2.4/24"
    eswitch: Eswitch
    devlink: str  # "pci/0000:08:00.0"
    switch_id: str  # "" in legacy
    hw_tc_offload: Optional[bool]
    lag: Optional[Lag]  # None: the driver knows no LAG, or it could not be read
    vfs: List[Vf]  # in the order of their indexes


class FabricBond(TypedDict):
    name: str
    mode: str  # "active-backup", "balance-xor", "802.3ad", ...
    slaves: List[str]  # netdevs, sorted
    active_slave: str
    miimon: Optional[int]  # ms
    lacp_rate: Optional[str]  # "slow", "fast"
    xmit_hash_policy: Optional[str]  # "layer2", "layer3+4", ...
    mii_status: str  # "up", "down", ""
    mtu: Optional[int]
    up: Optional[bool]
    mac: str
    addresses: List[str]
    partner_mac: str
    owner: str  # "networkd", "NetworkManager", "ifupdown", "netplan", "" (nobody's configuration names it)
    owner_files: List[str]
    master: str


class BridgePort(TypedDict):
    name: str
    pvid: Optional[int]
    vids: List[int]


class FabricBridge(TypedDict):
    name: str
    vlan_filtering: bool
    ports: List[BridgePort]
    addresses: List[str]
    up: Optional[bool]


class OvsPort(TypedDict):
    name: str
    tag: Optional[int]


class OvsBridge(TypedDict):
    name: str
    ports: List[OvsPort]
    addresses: List[str]  # of the bridge's own device
    up: Optional[bool]


class Ovs(TypedDict):
    hw_offload: bool
    bridges: List[OvsBridge]


class Guard(TypedDict):
    """The network guard (fabric_boot/guard.py)."""

    armed: bool  # its timer runs
    deadline: str  # when it restores: "2026-01-31T12:00:00Z"; "" where there is no guard
    left: str  # why a guard is there that nobody will confirm and no timer will end; "" where there is none


class Claim(TypedDict):
    """What a file of a network manager says of a device."""

    owner: str  # "networkd", "NetworkManager", "ifupdown", "netplan"
    file: str
    line: int
    kind: str  # "bond" (it makes one), "device"
    device: str  # names or patterns, separated by blanks; "" where others tell which one is meant
    macs: List[str]
    paths: List[str]  # udev's ID_PATH, as "pci-0000:08:00.0"
    master: str
    ports: List[str]  # of a bond, by name or id
    options: Dict[str, Any]  # mode, miimon, lacp_rate, xmit_hash_policy, mtu
    addresses: List[str]
    dhcp: bool
    auto: bool  # False: it is left alone until somebody asks


class Managers(TypedDict):
    """Who may set up the network here."""

    units: Dict[str, str]  # "systemd-networkd.service": "active", "inactive", ...; "" where nobody asked
    renderer: str  # of netplan: "networkd", "NetworkManager"; "" where there is no file of netplan
    sourced: bool  # /etc/network/interfaces takes in interfaces.d
    claims: List[Claim]  # in the order in which each manager reads them
    unreadable: List[str]  # files of which nobody knows what they say, with the reason
    own: Dict[str, str]  # files that nearmetal wrote, by path, with their text


class Fabric(TypedDict):
    pfs: List[Pf]
    bonds: List[FabricBond]
    bridges: List[FabricBridge]
    ovs: Optional[Ovs]  # None: no Open vSwitch that answers
    management: List[str]  # netdevs of the default route and of the SSH connection, with what lies below them
    other_owners: Dict[str, str]  # who else manages SR-IOV here: {"sriov-network-operator": file that says so}
    units: Dict[str, str]  # unit: "active", "failed", "inactive", "absent"; "" where nobody asked
    guard: Optional[Guard]
    managers: Managers


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


class BmcBios(TypedDict):
    """The BIOS as a BMC shows it."""

    path: str
    settings_path: str
    registry: str  # id; "" where there is none
    current: Dict[str, Any]  # raw Attributes of the two resources
    settings: Dict[str, Any]
    settings_etag: str
    apply_times: List[str]  # empty: the BMC does not say
    messages: List[str]  # of @Redfish.Settings: what the BIOS said of the last values
    clear_action: str
    jobs: List[Dict[str, Any]]  # unfinished jobs that configure the BIOS (Dell)
    jobs_path: str  # where they are; "" where there are none


class BmcRequired(TypedDict):
    uri: str
    error: str  # why it could not be read, ""


class Bmc(BmcRequired, total=False):
    """What one BMC said over Redfish. The rest is absent where `error` is not empty."""

    manufacturer: str
    model: str
    bios_version: str
    bmc_version: str
    bmc_model: str
    power_state: str
    health: str
    system: str
    reset_types: List[str]
    boot: Dict[str, Any]
    secure_boot: Optional[bool]
    bios: BmcBios
    registry: Optional[Dict[str, Any]]  # None: not read


class StateFiles(TypedDict, total=False):
    """Absent where nobody looked."""

    files: Dict[str, str]  # content of what the capabilities own (FILES) or want read (PROBE), by path
    firmware: Optional[Firmware]  # None: not asked for
    fabric: Fabric
    bmc: Optional[Bmc]  # None: no BMC is known
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
