# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Enough of YAML to read netplan's files on a host that has no YAML library: mappings, lists, scalars, comments.

A `Map` remembers the line (from 1) of each key. What is not understood (anchors, block scalars, tags) raises YamlError:
a file that is read wrongly is worse than one that is not read.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Tuple


class YamlError(ValueError):
    """What is not understood, with its line."""


class Map(Dict[str, Any]):
    """A mapping with the lines of its keys."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Dict[str, int] = {}

    def put(self, key: str, value: Any, line: int) -> None:
        """Set a key that stands in a line."""
        self[key] = value
        self.lines[key] = line


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s'"\[\]{},#&*!|>%@`-][^#]*?|-[^\s#][^#]*?)\s*:(?:\s+(.*)|)\Z""")
_WORDS = {
    "": None, "~": None, "null": None, "true": True, "yes": True, "on": True, "false": False, "no": False, "off": False,
}  # fmt: skip
_UNKNOWN = re.compile(r"[&*!|>%@`]")


def load(text: str) -> Any:
    """The document: Map, list, or scalar; None where it is empty."""
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        bare = _uncomment(raw).rstrip()
        if not bare.strip() or bare.strip() == "---":
            continue
        indent = len(bare) - len(bare.lstrip(" "))
        if bare[indent] == "\t":
            raise YamlError("line %d: a tab" % number)
        lines.append(_Line(number, indent, bare.strip()))
    lines = _joined(lines)
    if not lines:
        return None
    value, end = _block(lines, 0, lines[0].indent)
    if end != len(lines):
        raise YamlError("line %d: indentation" % lines[end].number)
    return value


def _uncomment(raw: str) -> str:
    quote = ""
    for at, char in enumerate(raw):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"" and (at == 0 or raw[at - 1] in " [{,:"):
            quote = char
        elif char == "#" and (at == 0 or raw[at - 1] in " \t"):
            return raw[:at]
    return raw


def _joined(lines: List[_Line]) -> List[_Line]:
    """Lists and mappings in brackets may go on in the next lines."""
    found: List[_Line] = []
    for line in lines:
        if found and _depth(found[-1].text) > 0:
            found[-1] = found[-1]._replace(text=found[-1].text + " " + line.text)
        else:
            found.append(line)
    return found


def _depth(text: str) -> int:
    bare = re.sub(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'", "", text)
    return sum(bare.count(c) for c in "[{") - sum(bare.count(c) for c in "]}")


def _block(lines: List[_Line], at: int, indent: int) -> Tuple[Any, int]:
    if _is_item(lines[at].text):
        return _list(lines, at, indent)
    if _KEY.match(lines[at].text):
        return _map(lines, at, indent)
    return _flow(lines[at].text, lines[at].number), at + 1


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _map(lines: List[_Line], at: int, indent: int) -> Tuple[Map, int]:
    found = Map()
    while at < len(lines) and lines[at].indent == indent and not _is_item(lines[at].text):
        line = lines[at]
        match = _KEY.match(line.text)
        if match is None:
            raise YamlError("line %d: no key: %s" % (line.number, line.text[:40]))
        key = str(_scalar(match.group(1), line.number, key=True))
        rest = (match.group(2) or "").strip()
        at += 1
        if rest:
            value: Any = _flow(rest, line.number)
        elif at < len(lines) and (lines[at].indent > indent or lines[at].indent == indent and _is_item(lines[at].text)):
            value, at = _block(lines, at, lines[at].indent)
        else:
            value = None
        found.put(key, value, line.number)
    if at < len(lines) and lines[at].indent > indent:
        raise YamlError("line %d: indentation" % lines[at].number)
    return found, at


def _list(lines: List[_Line], at: int, indent: int) -> Tuple[List[Any], int]:
    found: List[Any] = []
    while at < len(lines) and lines[at].indent == indent and _is_item(lines[at].text):
        line = lines[at]
        rest = line.text[1:].strip()
        if not rest:
            at += 1
            if at < len(lines) and lines[at].indent > indent:
                value, at = _block(lines, at, lines[at].indent)
            else:
                value = None
        elif _is_item(rest) or _KEY.match(rest):
            inner = indent + len(line.text) - len(rest)
            lines[at] = _Line(line.number, inner, rest)
            value, at = _block(lines, at, inner)
        else:
            value, at = _flow(rest, line.number), at + 1
        found.append(value)
    return found, at


def _flow(text: str, number: int) -> Any:
    value, rest = _flow_value(text, number)
    if rest.strip():
        raise YamlError("line %d: %s" % (number, rest.strip()[:40]))
    return value


def _flow_value(text: str, number: int, inside: str = "") -> Tuple[Any, str]:
    text = text.strip()
    if text.startswith("["):
        return _flow_items(text[1:], number, "]")
    if text.startswith("{"):
        return _flow_items(text[1:], number, "}")
    if text[:1] in ("'", '"'):
        match = re.match(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'", text)
        if match is None:
            raise YamlError("line %d: a quote without end" % number)
        return _scalar(match.group(0), number), text[match.end() :]
    end = len(text)
    if inside:
        stops = [at for at in (text.find(","), text.find(inside)) if at >= 0]
        end = min(stops) if stops else end
    return _scalar(text[:end].strip(), number), text[end:]


def _flow_items(text: str, number: int, closing: str) -> Tuple[Any, str]:
    items: List[Any] = []
    found = Map()
    while True:
        text = text.strip()
        if not text:
            raise YamlError("line %d: %s is missing" % (number, closing))
        if text[0] == closing:
            return (items if closing == "]" else found), text[1:]
        if closing == "}":
            match = re.match(r"""("[^"]*"|'[^']*'|[^:,{}\[\]]+)\s*:\s+|("[^"]*"):""", text)
            if match is None:
                raise YamlError("line %d: %s" % (number, text[:40]))
            key = str(_scalar((match.group(1) or match.group(2)).strip(), number, key=True))
            value, text = _flow_value(text[match.end() :], number, closing)
            found.put(key, value, number)
        else:
            value, text = _flow_value(text, number, closing)
            items.append(value)
        text = text.strip()
        if text.startswith(","):
            text = text[1:]
        elif not text.startswith(closing):
            raise YamlError("line %d: %s" % (number, text[:40]))


def _scalar(text: str, number: int, key: bool = False) -> Any:
    if text[:1] == '"' and text[-1:] == '"' and len(text) > 1:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    if text[:1] == "'" and text[-1:] == "'" and len(text) > 1:
        return text[1:-1].replace("''", "'")
    if _UNKNOWN.match(text):
        raise YamlError("line %d: %s" % (number, text[:40]))
    if key:
        return text
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    return int(text) if re.match(r"-?(0|[1-9]\d*)\Z", text) else text
