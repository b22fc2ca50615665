# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory and huge pages, for the host and for each NUMA node."""

from __future__ import annotations

from typing import List, Optional

from ..state import HugePagePool, Memory
from .reader import Reader, chosen, kb_value, numbered

HUGE = "/sys/kernel/mm/hugepages"
NODE = "/sys/devices/system/node"


def observe_memory(reader: Reader) -> Memory:
    """The `memory` section."""
    info = reader.text("/proc/meminfo", "memory")
    if info is None:
        reader.note("memory", "/proc/meminfo is missing")
    total = kb_value(info or "", "MemTotal")
    pools = _pools(reader)
    sizes = {pool["size_kb"] for pool in pools}
    sizes.update(_sizes(reader.names(HUGE, "memory.hugepages")))
    if not sizes and not reader.host.live:
        reader.note("memory.hugepages", "%s is not in this tree" % HUGE)
    return {
        "total_bytes": None if total is None else total * 1024,
        "hugepage_default_kb": kb_value(info or "", "Hugepagesize"),
        "hugepage_sizes_kb": sorted(sizes),
        "hugepages": pools,
        "thp": _thp(reader),
    }


def _thp(reader: Reader) -> Optional[str]:
    """Transparent huge pages: "always", "madvise" or "never"; None where not known."""
    text = reader.text("/sys/kernel/mm/transparent_hugepage/enabled", "memory.thp") or ""
    return chosen(text) or None


def _sizes(names: List[str]) -> List[int]:
    return numbered([name[:-2] for name in names if name.endswith("kB")], "hugepages-")


def _pools(reader: Reader) -> List[HugePagePool]:
    """Every pool of every node; where the kernel has no NUMA, the host's pools as those of node 0."""
    pools: List[HugePagePool] = []
    nodes = numbered(reader.names(NODE, "memory.hugepages"), "node")
    for node in nodes:
        pools.extend(_folder(reader, "%s/node%d/hugepages" % (NODE, node), node))
    if not pools and len(nodes) < 2:
        pools = _folder(reader, HUGE, nodes[0] if nodes else 0)
    return pools


def _folder(reader: Reader, base: str, node: int) -> List[HugePagePool]:
    pools: List[HugePagePool] = []
    for size in _sizes(reader.names(base, "memory.hugepages")):
        path = "%s/hugepages-%dkB/" % (base, size)
        total = reader.number(path + "nr_hugepages", "memory.hugepages")
        if total is None:
            reader.note("memory.hugepages", "%snr_hugepages is missing" % path)
            continue
        pools.append(
            {
                "node": node,
                "size_kb": size,
                "total": total,
                "free": reader.number(path + "free_hugepages", "memory.hugepages") or 0,
                "surplus": reader.number(path + "surplus_hugepages", "memory.hugepages") or 0,
            }
        )
    return pools
