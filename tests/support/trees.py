"""Trees of made-up hosts: /proc and /sys as a kernel shows them, for tests and benchmarks.

    tree = build(sockets=2, nodes=4, cores=6, threads=2, offline=[3])
    tree.host()            a SnapshotHost
    tree.write(folder)     the same on disk: a root for FileHost, the collector, or `root:` of modules
    tree.archive(path)     the same as a tar archive

Benchmarks put this folder on sys.path and import `trees`.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.nearmetal.rack.plugins.module_utils import cpulist
from ansible_collections.nearmetal.rack.plugins.module_utils.host import SnapshotHost

CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"
GIB = 1 << 20  # in kB
NUMBERINGS = ("threads_last", "threads_adjacent", "nodes_interleaved")


@dataclass
class Tree:
    """Files and links of a host."""

    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    def host(self, live: bool = False) -> SnapshotHost:
        """A Host in memory; `live` as the probe of a running system would bring it."""
        return SnapshotHost(dict(self.files), dict(self.links), folders=list(self.folders), live=live)

    def write(self, root: Path) -> Path:
        """Write it to a folder."""
        for path in self.folders:
            (root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for path, text in self.files.items():
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        for path, to in self.links.items():
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(to)
        return root

    def archive(self, path: Path, top: str = "", mode: str = "w:gz") -> Path:
        """Write it to a tar archive, below the folder `top` ("" or "name/")."""
        with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
            for name, text in self.files.items():
                member = tarfile.TarInfo(top + name.lstrip("/"))
                member.size = len(text.encode())
                archive.addfile(member, io.BytesIO(text.encode()))
            for name, to in self.links.items():
                member = tarfile.TarInfo(top + name.lstrip("/"))
                member.type, member.linkname = tarfile.SYMTYPE, to
                archive.addfile(member)
        return path


def layout(nodes: int, cores: int, threads: int, numbering: str) -> list[list[list[int]]]:
    """CPU numbers: [node][core] -> its threads. `cores` are those of one node.

    threads_last: first threads of all cores, then the second ones (servers); threads_adjacent: siblings
    side by side (QEMU, some firmware); nodes_interleaved: neighbours in number are on different nodes.
    """
    every = nodes * cores
    found = []
    for node in range(nodes):
        row = []
        for core in range(cores):
            place = node * cores + core
            if numbering == "threads_adjacent":
                row.append([place * threads + t for t in range(threads)])
            elif numbering == "nodes_interleaved":
                row.append([core * nodes + node + t * every for t in range(threads)])
            else:
                row.append([place + t * every for t in range(threads)])
        found.append(row)
    return found


def build(
    sockets: int = 1, nodes: int = 1, cores: int = 2, threads: int = 2, numbering: str = "threads_last",
    offline: Iterable[int] = (), node_ids: Sequence[int] = (), memory_nodes: int = 0, gpu_nodes: int = 0,
    memory_gib: int = 64, hugepages: Mapping[tuple[int, int], int] | None = None, efficiency: Iterable[int] = (),
    cmdline: str = "BOOT_IMAGE=/vmlinuz-6.1.0 root=UUID=1 ro quiet", devices: Sequence[Mapping[str, Any]] = (),
    irqs: int = 0, old_kernel: bool = False, arm: bool = False, numa: bool = True, files: Mapping[str, str] | None = None,
) -> Tree:  # fmt: skip
    """A host. `nodes` are all nodes with CPUs, spread over the sockets; `cores` are those of one node.

    memory_nodes and gpu_nodes come after them, without CPUs. hugepages: {(node, size in kB): count}.
    efficiency: CPUs of the small kind. devices: see `pci`. old_kernel: hexadecimal maps only, no lists.
    arm: no package ids, no die. numa False: no nodes at all. files: more, or instead.
    """
    places = layout(nodes, cores, threads, numbering)
    ids = list(node_ids) or list(range(nodes + memory_nodes + gpu_nodes))
    online = frozenset(c for row in places for core in row for c in core) - frozenset(offline)
    tree = Tree()
    _cpus(tree, places, frozenset(offline), sockets, old_kernel, arm)
    _lists(tree, places, frozenset(offline), frozenset(efficiency), old_kernel)
    if numa:
        _nodes(tree, places, ids, gpu_nodes, memory_gib, hugepages or {}, old_kernel)
    _proc(tree, ids, memory_gib, cmdline, arm, irqs, cpulist.format(online))
    for device in devices:
        pci(tree, **device)
    tree.files.update(files or {})
    return tree


def _cpus(
    tree: Tree, places: list[list[list[int]]], offline: frozenset[int], sockets: int, old: bool, arm: bool
) -> None:
    for node, row in enumerate(places):
        for core, cpus in enumerate(row):
            up = [c for c in cpus if c not in offline]
            for cpu in cpus:
                base = f"{CPU}/cpu{cpu}/"
                tree.folders.append(base.rstrip("/"))
                if cpu:
                    tree.files[base + "online"] = f"{int(cpu not in offline)}\n"
                if cpu in offline:
                    continue
                top = base + "topology/"
                tree.files[top + "core_id"] = f"{core}\n"
                tree.files[top + "physical_package_id"] = "-1\n" if arm else f"{node * sockets // len(places)}\n"
                tree.files[top + "thread_siblings"] = cpulist.format_map(up) + "\n"
                if not old:
                    tree.files[top + "thread_siblings_list"] = cpulist.format(up) + "\n"
                    if not arm:
                        tree.files[top + "die_id"] = "0\n"


def _lists(
    tree: Tree, places: list[list[list[int]]], offline: frozenset[int], small: frozenset[int], old: bool
) -> None:
    every = frozenset(c for row in places for core in row for c in core)
    if not old:
        for name, cpus in (("online", every - offline), ("offline", every & offline), ("present", every), ("possible", every)):
            tree.files[f"{CPU}/{name}"] = cpulist.format(cpus) + "\n"
        tree.files[CPU + "/isolated"] = tree.files[CPU + "/nohz_full"] = "\n"
        tree.files[CPU + "/smt/control"] = ("on" if len(places[0][0]) > 1 else "notsupported") + "\n"
    if small:
        tree.files["/sys/devices/cpu_core/cpus"] = cpulist.format(every - small) + "\n"
        tree.files["/sys/devices/cpu_atom/cpus"] = cpulist.format(small) + "\n"


def _nodes(
    tree: Tree, places: list[list[list[int]]], ids: list[int], gpus: int, gib: int,
    pages: Mapping[tuple[int, int], int], old: bool,
) -> None:  # fmt: skip
    sizes = sorted({2048, 1048576} | {size for _node, size in pages})
    for at, number in enumerate(ids):
        base = f"{NODE}/node{number}/"
        cpus = [c for core in places[at] for c in core] if at < len(places) else []
        tree.files[base + "cpumap"] = cpulist.format_map(cpus) + "\n"
        if not old:
            tree.files[base + "cpulist"] = cpulist.format(cpus) + "\n"
        tree.files[base + "distance"] = " ".join("10" if at == other else "21" for other in range(len(ids))) + "\n"
        tree.files[base + "meminfo"] = f"\nNode {number} MemTotal:       {gib * GIB // len(ids)} kB\nNode {number} MemFree: 1 kB\n"
        for size in sizes:
            count = pages.get((number, size), 0)
            for name, value in (("nr", count), ("free", count), ("surplus", 0)):
                tree.files[f"{base}hugepages/hugepages-{size}kB/{name}_hugepages"] = f"{value}\n"
        if at >= len(ids) - gpus:
            tree.files[f"/proc/driver/nvidia/gpus/000{at}:01:00.0/numa_status"] = f"Node:        {number}\nStatus:  online\n"
    for size in sizes:
        total = sum(count for (_node, kb), count in pages.items() if kb == size)
        tree.files[f"/sys/kernel/mm/hugepages/hugepages-{size}kB/nr_hugepages"] = f"{total}\n"


X86_INFO = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Made-up  CPU @ 2.00GHz\nflags\t\t: fpu lm vmx\n\n"
ARM_INFO = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f\n\n"


def _proc(tree: Tree, ids: list[int], gib: int, cmdline: str, arm: bool, irqs: int, online: str) -> None:
    tree.files["/proc/cpuinfo"] = ARM_INFO if arm else X86_INFO
    tree.files["/proc/meminfo"] = f"MemTotal:  {gib * GIB // len(ids) * len(ids)} kB\nMemFree: 1 kB\nHugepagesize:       2048 kB\n"
    tree.files["/proc/cmdline"] = cmdline + "\n"
    tree.files["/proc/uptime"] = "1000.25 1.00\n"
    tree.files["/proc/sys/kernel/osrelease"] = "6.1.0\n"
    tree.files["/proc/sys/kernel/hostname"] = "made-up\n"
    tree.files["/proc/sys/kernel/random/boot_id"] = "5f0c0d3e-0000-4000-8000-000000000001\n"
    tree.files["/etc/os-release"] = 'ID=debian\nVERSION_ID="13"\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n'
    count = len(cpulist.parse(online))
    lines = ["      " + " ".join(f"CPU{c:<7}" for c in sorted(cpulist.parse(online)))]
    for number in range(24, 24 + irqs):
        tree.files[f"/proc/irq/{number}/smp_affinity_list"] = online + "\n"
        tree.files[f"/proc/irq/{number}/effective_affinity_list"] = f"{sorted(cpulist.parse(online))[0]}\n"
        lines.append(f"{number:>4}: " + " ".join(f"{0:>10}" for _ in range(count)) + f"  IR-PCI-MSI {number}-edge      nic-{number}")
    tree.files["/proc/interrupts"] = "\n".join(lines) + "\n"
    tree.files["/proc/irq/default_smp_affinity"] = cpulist.format_map(cpulist.parse(online)) + "\n"
    tree.files["/sys/fs/cgroup/cgroup.controllers"] = "cpuset cpu io memory\n"
    tree.files["/sys/kernel/security/lockdown"] = "[none] integrity confidentiality\n"
    tree.files["/sys/kernel/mm/transparent_hugepage/enabled"] = "always [madvise] never\n"
    tree.folders += ["/dev", "/dev/kvm", "/run/systemd/system", "/sys/fs/cgroup/system.slice", "/usr/lib/systemd/system"]
    tree.folders += ["/sys/class/iommu", "/sys/kernel/iommu_groups", "/sys/bus/pci/devices", "/sys/class/net"]


def pci(
    tree: Tree, address: str, class_: str = "0x020000", vendor: str = "0x15b3", device: str = "0x101d",
    node: int | None = 0, driver: str = "", bridge: str = "", vfs: tuple[int, int] | None = None, netdev: str = "",
    group: int | None = None, physfn: str = "", uevent: bool = True,
) -> None:  # fmt: skip
    """Add a PCI function below `bridge` (an address). vfs: (made, total) of a PF. node None: -1."""
    base = f"/sys/devices/pci{address.rsplit(':', 1)[0]}/" + (f"{bridge}/" if bridge else "") + address
    up = "../" * (base.count("/") - 2)
    tree.links[f"/sys/bus/pci/devices/{address}"] = "../../.." + base.removeprefix("/sys")
    if uevent:
        text = f"DRIVER={driver}\n" if driver else ""
        text += f"PCI_CLASS={int(class_, 0):X}\nPCI_ID={vendor[2:].upper()}:{device[2:].upper()}\n"
        tree.files[base + "/uevent"] = text + f"PCI_SUBSYS_ID=15B3:0023\nPCI_SLOT_NAME={address}\n"
    else:
        tree.files.update({f"{base}/{n}": v + "\n" for n, v in (("class", class_), ("vendor", vendor), ("device", device))})
        if driver:
            tree.links[base + "/driver"] = f"{up}bus/pci/drivers/{driver}"
    tree.files[base + "/numa_node"] = f"{-1 if node is None else node}\n"
    if vfs:
        tree.files[base + "/sriov_numvfs"], tree.files[base + "/sriov_totalvfs"] = f"{vfs[0]}\n", f"{vfs[1]}\n"
    if physfn:
        tree.links[base + "/physfn"] = "../" + physfn
    if group is not None:
        tree.links[base + "/iommu_group"] = f"{up}kernel/iommu_groups/{group}"
        tree.files[f"/sys/kernel/iommu_groups/{group}/type"] = "identity\n"
    if netdev:
        tree.links[f"/sys/class/net/{netdev}"] = f"../..{base.removeprefix('/sys')}/net/{netdev}"
        for name, value in (("address", "aa:bb:cc:dd:ee:01"), ("mtu", "1500"), ("operstate", "up"), ("speed", "100000")):
            tree.files[f"{base}/net/{netdev}/{name}"] = value + "\n"
