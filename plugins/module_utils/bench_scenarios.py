# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which vCPU goes on which host CPU, for each way of telling the guest about them. Pure.

The scenarios are those of the public comparison of CPU pinning under different virtual topologies
(rows 1, 4, 5 and 6 of its table); every one uses the same number of vCPUs, workers and host cores,
so that only the topology that the guest is told, or where its vCPUs lie, differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Sequence, Tuple

from . import cpulist

BARE_METAL = "bare_metal"


class BenchError(Exception):
    """The benchmark cannot be run here; the text says why and what to do."""


class NotApplicable(Exception):
    """One scenario makes no sense on this host; the text says why."""


@dataclass(frozen=True)
class HostCore:
    """A whole core given to the benchmark."""

    cpus: Tuple[int, ...]  # its threads, lowest first
    node: int
    socket: int


@dataclass(frozen=True)
class Layout:
    """What the benchmark may use of a host."""

    cores: Tuple[HostCore, ...]  # the guest's, in the order of (node, socket, CPU)
    spare: Tuple[HostCore, ...]  # isolated whole cores of the same kind on other nodes
    reserved: FrozenSet[int]  # the host's own CPUs
    node_of: Mapping[int, int]  # CPU -> NUMA node, online CPUs

    @property
    def threads(self) -> int:
        """Threads of each core."""
        return len(self.cores[0].cpus)

    @property
    def nodes(self) -> Tuple[int, ...]:
        """NUMA nodes of the guest's cores."""
        return tuple(sorted({c.node for c in self.cores}))


@dataclass(frozen=True)
class Side:
    """One side of the comparison: a guest, or bare metal (no pins)."""

    name: str
    number: int  # row of the table of eight scenarios, 0 for bare metal
    title: str
    description: str
    topology: Tuple[int, int, int]  # sockets, cores per socket, threads per core, as the guest is told
    pins: Tuple[int, ...]  # vCPU -> host CPU
    cells: Tuple[Tuple[Tuple[int, ...], int], ...]  # guest NUMA cells: (vCPUs, host node of the memory)
    host_cpus: FrozenSet[int]
    emulator: FrozenSet[int]

    @property
    def nodes(self) -> List[int]:
        """Host nodes of the memory."""
        return sorted({node for _vcpus, node in self.cells})

    def as_result(self) -> Dict[str, Any]:
        """The document `Scenario` of a result file, without what is known only after the run."""
        _sockets, cores, threads = self.topology
        pins = [
            {
                "vcpu": vcpu, "host_cpu": cpu, "guest_socket": vcpu // (cores * threads),
                "guest_core": vcpu // threads % cores, "guest_thread": vcpu % threads,
            }
            for vcpu, cpu in enumerate(self.pins)
        ]  # fmt: skip
        return {
            "name": self.name, "number": self.number, "title": self.title, "description": self.description,
            "pins": pins, "emulator_cpus": cpulist.format(self.emulator), "memory_nodes": self.nodes,
            "hugepages_kb": 0, "host_cpus": cpulist.format(self.host_cpus), "domain_xml": "",
            "boot_seconds": None, "placement_ok": None, "placement_problems": [],
        }  # fmt: skip


def isolated_cpus(state: Mapping[str, Any], asked: str = "") -> FrozenSet[int]:
    """The CPUs kept for guests: asked for by name, isolated by the kernel, or left free by the slices.

    Raises BenchError where none are, or where the list names CPUs that are not online.
    """
    online = cpulist.parse(state["cpu"]["online"])
    if asked:
        try:
            named = cpulist.parse(asked)
        except ValueError as err:
            raise BenchError("benchmark_vm_cpus: %s" % err) from None
        if named - online:
            raise BenchError(
                "benchmark_vm_cpus=%s: CPU %s is not online; online: %s"
                % (asked, cpulist.format(named - online), state["cpu"]["online"])
            )
        return named
    by_kernel = cpulist.parse(state["cpu"].get("isolated") or "")
    if by_kernel:
        return by_kernel
    confined = state.get("confinement", {}).get("slices", {}).get("system.slice") or ""
    by_slices = online - cpulist.parse(confined) if confined else frozenset()
    if not by_slices:
        raise BenchError(
            "no CPU is isolated on this host, so nothing can be pinned undisturbed; apply the role "
            "cpu_isolation first, or name the CPUs in benchmark_vm_cpus"
        )
    return by_slices


