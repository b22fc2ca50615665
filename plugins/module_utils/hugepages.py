# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools of huge pages per NUMA node at run time: what is wanted, what differs, and setting them.

Pages that are allocated at run time are kept for the next boot by a unit of our own that fills the
same pools early, when memory is not yet fragmented. A target's drop-in pulls it in, so that
everything is plain files, on a running host as in an image.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from . import hugepage_sizes as sizes
from .host import Host, HostError
from .model import IntentError, Problem, Step
from .state import HugePagePool, State

Pools = Dict[Tuple[int, int], int]
"""(node, size in kB) -> pages."""

SCRIPT = "/etc/nearmetal/hugepages"
SERVICE = "nearmetal-hugepages.service"
UNIT = "/etc/systemd/system/" + SERVICE
WANTED = "/etc/systemd/system/sysinit.target.d/50-nearmetal-hugepages.conf"
FILES = (SCRIPT, UNIT, WANTED)

MOST_OF_A_NODE = 0.95
"""Share of a node's memory that huge pages may take; the rest runs the host."""

_HEAD = "# Written by nearmetal (role hugepages); changes are lost.\n"

_SCRIPT = (
    "#!/bin/sh\n"
    + _HEAD
    + """\
status=0
# pool NODE SIZE_KB COUNT
pool() {
  file=/sys/devices/system/node/node$1/hugepages/hugepages-$2kB/nr_hugepages
  [ -e "$file" ] || file=/sys/kernel/mm/hugepages/hugepages-$2kB/nr_hugepages
  echo "$3" > "$file"
  read -r got < "$file"
  if [ "$got" != "$3" ]; then
    echo 1 > /proc/sys/vm/compact_memory
    echo "$3" > "$file"
    read -r got < "$file"
  fi
  if [ "$got" != "$3" ]; then
    echo "node $1: asked for $3 huge pages of $2 kB, got $got" >&2
    status=1
  fi
}
"""
)

_UNIT = (
    _HEAD
    + """\
[Unit]
Description=Reserve huge pages per NUMA node
DefaultDependencies=no
Before=sysinit.target dev-hugepages.mount
ConditionPathExists=%(script)s

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh %(script)s
"""
)

_WANTED = _HEAD + "[Unit]\nWants=%s\n" % SERVICE


def resolve(pages: Sequence[Mapping[str, Any]], state: State, variable: str = "pages") -> Pools:
    """The wanted pools of this host; raises IntentError with all that cannot be.

    An entry without a node is a total, spread evenly over the nodes that have CPUs and memory.
    """
    pools: Pools = {}
    wrong: List[Problem] = []
    nodes = _nodes(state)
    known = frozenset(state["memory"]["hugepage_sizes_kb"])
    for entry in pages:
        problem = _wrong_entry(entry, known, nodes, state, variable)
        if problem is not None:
            wrong.append(problem)
            continue
        size = sizes.parse(entry["size"])
        node = entry.get("node")
        counts = {node: entry["count"]} if node is not None else sizes.spread(entry["count"], _even(state))
        for where, count in counts.items():
            if (where, size) in pools:
                text = "pages of %s on node %d are given twice" % (sizes.format(size), where)
                wrong.append(Problem(variable, dict(entry), text, "give each size and node once"))
            pools[where, size] = count
    wrong = wrong or _beyond_memory(pools, state, variable)
    if wrong:
        raise IntentError(wrong)
    return pools


def _nodes(state: State) -> FrozenSet[int]:
    return frozenset(p["node"] for p in state["memory"]["hugepages"])


def _even(state: State) -> FrozenSet[int]:
    """Nodes with CPUs, memory and pools: not the memory of a GPU or an expander."""
    return _nodes(state) & frozenset(n["id"] for n in state["cpu"]["nodes"] if n["cpus"] and n["memory_bytes"] != 0)


