"""States and machines for the tests of partition, cpu_isolation and hugepages."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

from ansible_collections.nearmetal.rack.plugins.module_utils import cpulist
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

GIB = 1 << 30

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For property tests: how long one example takes says nothing on a busy machine."""


def state(
    cores: Sequence[tuple[str, int, str]] = (("0,4", 0, ""), ("1,5", 0, ""), ("2,6", 1, ""), ("3,7", 1, "")),
    offline: str = "",
    pci: dict[str, int | None] | None = None,
    memory: int = 64 * GIB,
    extra_nodes: Sequence[int] = (),
    release: str = "6.12.5",
    cmdline: str = "quiet",
    live: bool = True,
) -> dict[str, Any]:
    """A document as observe makes it. cores: (cpulist, node, kind)."""
    online = sorted(cpu for cpus, _node, _kind in cores for cpu in cpulist.parse(cpus))
    nodes = sorted({node for _cpus, node, _kind in cores} | set(extra_nodes))
    in_node = {
        n: cpulist.format(c for cpus, node, _k in cores if node == n for c in cpulist.parse(cpus)) for n in nodes
    }
    return {
        "schema": 1,
        "live": live,
        "os": {"id": "debian", "version_id": "13", "name": "Debian", "hostname": "n", "systemd": True},
        "cpu": {
            "online": cpulist.format(online),
            "offline": offline,
            "present": cpulist.format(set(online) | cpulist.parse(offline)),
            "isolated": "",
            "nohz_full": "",
            "boot_cpu": min(online),
            "cores": [
                {"cpus": cpus, "node": node, "socket": 0, "core_id": i, "die": None, "kind": kind}
                for i, (cpus, node, kind) in enumerate(cores)
            ],
            "nodes": [
                {
                    "id": n, "cpus": in_node[n], "memory_bytes": memory, "distances": [],
                    "kind": "cpu" if in_node[n] else "memory",
                }
                for n in nodes
            ],
        },
        "memory": {
            "hugepage_default_kb": 2048,
            "hugepage_sizes_kb": [2048, 1048576],
            "hugepages": [
                {"node": n, "size_kb": kb, "total": 0, "free": 0, "surplus": 0} for n in nodes for kb in (2048, 1048576)
            ],
        },
        "kernel": {"release": release, "cmdline": cmdline if live else None},
        "boot": {"loader": "grub", "configured": cmdline, "sealed": "", "sources": []},
        "pci": [{"address": address, "numa_node": node} for address, node in (pci or {}).items()],
        "confinement": {
            "cgroup": "v2",
            "slices": {},
            "effective": {},
            "default_irq_affinity": cpulist.format(online),
            "irqs": [],
            "irqbalance": "active",
            "files": {},
        },
        "unread": [],
    }  # fmt: skip


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    """Any topology: sparse node ids, SMT 1 to 4, CPUs numbered in any order, some of them offline."""
    nodes = draw(st.lists(st.integers(0, 20), min_size=1, max_size=4, unique=True))
    threads = draw(st.integers(1, 4))
    per_node = {node: draw(st.integers(1, 6)) for node in nodes}
    total = sum(per_node.values()) * threads
    numbers = list(range(total))
    shuffle = random.Random(draw(st.integers(0, 1 << 16)))  # drawing each number is slow
    if draw(st.booleans()):
        shuffle.shuffle(numbers)
    offline = set(shuffle.sample(range(total), draw(st.integers(0, total // 2))))
    cores = []
    for node, count in per_node.items():
        for _core in range(count):
            cpus = {numbers.pop() for _thread in range(threads)} - offline
            if cpus:
                kind = draw(st.sampled_from(["", "", "performance", "efficiency"]))
                cores.append((cpulist.format(cpus), node, kind))
    if not cores:
        cores = [("0", nodes[0], "")]
        offline = offline - {0}
    return state(cores, offline=cpulist.format(offline), extra_nodes=[99])


def changed(document: dict[str, Any], **sections: dict[str, Any]) -> dict[str, Any]:
    """A copy with keys of some sections replaced."""
    new = copy.deepcopy(document)
    for section, values in sections.items():
        new[section].update(values)
    return new