def layout(cpu: Mapping[str, Any], isolated: FrozenSet[int], count: int) -> Layout:
    """Choose `count` whole isolated cores: of one NUMA node where one has enough, else evenly spread.

    cpu: the section `cpu` of the observed state. Only cores of one kind and thread count are
    mixed. Raises BenchError where there are too few.
    """
    whole = _whole_cores(cpu["cores"], isolated)
    kinds: Dict[Tuple[str, int], List[HostCore]] = {}
    for kind, core in whole:
        kinds.setdefault((kind, len(core.cpus)), []).append(core)
    found = max(kinds.values(), key=len) if kinds else []
    if len(found) < count:
        raise BenchError(
            "benchmark_vm_cores=%d: only %d whole core(s) of one kind are isolated (isolated CPUs: %s); "
            "reserve fewer cores for the host, or lower benchmark_vm_cores"
            % (count, len(found), cpulist.format(isolated) or "none")
        )
    chosen = sorted(_choose(found, count), key=_place)
    nodes = {c.node for c in chosen}
    node_of = {c: core["node"] or 0 for core in cpu["cores"] for c in cpulist.parse(core["cpus"])}
    return Layout(
        cores=tuple(chosen),
        spare=tuple(c for c in found if c.node not in nodes),
        reserved=cpulist.parse(cpu["online"]) - isolated,
        node_of=node_of,
    )


def _whole_cores(cores: Sequence[Mapping[str, Any]], isolated: FrozenSet[int]) -> List[Tuple[str, HostCore]]:
    found = []
    for core in cores:
        cpus = cpulist.parse(core["cpus"])
        if cpus and cpus <= isolated:
            node = core["node"] or 0
            found.append((core.get("kind", ""), HostCore(tuple(sorted(cpus)), node, core["socket"])))
    return found


def _place(core: HostCore) -> Tuple[int, int, int]:
    return (core.node, core.socket, core.cpus[0])


def _choose(cores: Sequence[HostCore], count: int) -> List[HostCore]:
    by_node: Dict[int, List[HostCore]] = {}
    for core in cores:
        by_node.setdefault(core.node, []).append(core)
    for node in sorted(by_node):
        if len(by_node[node]) >= count:
            return by_node[node][:count]
    queues = [list(by_node[node]) for node in sorted(by_node)]
    chosen: List[HostCore] = []
    while len(chosen) < count:
        for queue in queues:
            if queue and len(chosen) < count:
                chosen.append(queue.pop(0))
    return chosen


def side(name: str, at: Layout) -> Side:
    """The placement of one scenario. Raises NotApplicable, or KeyError for an unknown name."""
    return _SIDES[name](at)


def worker_cpus(at: Layout, workers: int) -> List[int]:
    """The host CPU of each bare-metal worker: every core once before any sibling is used."""
    order = [core.cpus[t] for t in range(at.threads) for core in at.cores]
    return [order[w % len(order)] for w in range(workers)]


def _matched_pins(at: Layout) -> Tuple[int, ...]:
    return tuple(cpu for core in at.cores for cpu in core.cpus)


