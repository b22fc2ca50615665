# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cores stay with the host, and which are isolated for guests.

The rules, in the order in which they hold:

1. Whole cores: all online siblings of a core are on the same side. Offline CPUs are on neither.
2. The core of the boot CPU (the lowest online one) stays with the host; it counts as one of its
   node's reserved cores, and is reserved also where 0 are asked for.
3. A number of cores per NUMA node: the same for every node that has CPUs, or a listed one (nodes that
   are not listed: 0); or one number for the whole host, which may come from any node, as long as each
   node keeps a core for guests; or the CPUs themselves.
4. Cores that are near to given PCI devices are reserved last (`near_policy: guests`, so that guests
   get them) or first (`interrupts`, so that the host handles these devices' interrupts next to them).
   Near means: in the device's NUMA node, which is all that the kernel tells. So this decides where one
   number for the whole host comes from; with a number per node, every node gives its own share, and
   the device only must be there.
5. Efficiency cores of hybrid processors are reserved before performance cores, as guests should get
   cores that are fast and alike.
6. The core with the lowest CPU number first.

A host without NUMA nodes is one node 0. Nodes without CPUs (memory, GPU memory) are passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from . import cpulist
from .model import IntentError, Problem
from .state import Core, Function, State

POLICIES = ("guests", "interrupts")

Cpus = FrozenSet[int]


@dataclass(frozen=True)
class Request:
    """What is asked for. The first of cpus, cores, cores_per_node that is given counts.

    `variables` says how these three and `near` are called where the user wrote them.
    """

    cores_per_node: Union[int, Mapping[int, int]] = 1
    cores: int = 0  # of the whole host
    cpus: str = ""  # cpulist
    near: Sequence[str] = ()
    near_policy: str = "guests"
    variables: Tuple[str, str, str, str] = (
        "reserved_cores_per_node", "reserved_cores", "reserved_cpus", "near",
    )  # fmt: skip


@dataclass(frozen=True)
class NodePart:
    """One node's share."""

    reserved: Cpus
    isolated: Cpus


@dataclass(frozen=True)
class Partition:
    """Disjoint sets of CPUs that together are all online CPUs."""

    reserved: Cpus
    isolated: Cpus
    nodes: Dict[int, NodePart]
    near: Dict[str, Cpus]  # online CPUs near to each PCI device that was named; none: not known

    def as_dict(self) -> Dict[str, Any]:
        """`{"reserved": cpulist, "isolated": cpulist, "nodes": {"0": {"reserved", "isolated"}}}`."""
        return {
            "reserved": cpulist.format(self.reserved),
            "isolated": cpulist.format(self.isolated),
            "nodes": {
                str(node): {
                    "reserved": cpulist.format(part.reserved),
                    "isolated": cpulist.format(part.isolated),
                }
                for node, part in sorted(self.nodes.items())
            },
        }


@dataclass(frozen=True)
class _Core:
    cpus: Cpus
    node: int
    efficient: bool
    near: bool

    @property
    def first(self) -> int:
        return min(self.cpus)


def partition(state: State, request: Request) -> Partition:
    """The partition of a host's online CPUs; raises IntentError with every problem that was found."""
    near, wrong = _near(state, request)
    close = frozenset().union(*near.values())
    cores = [_core(core, close) for core in state["cpu"]["cores"]]
    if not cores:
        raise IntentError([_unknown_topology()])
    boot = next((c for c in cores if state["cpu"]["boot_cpu"] in c.cpus), min(cores, key=lambda c: c.first))
    if request.cpus.strip():
        chosen, more = _by_cpus(cores, boot, state, request)
    elif request.cores:
        chosen, more = _by_total(cores, boot, request)
    else:
        chosen, more = _by_node(cores, boot, request)
    if wrong or more:
        raise IntentError(wrong + more)
    return _split(cores, chosen, near)


def device_cpus(state: State, function: Function) -> Cpus:
    """Online CPUs in a PCI function's NUMA node; none where the host does not say which it is in."""
    node = function["numa_node"]
    near = [cpulist.parse(n["cpus"]) for n in state["cpu"]["nodes"] if n["id"] == node]
    return near[0] if near else frozenset()


def normal_address(address: str) -> str:
    """A PCI address with its domain, in lower case: "17:00.0" is "0000:17:00.0"."""
    text = address.strip().lower()
    return text if text.count(":") == 2 else "0000:" + text


def _unknown_topology() -> Problem:
    return Problem("", "", "no online CPU was found", "check that /sys/devices/system/cpu can be read", "host")


def _core(core: Core, near: Cpus) -> _Core:
    cpus = cpulist.parse(core["cpus"])
    return _Core(cpus, core["node"] or 0, core["kind"] == "efficiency", bool(cpus & near))


def _near(state: State, request: Request) -> Tuple[Dict[str, Cpus], List[Problem]]:
    known = {f["address"]: f for f in state["pci"]} if request.near else {}
    found: Dict[str, Cpus] = {}
    wrong: List[Problem] = []
    for address in request.near:
        function = known.get(normal_address(address))
        if function is None:
            wrong.append(_unknown_device(address, request.variables[3], len(known)))
        else:
            found[function["address"]] = device_cpus(state, function)
    return found, wrong


def _unknown_device(address: str, variable: str, known: int) -> Problem:
    return Problem(
        variable, address, "no PCI function %s on this host (%d are known)" % (address, known),
        "take an address such as 0000:17:00.0 from `nearmetal inspect`",
    )  # fmt: skip


def _rank(core: _Core, boot: _Core, policy: str) -> Tuple[bool, bool, bool, int]:
    """Cores are reserved in this order (rules 2, 4, 5, 6)."""
    last = core.near if policy == "guests" else not core.near
    return core is not boot, last, not core.efficient, core.first


def _ranked(cores: Iterable[_Core], boot: _Core, request: Request) -> List[_Core]:
    return sorted(cores, key=lambda c: _rank(c, boot, request.near_policy))


def _by_node(cores: List[_Core], boot: _Core, request: Request) -> Tuple[List[_Core], List[Problem]]:
    by_node: Dict[int, List[_Core]] = {}
    for core in cores:
        by_node.setdefault(core.node, []).append(core)
    asked = request.cores_per_node
    listed = isinstance(asked, Mapping)
    counts: Mapping[int, int] = asked if isinstance(asked, Mapping) else dict.fromkeys(by_node, asked)
    variable = request.variables[0]
    wrong = [_unknown_node(variable, node, sorted(by_node)) for node in sorted(set(counts) - set(by_node))]
    chosen: List[_Core] = []
    for node, members in sorted(by_node.items()):
        count = counts.get(node, 0)
        most = len(members) if listed else len(members) - 1
        if not 0 <= count <= most:
            wrong.append(_too_many(variable, count, node, len(members), most))
            continue
        if boot in members:
            count = max(count, 1)
        chosen.extend(_ranked(members, boot, request)[:count])
    if not wrong and len(chosen) == len(cores):
        wrong.append(_nothing_left(variable, asked))
    return chosen, wrong


def _unknown_node(variable: str, node: int, known: List[int]) -> Problem:
    return Problem(
        variable, node, "NUMA node %s is not there or has no online CPU" % node,
        "use the nodes with CPUs: %s" % cpulist.format(known),
    )  # fmt: skip


def _too_many(variable: str, count: int, node: int, cores: int, most: int) -> Problem:
    return Problem(
        variable, count, "NUMA node %d has %d online cores: %d cannot be reserved" % (node, cores, count),
        "ask for 0 to %d on this node" % most,
    )  # fmt: skip


def _nothing_left(variable: str, value: Any) -> Problem:
    return Problem(
        variable, _plain(value), "every core would be reserved: none is left for guests",
        "reserve at least one core less",
    )  # fmt: skip


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _by_total(cores: List[_Core], boot: _Core, request: Request) -> Tuple[List[_Core], List[Problem]]:
    room: Dict[int, int] = {}
    for core in cores:
        room[core.node] = room.get(core.node, 0) + 1
    most = sum(n - 1 for n in room.values())
    most += 1 if most == 0 and len(cores) > 1 else 0  # one core per node: the boot CPU's may still go
    count = request.cores
    if not 0 < count <= most:
        text = "%d cores cannot be reserved: the host has %d online in %d NUMA nodes, and each node keeps one"
        message = text % (count, len(cores), len(room))
        return [], [Problem(request.variables[1], count, message, "ask for 1 to %d" % most)]
    chosen = [boot]
    room[boot.node] -= 1
    for core in _ranked(cores, boot, request)[1:]:
        if len(chosen) < count and room[core.node] > 1:
            room[core.node] -= 1
            chosen.append(core)
    return chosen, []


def _by_cpus(
    cores: List[_Core], boot: _Core, state: State, request: Request
) -> Tuple[List[_Core], List[Problem]]:
    variable = request.variables[2]
    try:
        asked = cpulist.parse(request.cpus)
    except ValueError as err:
        return [], [Problem(variable, request.cpus, str(err), "write a list such as 0-1,40-41")]
    chosen = [core for core in cores if core.cpus & asked]
    whole: Cpus = frozenset().union(*(core.cpus for core in chosen))
    wrong = []
    absent = asked - cpulist.parse(state["cpu"]["online"])
    if absent:
        wrong.append(_absent(variable, request.cpus, absent, state["cpu"]["online"]))
    if whole - asked:
        text = "a core would be torn apart: CPUs %s are siblings of listed ones" % cpulist.format(whole - asked)
        wrong.append(Problem(variable, request.cpus, text, "list %s" % cpulist.format(whole)))
    if boot not in chosen:
        text = "the core of the boot CPU (%s) always stays with the host" % cpulist.format(boot.cpus)
        wrong.append(Problem(variable, request.cpus, text, "list %s" % cpulist.format(whole | boot.cpus)))
    if not wrong and len(chosen) == len(cores):
        wrong.append(_nothing_left(variable, request.cpus))
    return chosen, wrong


def _absent(variable: str, value: str, absent: Cpus, online: str) -> Problem:
    return Problem(
        variable, value, "CPUs %s are offline or not there" % cpulist.format(absent),
        "use online CPUs: %s" % online,
    )  # fmt: skip


def _split(cores: List[_Core], chosen: List[_Core], near: Dict[str, Cpus]) -> Partition:
    sides: Dict[int, Tuple[List[int], List[int]]] = {}
    reserved = frozenset().union(*(core.cpus for core in chosen))
    for core in cores:
        side = sides.setdefault(core.node, ([], []))
        side[0 if core.cpus <= reserved else 1].extend(core.cpus)
    return Partition(
        reserved=reserved,
        isolated=frozenset(cpu for _r, isolated in sides.values() for cpu in isolated),
        nodes={node: NodePart(frozenset(r), frozenset(i)) for node, (r, i) in sides.items()},
        near=near,
    )


def cores_per_node(value: Any) -> Optional[Union[int, Dict[int, int]]]:
    """A number, or numbers by node, from what YAML, JSON or -e made of it; None where it is neither."""
    if isinstance(value, Mapping):
        numbers = {_number(node): _number(count) for node, count in value.items()}
        if None in numbers or None in numbers.values():
            return None
        return {node: count for node, count in numbers.items() if node is not None and count is not None}
    return _number(value)


def _number(value: Any) -> Optional[int]:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal():
        return int(value)
    return None
