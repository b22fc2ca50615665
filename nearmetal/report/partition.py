"""Which CPU of a host is for whom, read from its state: the kernel's word first, then cgroups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.nearmetal.rack.plugins.module_utils import cpulist

if TYPE_CHECKING:
    from ansible_collections.nearmetal.rack.plugins.module_utils.state import State

HOST_SLICES = ("init.scope", "system.slice", "user.slice")
"""cgroups that hold the host's own processes (systemd.special(7))."""


@dataclass(frozen=True)
class Partition:
    """CPUs of the host and of guests.

    how: "kernel" (isolcpus, in force), "cgroup" (cpusets of the host's slices), "none" (every CPU is
    shared) or "unknown" (neither could be read).
    """

    how: str
    reserved: frozenset[int]
    isolated: frozenset[int]
    offline: frozenset[int]
    words: str


def cpus(text: str | None) -> frozenset[int]:
    """CPUs of a cpulist; none where it is None or no cpulist (results are read as they come)."""
    try:
        return cpulist.parse(text or "")
    except ValueError:
        return frozenset()


def cpus_text(some: frozenset[int] | set[int]) -> str:
    """The cpulist, or "none"."""
    return cpulist.format(some) or "none"


_NEITHER = "not known: neither isolation by the kernel nor cpusets could be read"


def unread(state: State, section: str) -> bool:
    """Whether a section ("memory.hugepages"), or one that holds it ("memory"), could not be read."""
    return any(section == u["section"] or section.startswith(u["section"] + ".") for u in state["unread"])


def partition(state: State) -> Partition:
    """The partition of a host as it is in force."""
    cpu = state["cpu"]
    online, offline = cpus(cpu.get("online")), cpus(cpu.get("offline"))
    isolated = cpus(cpu.get("isolated")) & online
    if isolated:
        words = "isolated by the kernel (isolcpus): /sys/devices/system/cpu/isolated is " + cpus_text(isolated)
        return Partition("kernel", online - isolated, isolated, offline, words)
    confined = {name: _allowed(state, name) for name in HOST_SLICES}
    named = {name: cpus(allowed) & online for name, allowed in confined.items() if allowed}
    reserved = frozenset().union(*named.values()) if named else frozenset()
    if reserved and reserved < online:
        words = f"kept for guests by cpusets: {', '.join(named)} may use {cpus_text(reserved)} only"
        return Partition("cgroup", reserved, online - reserved, offline, words)
    if not named and unread(state, "confinement.slices"):
        words = "not isolated by the kernel; cpusets could not be read" if cpu.get("isolated") is not None else _NEITHER
        return Partition("unknown", frozenset(), frozenset(), offline, words)
    if cpu.get("isolated") is None and not named:
        return Partition("unknown", frozenset(), frozenset(), offline, _NEITHER)
    return Partition("none", frozenset(), frozenset(), offline, "not partitioned: every CPU is shared")


def _allowed(state: State, unit: str) -> str | None:
    """CPUs that a cgroup may use: those in force, else those set; None where neither was read."""
    confinement = state["confinement"]
    return confinement.get("effective", {}).get(unit) or confinement.get("slices", {}).get(unit)


def node_of_cpu(state: State) -> dict[int, int | None]:
    """NUMA node of every online CPU."""
    return {cpu: core["node"] for core in state["cpu"]["cores"] for cpu in cpus(core["cpus"])}


def siblings(state: State) -> dict[int, frozenset[int]]:
    """The online CPUs of the same core, for every online CPU."""
    return {cpu: together for core in state["cpu"]["cores"] for together in [cpus(core["cpus"])] for cpu in together}