def _topology(at: Layout) -> Tuple[int, int, int]:
    """Sockets, cores, threads; one socket where the cores are not spread evenly over the host's."""
    sockets = [c.socket for c in at.cores]
    counts = {sockets.count(s) for s in sockets}
    number = len(set(sockets)) if len(counts) == 1 else 1
    return (number, len(at.cores) // number, at.threads)


def _cells(at: Layout) -> Tuple[Tuple[Tuple[int, ...], int], ...]:
    cells: Dict[int, List[int]] = {}
    for index, core in enumerate(at.cores):
        vcpus = range(index * at.threads, (index + 1) * at.threads)
        cells.setdefault(core.node, []).extend(vcpus)
    return tuple((tuple(vcpus), node) for node, vcpus in sorted(cells.items()))


def _emulator(at: Layout) -> FrozenSet[int]:
    near = frozenset(c for c in at.reserved if at.node_of.get(c) in at.nodes)
    return near or at.reserved


def _guest(
    at: Layout, name: str, number: int, title: str, description: str, pins: Tuple[int, ...],
    topology: Tuple[int, int, int],
) -> Side:  # fmt: skip
    return Side(name, number, title, description, topology, pins, _cells(at), frozenset(pins), _emulator(at))


def _bare_metal(at: Layout) -> Side:
    cpus = frozenset(_matched_pins(at))
    text = "The same program and number of workers on the host's own cores, one worker to a core."
    return Side(BARE_METAL, 0, "bare metal", text, (0, 0, 0), (), _cells(at), cpus, frozenset())


def _matched(at: Layout) -> Side:
    text = (
        "Sockets, cores and threads as they are on the host; each vCPU pinned to the CPU that it stands for, "
        "emulator threads on the host's CPUs, memory bound to the node."
    )
    return _guest(at, "matched_pinned", 1, "topology matched, pinned", text, _matched_pins(at), _topology(at))


def _smt_hidden(at: Layout) -> Side:
    _need_smt(at)
    sockets, cores, threads = _topology(at)
    text = "Pinned as in the matched guest, but each thread is shown as a core of its own."
    topology = (sockets, cores * threads, 1)
    return _guest(at, "smt_hidden", 4, "SMT hidden from the guest", text, _matched_pins(at), topology)


def _cross_node(at: Layout) -> Side:
    if len(at.nodes) > 1 or len(at.cores) < 2:
        raise NotApplicable("the matched guest is not on two or more cores of one NUMA node")
    half = len(at.cores) // 2
    if len(at.spare) < half:
        raise NotApplicable("no %d isolated core(s) on another NUMA node" % half)
    cores = at.cores[: len(at.cores) - half] + at.spare[:half]
    pins = tuple(cpu for core in cores for cpu in core.cpus)
    text = "The guest sees one node, but half of its cores and none of its memory lie on another."
    return _guest(at, "cross_node", 5, "pinned across NUMA nodes", text, pins, _topology(at))


def _shuffled(at: Layout) -> Side:
    _need_smt(at)
    if len(at.cores) < 2:
        raise NotApplicable("one core has no other core's threads to mix with")
    rings = [[c for c in at.cores if c.node == node] for node in at.nodes]
    if any(len(ring) < 2 for ring in rings):  # a lone core of a node can only mix with other nodes'
        rings = [list(at.cores)]
    # vCPU siblings 0, 1, ... of a core get thread 0 of the core itself, thread 1 of the next one, ...
    pins = [
        ring[(at_ring + t) % len(ring)].cpus[t]
        for ring in rings
        for at_ring in range(len(ring))
        for t in range(at.threads)
    ]
    text = "Threads that the guest takes for siblings of one core lie on different cores of the host."
    return _guest(at, "siblings_shuffled", 6, "siblings shuffled", text, tuple(pins), _topology(at))


def _need_smt(at: Layout) -> None:
    if at.threads < 2:
        raise NotApplicable("the host has no SMT, or it is off")


_SIDES: Dict[str, Callable[[Layout], Side]] = {
    BARE_METAL: _bare_metal,
    "matched_pinned": _matched,
    "smt_hidden": _smt_hidden,
    "cross_node": _cross_node,
    "siblings_shuffled": _shuffled,
}

SCENARIOS = tuple(name for name in _SIDES if name != BARE_METAL)
"""Names of the guests that can be asked for."""
