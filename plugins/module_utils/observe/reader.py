# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading for observers: what is missing is told from what cannot be read, and the latter is kept."""

from __future__ import annotations

import fnmatch
import re
from typing import Dict, List, Optional

from ..host import Host, Missing, Unreadable
from ..state import Unread

WHITE = " \t\r\n\0"
"""tar pads files with NUL that turn out shorter than their size says, as those of /sys do."""


class Reader:
    """A host, with a note of every section that could not be read."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._notes: Dict[str, List[str]] = {}

    def note(self, section: str, reason: str) -> None:
        """Keep why a section, or a part of it, is not known."""
        self._notes.setdefault(section, []).append(reason)

    def unread(self) -> List[Unread]:
        """The notes, one for each section: hundreds of files refused for one reason are one note."""
        found: List[Unread] = []
        for section, reasons in self._notes.items():
            more = len(set(reasons)) - 1
            reason = reasons[0] + (" (and %d more)" % more if more else "")
            found.append({"section": section, "reason": reason})
        return found

    def text(self, path: str, section: str) -> Optional[str]:
        """Stripped text; None where the file is missing, or cannot be read, which is noted."""
        try:
            return self.host.read(path).strip(WHITE)
        except Missing:
            return None
        except Unreadable as err:
            self.note(section, str(err))
            return None

    def number(self, path: str, section: str) -> Optional[int]:
        """A decimal number; None where there is none. Text that is no number is noted."""
        text = self.text(path, section)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            self.note(section, "%s: %r is no number" % (path, text[:40]))
            return None

    def names(self, path: str, section: str) -> List[str]:
        """Names in a folder; none where it is missing, or cannot be read, which is noted."""
        try:
            return self.host.list(path)
        except Missing:
            return []
        except Unreadable as err:
            self.note(section, str(err))
            return []

    def link(self, path: str) -> str:
        """Target of a link as written; "" where it is none."""
        try:
            return self.host.readlink(path)
        except (Missing, Unreadable):
            return ""

    def exists(self, path: str) -> bool:
        """Whether the path is there."""
        try:
            return self.host.exists(path)
        except (Missing, Unreadable):
            return False

    def glob(self, pattern: str) -> List[str]:
        """Paths that match; * in any part, as in the collector. Without one, the path itself."""
        if "*" not in pattern:
            return [pattern]
        head, _star, _rest = pattern.partition("*")
        folder, _slash, start = head.rpartition("/")
        part, slash, rest = pattern[len(folder) + 1 :].partition("/")
        found: List[str] = []
        for name in self.names(folder or "/", "files"):
            if fnmatch.fnmatchcase(name, part.replace("[", "[[]").replace("?", "[?]")):
                found += self.glob(folder + "/" + name + slash + rest)
        return found


def numbered(names: List[str], word: str) -> List[int]:
    """The numbers of names such as cpu0, cpu1, in order; other names are left out."""
    start = len(word)
    return sorted(int(n[start:]) for n in names if n.startswith(word) and n[start:].isdecimal())


KB_VALUES = {key: re.compile(r"(?:^|\s)%s:\s+(\d+) kB" % key) for key in ("MemTotal", "Hugepagesize")}
"""Compiled here, once: Ansible forks a process for each host, in which nothing stays compiled."""


def kb_value(text: str, key: str) -> Optional[int]:
    """A value in kB from /proc/meminfo, or a node's meminfo: "Node 0 MemTotal:  30601816 kB"."""
    found = KB_VALUES[key].search(text)
    return int(found.group(1)) if found else None


CHOSEN = re.compile(r"\[([\w-]+)\]")


def chosen(text: str) -> str:
    """The word in brackets, as in "[none] integrity confidentiality"."""
    found = CHOSEN.search(text)
    return found.group(1) if found else ""