def _wrong_entry(
    entry: Mapping[str, Any], known: FrozenSet[int], nodes: FrozenSet[int], state: State, variable: str
) -> Optional[Problem]:
    node = entry.get("node")
    try:
        size = sizes.parse(entry["size"])
    except ValueError as err:
        wrong: Tuple[str, ...] = (str(err), "write 2M or 1G")
    else:
        wrong = _wrong_place(size, node, known, nodes, state["live"])
        if not wrong and node is None and not _even(state):
            wrong = ("no NUMA node with CPUs and memory is known to spread pages over", "name the node")
    if entry["count"] < 0:
        wrong = ("%d pages cannot be reserved" % entry["count"], "write 0 or more")
    value = {k: v for k, v in entry.items() if v is not None}
    return Problem(variable, value, *wrong) if wrong else None


def _wrong_place(
    size: int, node: Optional[int], known: FrozenSet[int], nodes: FrozenSet[int], live: bool
) -> Tuple[str, ...]:
    """What is wrong with a pool, and what to do; empty where nothing is."""
    if not known and not nodes and not live:
        # An image says nothing of the machine that it will run on.
        if node is None:
            return "the tree has no /sys to spread pages by", "name the node"
        if node < 0:
            return "NUMA node %d cannot be" % node, "write 0 or more"
        return ("no machine has pages of %s" % sizes.format(size), "write 2M or 1G") if size & (size - 1) else ()
    if size not in known:
        have = ", ".join(sizes.format(s) for s in sorted(known)) or "none: boot a kernel with CONFIG_HUGETLBFS"
        return "this host has no huge pages of %s" % sizes.format(size), "use one of: %s" % have
    if node is not None and node not in nodes:
        have = ", ".join(str(n) for n in sorted(nodes))
        return "NUMA node %d is not there or has no memory" % node, "use one of: %s" % have
    return ()


