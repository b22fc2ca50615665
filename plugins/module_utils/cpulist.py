# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU sets as the kernel writes them: lists ("0-3,8") and hexadecimal maps ("ff,00000001")."""

from __future__ import annotations

from typing import FrozenSet, Iterable, List

MAX_CPU = 65535
"""Far above NR_CPUS of any kernel (8192): a larger number is a mistake, not a CPU."""


def parse(text: str) -> FrozenSet[int]:
    """CPUs of a cpulist; "" (and white space) is the empty set.

    Understands what the kernel's bitmap_parselist does and people write: "0-3,8", "0-15:2/4" (2 of
    every 4), white space and empty items. Raises ValueError that names the item in error.
    """
    cpus: List[int] = []
    for item in text.replace("\n", ",").split(","):
        word = item.strip()
        if word.isdecimal() and word.isascii() and len(word) < 6:
            cpus.append(int(word))
        elif word:
            cpus.extend(_range(word, text))
    if cpus and max(cpus) > MAX_CPU:
        raise ValueError("cpulist %r: CPU %d is beyond %d" % (text, max(cpus), MAX_CPU))
    return frozenset(cpus)


def _range(word: str, text: str) -> Iterable[int]:
    span, colon, stride = word.partition(":")
    first, dash, last = span.partition("-")
    used, slash, group = stride.partition("/")
    if colon and not (slash and dash):
        raise ValueError("cpulist %r: %r is no FIRST-LAST:USED/GROUP" % (text, word))
    low = _number(first, word, text)
    high = _number(last, word, text) if dash else low
    if low > high:
        raise ValueError("cpulist %r: the range %r runs backwards" % (text, word))
    if not colon:
        return range(low, high + 1)
    use, every = _number(used, word, text), _number(group, word, text)
    if use < 1 or every < use:
        raise ValueError("cpulist %r: %r is no FIRST-LAST:USED/GROUP" % (text, word))
    return [cpu for cpu in range(low, high + 1) if (cpu - low) % every < use]


def _number(digits: str, word: str, text: str) -> int:
    digits = digits.strip()
    if not (digits.isdecimal() and digits.isascii()):
        raise ValueError("cpulist %r: %r is neither a CPU number nor a range such as 0-3" % (text, word))
    number = int(digits) if len(digits) < 12 else MAX_CPU + 1
    if number > MAX_CPU:
        raise ValueError("cpulist %r: CPU %s is beyond %d" % (text, digits, MAX_CPU))
    return number


def format(cpus: Iterable[int]) -> str:
    """The cpulist of a set of CPUs, ranges as the kernel writes them; "" for none."""
    parts: List[str] = []
    first = last = -2
    for cpu in sorted(set(cpus)):
        if cpu < 0:
            raise ValueError("CPU %d is negative" % cpu)
        if cpu == last + 1:
            last = cpu
            continue
        if last >= 0:
            parts.append("%d" % first if first == last else "%d-%d" % (first, last))
        first = last = cpu
    if last >= 0:
        parts.append("%d" % first if first == last else "%d-%d" % (first, last))
    return ",".join(parts)


def parse_map(text: str) -> FrozenSet[int]:
    """CPUs of a hexadecimal map: groups of 32 bits with commas between, the highest first."""
    cpus: List[int] = []
    base = 0
    for group in reversed(text.strip().split(",")):
        try:
            bits = int(group, 16) if group.strip() else 0
        except ValueError:
            raise ValueError("CPU map %r: %r is not hexadecimal" % (text, group)) from None
        if bits < 0 or len(group.strip()) > 8 and "," in text:
            raise ValueError("CPU map %r: %r is no group of 32 bits" % (text, group))
        while bits:
            low = bits & -bits
            cpus.append(base + low.bit_length() - 1)
            bits ^= low
        base += 32
    return frozenset(cpus)


def format_map(cpus: Iterable[int]) -> str:
    """The hexadecimal map of a set of CPUs as the kernel writes it ("1,000000ff"; "0" for none)."""
    bits = 0
    for cpu in cpus:
        if cpu < 0:
            raise ValueError("CPU %d is negative" % cpu)
        bits |= 1 << cpu
    groups = []
    while bits:
        groups.append("%08x" % (bits & 0xFFFFFFFF))
        bits >>= 32
    return ",".join(reversed(groups)).lstrip("0") or "0"
