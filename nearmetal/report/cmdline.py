"""Kernel command lines, compared word by word."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from ansible_collections.nearmetal.rack.plugins.module_utils import cmdline


@dataclass(frozen=True)
class Word:
    """One word of a command line. change: "same", "gone" or "new"."""

    text: str
    change: str


def split(line: str) -> list[str]:
    """Words of a kernel command line as they are written."""
    return [word.raw for word in cmdline.parse(line)]


def compare(before: str | None, after: str | None) -> list[Word]:
    """Words of both lines in order: kept, gone and new ones. Nothing where a side is not known."""
    if before is None or after is None:
        return [Word(word, "same") for word in split(after or before or "")]
    old, new = split(before), split(after)
    out: list[Word] = []
    for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            out += [Word(word, "same") for word in old[a1:a2]]
        else:
            out += [Word(word, "gone") for word in old[a1:a2]]
            out += [Word(word, "new") for word in new[b1:b2]]
    return out
