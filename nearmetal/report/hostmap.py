"""The picture of a host as data: sockets > NUMA nodes > cores > threads, devices, memory.

The templates draw it. One cell is one CPU; its role is told by colour, pattern and a label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearmetal.report import words
from nearmetal.report.partition import Partition, cpus, cpus_text, partition, unread

if TYPE_CHECKING:
    from ansible_collections.nearmetal.rack.plugins.module_utils.state import Function, Node, State

    from nearmetal.bench.results import Scenario

ROOMY = 64
"""Up to so many CPUs the cells are drawn large."""

ROLES = {
    "guest": "a vCPU is pinned here",
    "isolated": "kept for guests",
    "reserved": "reserved for the host",
    "shared": "shared, no partition",
    "offline": "offline",
}
"""Role of a CPU in the picture, in the order of the legend."""


@dataclass(frozen=True)
class Cell:
    """One CPU."""

    cpu: int
    role: str
    label: str  # "v0", "E" or ""
    title: str


@dataclass(frozen=True)
class CoreBox:
    """One core; kind as in Core ("performance", "efficiency" or "")."""

    cells: list[Cell]
    kind: str


@dataclass(frozen=True)
class Device:
    """A PCI function drawn at its node."""

    kind: str  # "NIC", "GPU", "NVMe", "display"
    name: str
    address: str
    detail: str


@dataclass(frozen=True)
class Pages:
    """Huge pages of one size on one node. share: of the node's memory, in percent."""

    size: str
    total: int
    free: int
    bytes: str
    share: float


@dataclass(frozen=True)
class NodeBox:
    """One NUMA node within one socket; id None where the kernel has no NUMA."""

    id: int | None
    cores: list[CoreBox]
    devices: list[Device]
    memory: str
    pages: list[Pages]
    no_pages: str  # what is said where there are no pages
    kind: str  # "cpu", "memory", "gpu"
    reserved: str
    isolated: str


@dataclass(frozen=True)
class Map:
    """The whole picture. loose: devices whose node the firmware does not tell."""

    sockets: list[tuple[int, list[NodeBox]]]
    cpuless: list[NodeBox]
    loose: list[Device]
    offline: list[Cell]
    partition: Partition
    roomy: bool
    roles: list[tuple[str, str]]  # roles that occur, with their words
    distances: list[tuple[int, list[int]]]
    summary: str


def host_map(state: State, scenario: Scenario | None) -> Map:
    """The picture of a host; `scenario` gives the pins that are drawn in it."""
    split = partition(state)
    pins = {p.host_cpu: p.vcpu for p in scenario.pins} if scenario else {}
    emulator = cpus(scenario.emulator_cpus) if scenario else frozenset()
    cell = _Cells(split, pins, emulator)
    sockets: dict[int, dict[int | None, list[CoreBox]]] = {}
    for core in state["cpu"]["cores"]:
        box = CoreBox([cell(cpu) for cpu in sorted(cpus(core["cpus"]))], core["kind"])
        sockets.setdefault(core["socket"], {}).setdefault(core["node"], []).append(box)
    nodes = _Nodes(state, split)
    drawn = [
        (socket, [nodes.box(node, cores) for node, cores in sorted(by_node.items(), key=_none_last)])
        for socket, by_node in sorted(sockets.items())
    ]
    offline = [cell(cpu) for cpu in sorted(split.offline)]
    found = {c.role for _, boxes in drawn for b in boxes for core in b.cores for c in core.cells}
    found |= {c.role for c in offline}
    every = sum(len(core["cpus"]) > 0 for core in state["cpu"]["cores"])
    return Map(
        sockets=drawn,
        cpuless=[nodes.box(n["id"], []) for n in state["cpu"]["nodes"] if n["id"] not in nodes.drawn],
        loose=nodes.loose(),
        offline=offline,
        partition=split,
        roomy=len(split.offline) + len(cpus(state["cpu"]["online"])) <= ROOMY,
        roles=[(role, said) for role, said in ROLES.items() if role in found],
        distances=[(n["id"], n["distances"]) for n in state["cpu"]["nodes"]],
        summary=_summary(state, split, pins, every),
    )


def _none_last(item: tuple[int | None, list[CoreBox]]) -> tuple[bool, int]:
    return item[0] is None, item[0] or 0


def _summary(state: State, split: Partition, pins: dict[int, int], cores: int) -> str:
    """The picture in one sentence, for those who do not see it."""
    cpu = state["cpu"]
    said = [
        f"{words.count(cpu['sockets'], 'socket')}, {words.count(len(cpu['nodes']), 'NUMA node')}, "
        f"{words.count(cores, 'core')}, {words.count(len(cpus(cpu['online'])), 'online CPU')}",
        f"reserved for the host: {cpus_text(split.reserved)}",
        f"kept for guests: {cpus_text(split.isolated)}",
    ]
    if split.offline:
        said.append(f"offline: {cpus_text(split.offline)}")
    if pins:
        said.append("vCPUs: " + ", ".join(f"v{v} on CPU {c}" for c, v in sorted(pins.items(), key=lambda i: i[1])))
    return "; ".join(said) + "."


