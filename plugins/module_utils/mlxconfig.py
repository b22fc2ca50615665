# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware settings of mlx5 cards as `mlxconfig` (MFT) and `mstconfig` (mstflint) print and take them.

`-e q` prints a table of Default, Current and Next Boot; older tools and some cards print Next Boot alone. A
row that differs starts with `*`; one that cannot be written with `RO`. Names and values are compared whole: 18
contains 8, and NUM_OF_VFS is the start of other names. `-j FILE` writes JSON with the keys default_value,
current_value and next_value, "N/A" for what the card does not say (mstflint, mlxconfig/mlxcfg_ui.cpp).
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

TOOLS = ("mstconfig", "mlxconfig")
RESET = {"mstconfig": "mstfwreset", "mlxconfig": "mlxfwreset"}
COLUMNS = {"Default": "default", "Current": "current", "Next Boot": "next"}

_HEAD = re.compile(r"Default|Current|Next Boot")
_NAME = re.compile(r"[A-Z][A-Z0-9_]*(\[\d+(\.\.\d+)?\])?\Z")
_WORD = re.compile(r"(?P<word>.*)\((?P<number>0x[0-9a-fA-F]+|-?\d+)\)\Z")


class Value(NamedTuple):
    """One setting as printed, "True(1)" or "16"; None where the card does not say, or the column is not there."""

    default: Optional[str] = None
    current: Optional[str] = None
    next: Optional[str] = None


class Card(NamedTuple):
    """One device of a query."""

    kind: str  # "ConnectX7"
    name: str  # part number: "MCX755106AS-HEA_Ax"
    device: str  # as it was asked for
    values: Dict[str, Value]


def parse(text: str) -> List[Card]:
    """The devices of `q`. A text without a table gives none."""
    found: List[Card] = []
    head: Dict[str, str] = {}
    columns: List[str] = []
    values: Dict[str, Value] = {}
    for line in text.splitlines():
        label, colon, rest = line.partition(":")
        if line.startswith("Device #"):
            if values:
                found.append(_card(head, values))
            head, columns, values = {}, [], {}
        elif label.strip() == "Configurations" and colon:
            columns = [COLUMNS[name] for name in _HEAD.findall(rest)]
        elif columns:
            row = _row(line, columns)
            if row:
                values[row[0]] = row[1]
        elif colon:
            head[label.strip()] = rest.strip()
    return [*found, _card(head, values)] if values else found


def _card(head: Mapping[str, str], values: Dict[str, Value]) -> Card:
    return Card(head.get("Device type", ""), head.get("Name", ""), head.get("Device", ""), values)


def _row(line: str, columns: Sequence[str]) -> Any:
    """(name, Value) of a row of the table, else None. Values have no blanks, so overflowing columns do not matter."""
    words = line.split()
    while words and words[0] in ("*", "RO"):
        words.pop(0)
    if words and words[0].startswith("*"):
        words[0] = words[0][1:]
    if len(words) != len(columns) + 1 or not _NAME.match(words[0]):
        return None
    return words[0], Value(**{c: _known(w) for c, w in zip(columns, words[1:])})


def _known(text: Any) -> Optional[str]:
    return None if text is None or str(text) == "N/A" else str(text)


def parse_json(document: Mapping[str, Any]) -> List[Card]:
    """The devices of the file that `-j FILE ... q` writes, as a document."""
    found = []
    for key, device in document.items():
        if key.startswith("Device #"):
            values = {
                name: Value(*(_known(entry.get(k)) for k in ("default_value", "current_value", "next_value")))
                for name, entry in device.get("tlv_configuration", {}).items()
            }
            found.append(
                Card(device.get("device_type", ""), device.get("name", ""), device.get("device", ""), values)
            )  # fmt: skip
    return found


def same(asked: Any, printed: Optional[str]) -> bool:
    """Whether what is asked for (bool, number, word) is what the tool printed. Unknown is never the same."""
    if printed is None:
        return False
    match = _WORD.match(printed)
    word, number = (match["word"], _number(match["number"])) if match else (printed, _number(printed))
    if isinstance(asked, bool):
        return number == int(asked) if number is not None else word.lower() == str(asked).lower()
    wanted = _number(str(asked))
    if wanted is not None:
        return number == wanted
    return str(asked).lower() in (word.lower(), printed.lower())


def number_of(printed: Optional[str]) -> Optional[int]:
    """The number in "16" or "True(1)"; None where there is none."""
    if printed is None:
        return None
    match = _WORD.match(printed)
    return _number(match["number"] if match else printed)


def _number(text: str) -> Optional[int]:
    try:
        return int(text, 0)
    except ValueError:
        return None


def word(asked: Any) -> str:
    """As `set NAME=` takes it."""
    return str(int(asked)) if isinstance(asked, bool) else str(asked)


def trouble(output: str) -> str:
    """The tool's own reason in what it printed, one line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith(("-E-", "E-", "Error", "ERROR"))]
    return (marked or lines or ["it said nothing"])[0 if marked else -1]
