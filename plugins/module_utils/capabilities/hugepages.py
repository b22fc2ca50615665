# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Huge pages for guests, per NUMA node: by boot arguments or at run time."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Tuple

from .. import hugepage_sizes as sizes
from .. import hugepages as runtime
from ..model import REBOOT, Call, CmdlineRequest, Decision, Problem, Step
from ..state import State

AFTER: Tuple[str, ...] = ()
COUNTS = ("nodes",)
OWNED = ("hugepagesz", "hugepages", "default_hugepagesz")
FILES = runtime.FILES
PROBE = FILES

GIGANTIC_KB = 512 * 1024
"""From this size on, `auto` reserves at boot: later no contiguous memory of that size is found."""

_PAGES = "hugepages_pages"


def problems(options: Mapping[str, Any]) -> List[Problem]:
    """Cross-field checks, no host needed."""
    found = []
    seen: Dict[int, List[Optional[int]]] = {}
    for entry in options["pages"]:
        value = {k: v for k, v in entry.items() if v is not None}
        try:
            size = sizes.parse(entry["size"])
        except ValueError as err:
            found.append(Problem(_PAGES, value, str(err), "write 2M or 1G"))
            continue
        if entry["count"] < 0:
            found.append(Problem(_PAGES, value, "%d pages cannot be reserved" % entry["count"], "write 0 or more"))
        before = seen.setdefault(size, [])
        node = entry.get("node")
        if before and (node in before or node is None or None in before):
            text = "pages of %s are given twice for the same node" % sizes.format(size)
            found.append(Problem(_PAGES, value, text, "give each size once in all, or once per node"))
        before.append(node)
    try:
        sizes.parse(options["default_size"] or "2M")
    except ValueError as err:
        found.append(Problem("hugepages_default_size", options["default_size"], str(err), "write 2M or 1G"))
    return found


def cmdline(options: Mapping[str, Any], state: State) -> CmdlineRequest:
    """Boot arguments of the sizes that are reserved at boot; those of sizes that are not managed stay."""
    pools = runtime.resolve(options["pages"], state, _PAGES)
    booted = _booted_sizes(options, pools, state)
    managed = frozenset(size for _node, size in pools)
    words = _pool_words(pools, managed, booted, state)
    args: Tuple[str, ...] = ()
    absent: Tuple[str, ...] = ()
    if words is not None:
        args, absent = (words, ()) if words else ((), ("hugepagesz", "hugepages"))
    if options["default_size"]:
        args = ("default_hugepagesz=" + sizes.format(sizes.parse(options["default_size"])), *args)
    return CmdlineRequest(args, absent, _why(pools, booted))


def _why(pools: Dict[Tuple[int, int], int], booted: FrozenSet[int]) -> str:
    if not booted:
        return "huge pages are reserved at run time"
    return "huge pages of %s are reserved at boot" % ", ".join(sizes.format(s) for s in sorted(booted))


def _configured(state: State) -> str:
    configured = state["boot"]["configured"]
    return configured if configured is not None else state["kernel"]["cmdline"] or ""


def _default_kb(cmdline_text: str, state: State) -> Optional[int]:
    said = sizes.default_size(cmdline_text)
    return said if said is not None else state["memory"]["hugepage_default_kb"] or 2048


def _memory_nodes(state: State) -> FrozenSet[int]:
    return frozenset(n["id"] for n in state["cpu"]["nodes"] if n["memory_bytes"] != 0)


def _pool_words(
    pools: runtime.Pools, managed: FrozenSet[int], booted: FrozenSet[int], state: State
) -> Optional[Tuple[str, ...]]:
    """The whole group hugepagesz/hugepages as it must stand; None where it stays as it is."""
    text = _configured(state)
    have = sizes.pairs(text, _default_kb(text, state))
    if not managed or not booted and not any(pair.size_kb in managed for pair in have):
        return None
    nodes = _memory_nodes(state)
    words: List[str] = []
    placed = set()
    for pair in have:
        size = pair.size_kb
        if size is None or size not in managed:
            words.extend(pair.words)
        elif size in booted and size not in placed:
            placed.add(size)
            wanted = _counts(size, pools, pair.counts, nodes)
            same = sizes.by_node(pair.counts, nodes) == wanted
            words.extend(pair.words if same else sizes.pair_words(size, wanted, state["kernel"]["release"]))
    for size in sorted(booted - placed):
        wanted = _counts(size, pools, 0, nodes)
        words.extend(sizes.pair_words(size, wanted, state["kernel"]["release"]))
    return tuple(words)


