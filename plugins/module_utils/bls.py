# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot loader entries: files NAME.conf of lines `key value`, one boot entry each.

Format: UAPI.1, The Boot Loader Specification. Several `options` lines are put together. The name may
end in a boot counter (`+3-1`). How loaders choose: GRUB's blscfg sorts by file name, newest version
first; systemd-boot by sort-key, machine-id, and version (see systemd-boot(7)).
"""

from __future__ import annotations

import fnmatch
import functools
import re
from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from . import textedit
from .cmdline import Change
from .grubscript import Token
from .words import Word

_LINE = re.compile(r"^[ \t]*([A-Za-z_-]+)[ \t]+([^\n]*?)[ \t\r]*$", re.MULTILINE)
_PART = re.compile(r"[0-9]+|[A-Za-z]+|~|\^")
_RAW_WORD = re.compile(r'(?:"[^"]*(?:"|$)|[^\s"])+')


def kernel_tokens(text: str) -> List[Token]:
    """Words as the kernel splits them, with their places."""
    return [Token(m.group(), m.start(), m.end()) for m in _RAW_WORD.finditer(text)]


@dataclass
class EntryFile:
    """One entry."""

    path: str
    text: str
    fields: Dict[str, str]  # first value of each key
    options: List[Tuple[int, int]]  # where the values of the options lines stand

    @property
    def id(self) -> str:
        """Name without .conf and boot counter."""
        return re.sub(r"(\+\d+(-\d+)?)?\.conf$", "", self.path.rpartition("/")[2])

    @property
    def boots_linux(self) -> bool:
        """Whether this entry passes its options to a kernel."""
        return "linux" in self.fields

    @property
    def program(self) -> str:
        """The EFI program or unified kernel image that this entry starts instead."""
        return next((self.fields[key] for key in ("efi", "uki", "uki-url") if key in self.fields), "")

    @property
    def rescue(self) -> bool:
        """Whether this is an entry for repairs, which keeps its own arguments."""
        return bool(re.search(r"\brescue\b|recovery", self.id + " " + self.fields.get("title", ""), re.IGNORECASE))

    def tokens(self, split: Callable[[str], List[Token]]) -> List[Token]:
        """Words of all options lines, with their places in the text."""
        return [
            Token(token.raw, start + token.start, start + token.end)
            for start, end in self.options
            for token in split(self.text[start:end])
        ]

    def edited(self, tokens: Sequence[Token], todo: Sequence[Change], render: Callable[[Word], str]) -> str:
        """The text after changes to these words."""
        if not todo:
            return self.text
        if not self.options:
            new = " ".join(render(word) for change in todo for word in change.words)
            start = "" if self.text.endswith("\n") or not self.text else "\n"
            return "%s%soptions %s\n" % (self.text, start, new)
        spans = [(token.start, token.end) for token in tokens]
        return textedit.edited(self.text, textedit.splice(self.text, spans, todo, render, self.options[-1][1]))


def read(path: str, text: str) -> EntryFile:
    """One entry of a file's text."""
    fields: Dict[str, str] = {}
    options: List[Tuple[int, int]] = []
    for match in _LINE.finditer(text):
        fields.setdefault(match.group(1), match.group(2))
        if match.group(1) == "options":
            options.append(match.span(2))
    return EntryFile(path, text, fields, options)


def compare(one: str, other: str) -> int:
    """Version order of rpm and systemd: numbers by value, `~` before everything."""
    ones, others = _PART.findall(one), _PART.findall(other)
    for a, b in zip(ones, others):
        if a == b:
            continue
        if "~" in (a, b):
            return -1 if a == "~" else 1
        if a.isdigit() and b.isdigit():
            if int(a) != int(b):
                return -1 if int(a) < int(b) else 1
        elif a.isdigit() != b.isdigit():
            return 1 if a.isdigit() else -1
        else:
            return -1 if a < b else 1
    if len(ones) == len(others):
        return 0
    longer = ones if len(ones) > len(others) else others
    sign = 1 if longer is ones else -1
    return -sign if longer[min(len(ones), len(others))] == "~" else sign


_version = functools.cmp_to_key(compare)


def for_grub(entries: Sequence[EntryFile]) -> List[EntryFile]:
    """The order of GRUB's menu."""
    return sorted(entries, key=lambda e: _version(e.id), reverse=True)


def for_systemd(entries: Sequence[EntryFile]) -> List[EntryFile]:
    """The order of systemd-boot's menu."""
    newest = sorted(entries, key=lambda e: _version(e.id), reverse=True)
    newest.sort(key=lambda e: _version(e.fields.get("version", "")), reverse=True)
    plain = for_grub([e for e in newest if "sort-key" not in e.fields])
    keyed = [e for e in newest if "sort-key" in e.fields]
    return sorted(keyed, key=lambda e: (e.fields["sort-key"], e.fields.get("machine-id", ""))) + plain


def pick(entries: Sequence[EntryFile], wanted: str) -> Optional[EntryFile]:
    """GRUB's default among entries in menu order: index, id or title; the first where nothing fits."""
    if wanted.isdigit() and int(wanted) < len(entries):
        return entries[int(wanted)]
    for entry in entries:
        if wanted and wanted in (entry.id, entry.fields.get("title")):
            return entry
    return entries[0] if entries else None


def match(entries: Sequence[EntryFile], pattern: str) -> Optional[EntryFile]:
    """systemd-boot's default among entries in menu order, by a pattern of file names; None where nothing fits."""
    for entry in entries:
        if pattern and fnmatch.fnmatchcase(entry.id + ".conf", pattern):
            return entry
    for entry in entries:
        if pattern and fnmatch.fnmatchcase(entry.id, pattern):
            return entry
    return None
