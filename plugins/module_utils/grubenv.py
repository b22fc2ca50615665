# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB's environment block: NAME=VALUE lines, padded with `#` to a size that never changes.

GRUB rewrites the block in place, sector by sector, without knowing the file system; the file must
keep its size (1024 bytes) and its place on the disk. Format: grub-core/lib/envblk.c.
"""

from __future__ import annotations

import re
from typing import Dict

HEADER = "# GRUB Environment Block\n"
SIZE = 1024
_LINE = re.compile(r"^([^#=\n][^=\n]*)=((?:\\.|[^\\\n])*)$", re.MULTILINE | re.DOTALL)


def read(block: str) -> Dict[str, str]:
    """Variables of a block; raises ValueError where it is none."""
    if not block.startswith(HEADER):
        raise ValueError("no GRUB environment block: its first line is not %r" % HEADER.strip())
    return {name: re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL) for name, value in _LINE.findall(block)}


def change(block: str, name: str, value: str) -> str:
    """The block with one variable set; raises ValueError where there is no room for it."""
    if not block:
        block = HEADER.ljust(SIZE, "#")
    read(block)
    length = len(block.encode("utf-8", "surrogateescape"))
    body = block.rstrip("#")
    if not body.endswith("\n"):
        body += "\n"
    line = "%s=%s\n" % (name, re.sub(r"([\\\n])", r"\\\1", value))
    old = re.compile(r"^%s=(?:\\.|[^\\\n])*\n" % re.escape(name), re.MULTILINE | re.DOTALL)
    body = old.sub(lambda _m: line, body, count=1) if old.search(body) else body + line
    room = length - len(body.encode("utf-8", "surrogateescape"))
    if room < 0:
        raise ValueError("%s needs %d bytes more than the block of %d bytes has" % (name, -room, length))
    return body + "#" * room
