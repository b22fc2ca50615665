# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a BMC could not be read or set, on one line, and what its error bodies say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

LONGEST = 600


class BmcError(Exception):
    """One line for an operator.

    kind: "options", "missing" (sushy), "unreachable", "certificate", "credentials", "redirect", "refused" (the BMC
    says why), "not_found", "busy", "no_bios", "job", "answer" (what came is no Redfish). status: of HTTP, or 0.
    """

    def __init__(self, kind: str, message: str, status: int = 0) -> None:
        line = " ".join(message.split())
        super().__init__(line if len(line) <= LONGEST else line[: LONGEST - 3] + "...")
        self.kind = kind
        self.status = status


def said(body: Any) -> str:
    """The messages of an error body (@Message.ExtendedInfo) as text; "" where there is none."""
    if not isinstance(body, Mapping):
        return ""
    error = body.get("error")
    error = error if isinstance(error, Mapping) else body
    found = error.get("@Message.ExtendedInfo")
    lines = messages(found if isinstance(found, list) else [found] if isinstance(found, Mapping) else [])
    if not lines and error.get("message"):
        lines = [str(error["message"])]
    return "; ".join(dict.fromkeys(lines))


def messages(found: Iterable[Any]) -> list[str]:
    """One line for each message: its text with the arguments in it, or its id and arguments; successes left out."""
    lines = []
    for message in found:
        if not isinstance(message, Mapping):
            continue
        name = str(message.get("MessageId") or "").rpartition(".")[2]
        if name in ("Success", "NoOperation"):
            continue
        args = [str(a) for a in message.get("MessageArgs") or ()]
        text = str(message.get("Message") or "")
        for number, value in enumerate(args, 1):
            text = text.replace(f"%{number}", value)
        line = text or (f"{name}({', '.join(args)})" if args else name)
        related = [str(r).rpartition("/")[2] for r in message.get("RelatedProperties") or () if r]
        missing = [r for r in related if r and r not in line]
        if missing:
            line = f"{', '.join(missing)}: {line}"
        if line:
            lines.append(line.rstrip("."))
    return lines


def blamed(text: str, attributes: Mapping[str, Any], registry: Mapping[str, Any] | None) -> str:
    """Which of the attributes that were sent a refusal names, with value and allowed values; all where it names none."""
    named = [name for name in attributes if name in text] or list(attributes)
    parts = []
    for name in named[:8]:
        entry = (registry or {}).get(name) or {}
        allowed = ", ".join(str(v) for v in entry.get("values") or ())
        if not allowed and entry.get("max") is not None:
            allowed = f"{entry.get('min')} to {entry['max']}"
        parts.append(f"{name}={attributes[name]!r}" + (f" (allowed: {allowed})" if allowed else ""))
    return ", ".join(parts) + (f" and {len(named) - 8} more" if len(named) > 8 else "")
