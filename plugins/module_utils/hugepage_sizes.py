# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Huge page sizes as people and the kernel write them, and pools on the kernel command line.

Sources: Documentation/admin-guide/mm/hugetlbpage.rst and kernel-parameters.txt of Linux. Counts per
node ("hugepages=0:64,1:128") are understood since Linux 5.16; an older kernel reads "0:64" as 0.
"""

from __future__ import annotations

import re
from typing import Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Tuple, Union

_SIZE = re.compile(r"\s*(\d+)\s*([kmgt])(?:i?b)?\s*", re.IGNORECASE)
_KB = {"k": 1, "m": 1024, "g": 1024**2, "t": 1024**3}
PER_NODE_SINCE = (5, 16)

Counts = Union[int, Dict[int, int]]
"""Pages of a pool: in all, spread by the kernel; or by node."""


class Pair(NamedTuple):
    """One pool on the command line, with the words that said so."""

    size_kb: Optional[int]  # None: a size that is not understood
    counts: Counts
    words: Tuple[str, ...]


def parse(text: str) -> int:
    """Size in kB of "2M", "2MB", "2MiB", "1G", "2048kB"; ValueError for anything else."""
    match = _SIZE.fullmatch(text)
    if match is None or int(match.group(1)) == 0:
        raise ValueError("%r is no page size such as 2M or 1G" % text)
    return int(match.group(1)) * _KB[match.group(2).lower()]


def format(size_kb: int) -> str:
    """The short form, as the kernel's arguments take it: "2M", "1G", "64K"."""
    for unit in "TGM":
        if size_kb % _KB[unit.lower()] == 0:
            return "%d%s" % (size_kb // _KB[unit.lower()], unit)
    return "%dK" % size_kb


def per_node(release: str) -> bool:
    """Whether this kernel takes counts per node on its command line."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return match is not None and (int(match.group(1)), int(match.group(2))) >= PER_NODE_SINCE


def pairs(cmdline: str, default_kb: Optional[int]) -> List[Pair]:
    """The pools of a command line, in order. `hugepages=` without a size before it: the default size."""
    found: List[Pair] = []
    size_words: Tuple[str, ...] = ()
    size: Optional[int] = default_kb
    for word in cmdline.split():
        name, _sep, value = word.partition("=")
        if name == "hugepagesz":
            if size_words:
                found.append(Pair(size, 0, size_words))
            size_words, size = (word,), _size(value)
        elif name == "hugepages":
            found.append(Pair(size, _counts(value), (*size_words, word)))
            size_words, size = (), default_kb
    if size_words:
        found.append(Pair(size, 0, size_words))
    return found


def default_size(cmdline: str) -> Optional[int]:
    """The size that default_hugepagesz= sets; None where it does not."""
    words = [w.partition("=")[2] for w in cmdline.split() if w.startswith("default_hugepagesz=")]
    return _size(words[-1]) if words else None


def _size(text: str) -> Optional[int]:
    try:
        return parse(text)
    except ValueError:
        return None


def _counts(text: str) -> Counts:
    if ":" not in text:
        match = re.match(r"\d+", text)
        return int(match.group()) if match else 0
    counts: Dict[int, int] = {}
    for item in text.split(","):
        node, _sep, count = item.partition(":")
        if node.isdecimal() and count.isdecimal():
            counts[int(node)] = int(count)
    return counts


def spread(total: int, nodes: FrozenSet[int]) -> Dict[int, int]:
    """A total, as evenly as it goes; the lowest nodes take what is left over."""
    share, rest = divmod(total, len(nodes))
    return {node: share + (1 if i < rest else 0) for i, node in enumerate(sorted(nodes))}


def by_node(counts: Counts, nodes: FrozenSet[int]) -> Dict[int, int]:
    """Counts of every given node."""
    if isinstance(counts, int):
        return spread(counts, nodes) if nodes else {}
    return {node: counts.get(node, 0) for node in nodes}


def pair_words(size_kb: int, counts: Mapping[int, int], release: str) -> Tuple[str, ...]:
    """The words for a pool; none for an empty one. For an old kernel the counts must be even."""
    if not any(counts.values()):
        return ()
    size = "hugepagesz=" + format(size_kb)
    if per_node(release):
        return size, "hugepages=" + ",".join("%d:%d" % item for item in sorted(counts.items()) if item[1])
    return size, "hugepages=%d" % sum(counts.values())