def _counts(size: int, pools: runtime.Pools, configured: sizes.Counts, nodes: FrozenSet[int]) -> Dict[int, int]:
    """Counts of every node: as asked, else as configured."""
    counts = sizes.by_node(configured, nodes)
    counts.update({node: count for (node, s), count in pools.items() if s == size})
    return counts


def _booted_sizes(options: Mapping[str, Any], pools: runtime.Pools, state: State) -> FrozenSet[int]:
    """Sizes that boot arguments reserve. An old kernel cannot be told uneven counts: run time then."""
    release = state["kernel"]["release"]
    return frozenset(s for s in _wanted_at_boot(options, pools) if sizes.per_node(release) or _even(s, pools, state))


def _wanted_at_boot(options: Mapping[str, Any], pools: runtime.Pools) -> FrozenSet[int]:
    method = options["method"]
    return frozenset(s for _n, s in pools if method == "boot" or method == "auto" and s >= GIGANTIC_KB)


def _even(size: int, pools: runtime.Pools, state: State) -> bool:
    """Whether a plain total says it: the kernel spreads that over all nodes with memory."""
    counts = {node: count for (node, s), count in pools.items() if s == size}
    nodes = _memory_nodes(state)
    return set(counts) == nodes and counts == sizes.spread(sum(counts.values()), nodes)


def decide(options: Mapping[str, Any], state: State) -> Decision:
    """Run-time pools by the module; pools of boot arguments wait for the reboot."""
    pools = runtime.resolve(options["pages"], state, _PAGES)
    booted = _booted_sizes(options, pools, state)
    # Giving pages back never needs a boot.
    now = {key: count for key, count in pools.items() if key[1] not in booted or count == 0}
    steps = runtime.steps(now, options["persist"], state)
    call = Call("nearmetal.rack.hugepages", _args(now, options["persist"])) if steps else None
    found = runtime.in_use(now, state, _PAGES) if state["live"] else []
    later, more = _boot_steps({k: n for k, n in pools.items() if k not in now}, state)
    return Decision(tuple(steps + later), call, tuple(found + more), tuple(_warnings(options, pools, booted)))


def _args(pools: runtime.Pools, persist: bool) -> Dict[str, Any]:
    pages = [
        {"size": sizes.format(size), "node": node, "count": count} for (node, size), count in sorted(pools.items())
    ]
    return {"pages": pages, "persist": persist}


def _boot_steps(pools: runtime.Pools, state: State) -> Tuple[List[Step], List[Problem]]:
    steps: List[Step] = []
    found: List[Problem] = []
    if not state["live"]:
        return steps, found
    running = state["kernel"]["cmdline"] or ""
    nodes = _memory_nodes(state)
    booted = {p.size_kb: sizes.by_node(p.counts, nodes) for p in sizes.pairs(running, _default_kb(running, state))}
    for (node, size), count in sorted(pools.items()):
        pool = runtime.current(state).get((node, size))
        if pool is None or runtime.reserved(pool) == count:
            continue
        if booted.get(size, {}).get(node, 0) == count:
            found.append(_not_given(node, size, count, runtime.reserved(pool)))
        else:
            steps.append(runtime.pool_step(node, size, pool, count, "reboot", ("kernel_args/cmdline", REBOOT)))
    return steps, found


def _not_given(node: int, size: int, count: int, got: int) -> Problem:
    text = "node %d: the kernel was booted for %d pages of %s and has %d" % (node, count, sizes.format(size), got)
    fix = "look for 'HugeTLB' in dmesg: ask for fewer pages, or find out who changed the pool after the boot"
    return Problem(_PAGES, count, text, fix, "host")


def _warnings(options: Mapping[str, Any], pools: runtime.Pools, booted: FrozenSet[int]) -> List[str]:
    late = sorted(_wanted_at_boot(options, pools) - booted)
    text = "pages of %s are reserved by a unit early at boot: this kernel takes no counts per node (Linux 5.16)"
    return [text % ", ".join(sizes.format(s) for s in late)] if late else []