@dataclass(frozen=True)
class _Cells:
    """Makes the cell of a CPU."""

    split: Partition
    pins: dict[int, int]
    emulator: frozenset[int]

    def role(self, cpu: int) -> str:
        """The one role that is drawn, the most telling first."""
        for role, holds in (
            ("offline", cpu in self.split.offline),
            ("guest", cpu in self.pins),
            ("isolated", cpu in self.split.isolated),
            ("reserved", cpu in self.split.reserved),
        ):
            if holds:
                return role
        return "shared"

    def __call__(self, cpu: int) -> Cell:
        role = self.role(cpu)
        label = f"v{self.pins[cpu]}" if role == "guest" else "E" if cpu in self.emulator else ""
        said = f"vCPU {self.pins[cpu]} is pinned here" if role == "guest" else ROLES[role]
        said += "; emulator threads may run here" if cpu in self.emulator else ""
        return Cell(cpu, role, label, f"CPU {cpu}: {said}")


class _Nodes:
    """Makes the box of a node; what belongs to a node is drawn once, in its first box."""

    def __init__(self, state: State, split: Partition) -> None:
        self.state = state
        self.split = split
        self.drawn: set[int | None] = set()
        self.nodes: dict[int | None, Node] = {n["id"]: n for n in state["cpu"]["nodes"]}
        self.netdevs = {n["name"]: n for n in state["net"]}

    def box(self, node: int | None, cores: list[CoreBox]) -> NodeBox:
        """Node `node`, with `cores`."""
        again, here = node in self.drawn, frozenset(c.cpu for core in cores for c in core.cells)
        self.drawn.add(node)
        info = self.nodes.get(node)
        memory = info["memory_bytes"] if info else self.state["memory"]["total_bytes"]
        return NodeBox(
            id=node,
            cores=cores,
            devices=[] if again else [self.device(f) for f in self.state["pci"] if f["numa_node"] == node and shown(f)],
            memory="" if again else words.size(memory),
            pages=[] if again else self.pages(node, memory),
            no_pages="huge pages not known" if unread(self.state, "memory.hugepages") else "no huge pages",
            kind=info["kind"] if info else "cpu",
            reserved=cpus_text(self.split.reserved & here),
            isolated=cpus_text(self.split.isolated & here),
        )

    def pages(self, node: int | None, memory: int | None) -> list[Pages]:
        """Huge page pools of a node that hold pages."""
        return [
            Pages(
                size=words.size(pool["size_kb"] * 1024),
                total=pool["total"],
                free=pool["free"],
                bytes=words.size(pool["total"] * pool["size_kb"] * 1024),
                share=min(100.0, 100.0 * pool["total"] * pool["size_kb"] * 1024 / memory) if memory else 0.0,
            )
            for pool in self.state["memory"]["hugepages"]
            if pool["total"] and (pool["node"] == node or node is None)
        ]

    def loose(self) -> list[Device]:
        """Devices at no node that is drawn."""
        return [self.device(f) for f in self.state["pci"] if shown(f) and f["numa_node"] not in self.drawn]

    def device(self, function: Function) -> Device:
        """What is drawn of a PCI function."""
        links = [self.netdevs[name] for name in function["netdevs"] if name in self.netdevs]
        said = [function["driver"] or "no driver"]
        if function["sriov_total"]:
            said.append(f"{function['sriov_vfs']} of {function['sriov_total']} VFs")
        for link in links:
            if (speed := link["speed_mbps"]) and speed > 0:
                said.append(f"{speed / 1000:g} Gb/s")
            if link["operstate"]:
                said.append(f"link {link['operstate']}")
            if link["bond"]:
                said.append(f"in {link['bond']}")
        if function["iommu_group"] is not None:
            said.append(f"IOMMU group {function['iommu_group']}")
        return Device(
            kind=kind(function),
            name=", ".join(function["netdevs"]) or words.vendor(function["vendor"]) or "maker not known",
            address=function["address"],
            detail=", ".join(said),
        )


def kind(function: Function) -> str:
    """What a PCI function is, by class: NIC (02), NVMe (0108), GPU (03 of a maker of GPUs), display."""
    of = function["class"].lower()
    if of.startswith("0x02"):
        return "NIC"
    if of.startswith("0x0108"):
        return "NVMe"
    if of.startswith("0x03"):
        return "GPU" if of.startswith("0x0302") or function["vendor"].lower() in ("0x10de", "0x1002") else "display"
    return ""


def shown(function: Function) -> bool:
    """Physical functions of the kinds that matter to placement; VFs are counted at their PF."""
    return bool(kind(function)) and not function["physfn"]
