# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One kernel argument, and what its value means.

The rules are the kernel's own: Documentation/admin-guide/kernel-parameters and lib/cmdline.c,
kernel/params.c (`-` and `_` are the same in a name; a value may be put in double quotes).
"""

from __future__ import annotations

import functools
import re
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

FLAG_LISTS = frozenset(("intel_iommu", "amd_iommu", "iommu", "pci", "efi"))
"""Names whose value is a comma-separated set of independent flags: more of them may stand there."""

JOINED = frozenset(("pci",))
"""Those of them whose flags have nothing to do with each other (pci=realloc, pci=config_acs=...): asking for one does
not take away another, and several may ask."""

_RIVALS = {"disable_acs_redir": "config_acs"}
"""Flags that are about the same thing as another."""

CPU_LISTS = frozenset(("nohz_full", "rcu_nocbs", "irqaffinity", "kthread_cpus", "isolcpus"))
SIZES = frozenset(("default_hugepagesz", "hugepagesz", "mem", "log_buf_len", "cma", "hugetlb_cma"))
HUGEPAGES = "hugepages"  # name of the group of hugepagesz and hugepages

_ISOLCPUS_FLAGS = frozenset(("nohz", "domain", "managed_irq"))
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50, "e": 60}
_SIZE = re.compile(r"(0x[0-9a-f]+|[0-9]+)([kmgtpe]?)b?", re.IGNORECASE)
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+)(?::([0-9]+)/([0-9]+))?)?")
_MOST_CPUS = 65536


class Word(NamedTuple):
    """One argument. `raw` is how it is written, `text` what the kernel gets, without quotes."""

    raw: str
    text: str

    @property
    def name(self) -> str:
        """Name with `-` as `_`: the kernel takes them for the same."""
        return _name(self.text)

    @property
    def value(self) -> Optional[str]:
        """What follows the first `=`; None where there is none."""
        _name, sep, value = self.text.partition("=")
        return value if sep else None

    @property
    def group(self) -> str:
        """Name under which words are replaced together."""
        return group(self.name)


@functools.lru_cache(maxsize=4096)
def _name(text: str) -> str:
    return key(text.partition("=")[0])


def key(name: str) -> str:
    """The form of a name in which equal names are equal."""
    return name.replace("-", "_")


def group(name: str) -> str:
    """The words hugepagesz and hugepages only mean something together, in their order."""
    return HUGEPAGES if name == "hugepagesz" else name


def size(text: str) -> Optional[int]:
    """Bytes that the kernel's memparse() reads ("1G", "1024M", "1GB"); None where it is no size."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    return int(match.group(1), 0 if match.group(1)[:2].lower() == "0x" else 10) << _UNITS[match.group(2).lower()]


def cpus(text: str) -> Optional[FrozenSet[int]]:
    """CPUs of a list as the kernel reads it ("0-3,8", "0-15:2/4"); None where it is none."""
    found: List[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return None
        first = int(match.group(1))
        last = int(match.group(2) or first)
        used, step = int(match.group(3) or 1), int(match.group(4) or 1)
        if not first <= last < _MOST_CPUS or not 0 < used <= step:
            return None
        found.extend(cpu for cpu in range(first, last + 1) if (cpu - first) % step < used)
    return frozenset(found)


def _isolcpus(value: str) -> Any:
    flags: List[str] = []
    rest = value
    while rest.partition(",")[0] in _ISOLCPUS_FLAGS:
        flag, _sep, rest = rest.partition(",")
        flags.append(flag)
    found = cpus(rest)
    return None if found is None else (frozenset(flags or ("domain",)), found)


def meaning(word: Word) -> Any:
    """A value that is equal for words that mean the same to the kernel."""
    name, value = word.name, word.value
    known: Any = None
    if value is not None:
        if name == "isolcpus":
            known = _isolcpus(value)
        elif name in CPU_LISTS:
            known = cpus(value)
        elif name in SIZES:
            known = size(value)
    return (name, value if known is None else known)


def _count(value: str) -> Optional[Tuple[Tuple[Optional[int], int], ...]]:
    """Pages per node of `hugepages=`: "16" -> ((None, 16),), "0:8,1:4" -> ((0, 8), (1, 4))."""
    if re.fullmatch("[0-9]+", value):
        return ((None, int(value)),)
    nodes: Dict[Optional[int], int] = {}
    for part in value.split(","):
        match = re.fullmatch("([0-9]+):([0-9]+)", part)
        if match is None or int(match.group(1)) in nodes:
            return None
        nodes[int(match.group(1))] = int(match.group(2))
    return tuple(sorted(nodes.items(), key=lambda item: item[0] or 0))


def _pools(words: Sequence[Word]) -> Optional[Dict[Optional[int], Any]]:
    """What a hugepagesz/hugepages sequence asks for: {size in bytes or None (default): pages}."""
    pools: Dict[Optional[int], Any] = {}
    current: Optional[int] = None
    for word in words:
        value = word.value or ""
        if word.name == "hugepagesz":
            current = size(value)
            if current is None or current in pools:
                return None
            pools[current] = None
        else:
            pages = _count(value)
            if pages is None or pools.get(current) is not None:
                return None
            pools[current] = pages
    return pools


def _flags(words: Sequence[Word]) -> Optional[List[str]]:
    if any(word.value is None for word in words):
        return None
    return [flag for word in words for flag in (word.value or "").split(",") if flag]


def _contradict(one: str, other: str) -> bool:
    if one == other:
        return False
    if {one, other} == {"on", "off"} or one == "no" + other or other == "no" + one:
        return True
    head, rival = one.partition("=")[0], other.partition("=")[0]
    return _RIVALS.get(head, head) == _RIVALS.get(rival, rival)


def _flags_there(have: Sequence[Word], want: Sequence[Word]) -> bool:
    there, asked = _flags(have), _flags(want)
    if there is None or not asked or not set(asked) <= set(there):
        return False
    return not any(_contradict(flag, ask) for flag in there if flag not in asked for ask in asked)


def joined(have: Sequence[Word], want: Sequence[Word]) -> List[Word]:
    """What the words of one group become when some are wanted: just these, but see JOINED."""
    there, asked = _flags(have), _flags(want)
    if want[0].group not in JOINED or there is None or asked is None:
        return list(want)
    kept = [flag for flag in there if flag not in asked and not any(_contradict(flag, ask) for ask in asked)]
    text = "%s=%s" % (want[0].name, ",".join([*kept, *asked]))
    return [Word(text, text)] if kept else list(want)


def clash(one: Sequence[Word], two: Sequence[Word]) -> bool:
    """Whether two wishes for a group exclude each other."""
    first, second = _flags(one), _flags(two)
    if one[0].group not in JOINED or first is None or second is None:
        return True
    return any(_contradict(a, b) for a in first for b in second)


def same(have: Sequence[Word], want: Sequence[Word]) -> bool:
    """Whether the words of one group give the kernel what is wanted, order within the group kept."""
    name = want[0].group
    if name in FLAG_LISTS:
        return _flags_there(have, want)
    if name == HUGEPAGES:
        pools = _pools(want)
        if pools is not None and pools == _pools(have):
            return True
    return [meaning(word) for word in have] == [meaning(word) for word in want]
