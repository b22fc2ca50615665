# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The BIOS attribute registry: found, read and shortened once for all BMCs that have the same one."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Mapping
from typing import Any

from .client import Bmc
from .errors import BmcError

REGISTRIES = "/redfish/v1/Registries"
Registry = dict[str, Any]
DEPENDENCIES = "@dependencies"


class Registries:
    """Registries by what makes them equal. Safe to use from many threads: one reads, the others wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self.known: dict[str, Registry | None] = {}

    @staticmethod
    def key(document: Mapping[str, Any]) -> str:
        """Vendor, model, BIOS version and registry; the same file name means other contents on another BIOS."""
        return "|".join((document["manufacturer"], document["model"], document["bios_version"], document["bios"]["registry"]))

    def of(self, bmc: Bmc, document: Mapping[str, Any]) -> Registry | None:
        """The registry of a BMC; None where it offers none. Raises BmcError."""
        key = self.key(document)
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self.known:
                self.known[key] = fetch(bmc, document["bios"]["registry"])
            return self.known[key]


def fetch(bmc: Bmc, name: str) -> Registry | None:
    """Read it; None where the BMC names none or does not have what it names (GB200)."""
    entries = file(bmc, name)[1].get("RegistryEntries")
    return condense(entries) if isinstance(entries, Mapping) else None


def file(bmc: Bmc, name: str) -> tuple[str, dict[str, Any]]:
    """The path of the file that a name stands for, and its contents; ("", {}) where there is none. Raises BmcError."""
    try:
        where = _location(bmc, name) if name else ""
        return (where, bmc.get(where)) if where else ("", {})
    except BmcError as err:
        if err.kind == "answer":
            return f"{REGISTRIES}/{name}.json", _compressed(bmc)
        if err.kind == "not_found":
            return "", {}
        raise


def _location(bmc: Bmc, name: str) -> str:
    """The path of the file that a name stands for; "" where there is none."""
    try:
        found = bmc.get(f"{REGISTRIES}/{name}")
    except BmcError as err:
        if err.kind != "not_found":
            raise
        members = [str(m.get("@odata.id")) for m in bmc.get(REGISTRIES).get("Members") or () if isinstance(m, Mapping)]
        match = [p for p in members if _same(p.rstrip("/").rpartition("/")[2], name)]
        if not match:
            return ""
        found = bmc.get(match[0])
    if "RegistryEntries" in found:
        return f"{REGISTRIES}/{name}"
    places = [p for p in found.get("Location") or () if isinstance(p, Mapping)]
    places.sort(key=lambda p: not str(p.get("Language") or "en").lower().startswith("en"))
    for place in places:
        where = place.get("Uri")
        where = where.get("extref") if isinstance(where, Mapping) else where
        if isinstance(where, str) and where.startswith("/"):
            return where
    return ""


def _same(member: str, name: str) -> bool:
    member, name = member.lower().removesuffix(".json"), name.lower().removesuffix(".json")
    return member == name or member.startswith(name + ".") or name.startswith(member + ".")


def _compressed(bmc: Bmc) -> dict[str, Any]:
    """HPE sends the file compressed without saying so."""
    last = bmc.last()
    try:
        found = json.loads(gzip.decompress(last))
    except (OSError, EOFError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def condense(entries: Mapping[str, Any]) -> Registry:
    """What decisions need of a registry's entries."""
    found: Registry = {}
    for entry in entries.get("Attributes") or ():
        if not isinstance(entry, Mapping) or not entry.get("AttributeName"):
            continue
        values = [v for v in entry.get("Value") or () if isinstance(v, Mapping) and "ValueName" in v]
        found[str(entry["AttributeName"])] = {
            "type": str(entry.get("Type") or ""), "values": [v["ValueName"] for v in values],
            "display": {str(v["ValueName"]): str(v.get("ValueDisplayName") or "") for v in values},
            "min": entry.get("LowerBound"), "max": entry.get("UpperBound"),
            "read_only": bool(entry.get("ReadOnly") or entry.get("Immutable")), "hidden": bool(entry.get("Hidden")),
            "default": entry.get("DefaultValue"), "text": str(entry.get("DisplayName") or ""),
        }  # fmt: skip
    found[DEPENDENCIES] = [d for d in entries.get("Dependencies") or () if isinstance(d, Mapping)]
    return found