def _beyond_memory(pools: Pools, state: State, variable: str) -> List[Problem]:
    wrong = []
    other = {(p["node"], p["size_kb"]): p["total"] for p in state["memory"]["hugepages"]}
    memory = {n["id"]: n["memory_bytes"] for n in state["cpu"]["nodes"]}
    for node in sorted({node for node, _size in pools}):
        have = memory.get(node)
        if have is None:
            continue
        wanted = {key: count for key, count in {**other, **pools}.items() if key[0] == node and count}
        asked_kb = sum(size * count for (_node, size), count in wanted.items())
        most_kb = int(have // 1024 * MOST_OF_A_NODE)
        if asked_kb <= most_kb:
            continue
        what = " + ".join("%d x %s" % (count, sizes.format(size)) for (_n, size), count in sorted(wanted.items()))
        text = "node %d: huge pages of %d MiB (%s) do not fit into %d %% of its memory of %d MiB"
        text %= (node, asked_kb // 1024, what, round(MOST_OF_A_NODE * 100), have // 1024**2)
        wrong.append(Problem(variable, what, text, "ask for at most %d MiB on this node" % (most_kb // 1024)))
    return wrong


def files(pools: Pools, persist: bool) -> Dict[str, Optional[str]]:
    """What each of FILES must hold; None: it must not be there."""
    lines = ["pool %d %d %d\n" % (node, size, count) for (node, size), count in sorted(pools.items()) if count]
    if not persist or not lines:
        return dict.fromkeys(FILES)
    return {SCRIPT: _SCRIPT + "".join(lines) + "exit $status\n", UNIT: _UNIT % {"script": SCRIPT}, WANTED: _WANTED}


def differing(pools: Pools, persist: bool, state: State) -> Dict[str, Optional[str]]:
    """Those of `files` that are not as they must be."""
    have = state["confinement"]["files"]
    return {path: text for path, text in files(pools, persist).items() if have.get(path) != text}


def current(state: State) -> Dict[Tuple[int, int], HugePagePool]:
    """Pools by node and size."""
    return {(p["node"], p["size_kb"]): p for p in state["memory"]["hugepages"]}


def reserved(pool: HugePagePool) -> int:
    """Pages that stay in the pool; surplus ones go when they are freed."""
    return pool["total"] - pool["surplus"]


def in_use(pools: Pools, state: State, variable: str = "pages") -> List[Problem]:
    """Pools that would shrink below what guests use now: the kernel would keep the pages as surplus."""
    found = []
    have = current(state)
    for (node, size), count in sorted(pools.items()):
        pool = have.get((node, size))
        used = pool["total"] - pool["free"] if pool else 0
        if pool and count < min(used, reserved(pool)):
            text = "node %d: %d of %d pages of %s are in use, %d were asked for"
            text %= (node, used, pool["total"], sizes.format(size), count)
            fix = "stop the guests that use them, or ask for at least %d" % used
            found.append(Problem(variable, count, text, fix, "host"))
    return found


def steps(pools: Pools, persist: bool, state: State) -> List[Step]:
    """What the module can do now."""
    found = []
    have = current(state)
    for (node, size), count in sorted(pools.items()):
        pool = have.get((node, size))
        if state["live"] and pool is not None and reserved(pool) != count:
            found.append(pool_step(node, size, pool, count))
    changed = differing(pools, persist, state)
    if changed:
        kept = files(pools, persist)[SCRIPT] is not None
        found.append(
            Step(
                "hugepages", "persist", "kept otherwise" if SCRIPT in state["confinement"]["files"] else "not kept",
                "reserved at boot by %s" % SERVICE if kept else "not kept",
                "run-time pages are gone after a reboot" if kept else "no run-time pages are to be kept",
                "none", "content of %s" % ", ".join(sorted(changed)),
            )
        )  # fmt: skip
    return found


def pool_step(
    node: int, size: int, pool: HugePagePool, count: int, disruption: str = "none", requires: Tuple[str, ...] = ()
) -> Step:
    """One pool that differs."""
    where = "/sys/devices/system/node/node%d/hugepages/hugepages-%dkB/nr_hugepages" % (node, size)
    return Step(
        "hugepages", "node%d-%dkB" % (node, size),
        "%d pages of %s (%d free)" % (reserved(pool), sizes.format(size), pool["free"]), "%d pages" % count,
        "guests get %s pages of this node" % sizes.format(size) if count else "no such pages are wanted here",
        disruption, "%s is %d" % (where, count), requires,
    )  # fmt: skip


def fill(host: Host, pools: Pools, state: State) -> None:
    """Set the pools that differ, those that shrink first; raises HostError with asked and got."""
    have = current(state)
    todo = [(key, n) for key, n in pools.items() if key in have and reserved(have[key]) != n]
    short = []
    for (node, size), count in sorted(todo, key=lambda item: (item[1] > reserved(have[item[0]]), item[0])):
        got = _fill_one(host, node, size, count)
        if got != count:
            short.append("node %d: asked for %d pages of %s, got %d" % (node, count, sizes.format(size), got))
    if short:
        fix = "its memory is fragmented or in use: free it, or have the pages reserved at boot"
        raise HostError("huge pages", "%s; %s" % ("; ".join(short), fix))


def _fill_one(host: Host, node: int, size: int, count: int) -> int:
    name = "hugepages/hugepages-%dkB/nr_hugepages" % size
    path = "/sys/devices/system/node/node%d/%s" % (node, name)
    if not host.exists(path):
        path = "/sys/kernel/mm/" + name  # a kernel without NUMA
    host.poke(path, "%d" % count)
    got = int(host.get(path))
    # Compaction first; the page cache, which is only a copy of what is on disk, is given up last.
    for helper in ("/proc/sys/vm/compact_memory", "/proc/sys/vm/drop_caches", "/proc/sys/vm/compact_memory"):
        if got < count:
            host.poke(helper, "1")
            host.poke(path, "%d" % count)
            got = int(host.get(path))
    return got


def apply_files(host: Host, changed: Mapping[str, Optional[str]]) -> None:
    """Write and remove the files of the boot-time unit, and tell systemd."""
    for path, text in changed.items():
        if text is None:
            host.remove(path)
        else:
            host.write(path, text)
    if changed and host.live:
        done = host.run(["systemctl", "daemon-reload"])
        if done.rc:
            raise HostError("systemctl daemon-reload", done.stderr.strip() or "exit status %d" % done.rc)
