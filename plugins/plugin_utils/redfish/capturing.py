# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources of a BMC as they are, for a capture: system, BIOS in force and pending, registry."""

from __future__ import annotations

from typing import Any

from . import registry
from .client import Bmc, link
from .errors import BmcError
from .reading import find_system, hidden, settings

DROPPED = ("Oem", "Links", "Actions")
"""Of the system: they say much of the machine, and nothing of its BIOS."""


def documents(bmc: Bmc) -> dict[str, dict[str, Any]]:
    """Resources by path; passwords masked. Raises BmcError."""
    system = find_system(bmc)
    path = link(system, "Bios")
    if not path:
        raise BmcError("no_bios", f"{bmc.uri} offers no BIOS settings over Redfish")
    bios = bmc.get(path)
    pending = settings(bmc, path, link(bios.get("@Redfish.Settings") or {}, "SettingsObject")).body or {}
    found = {str(system["@odata.id"]): {k: v for k, v in system.items() if k not in DROPPED}, path: bios}
    if pending.get("@odata.id") not in (None, path):
        found[str(pending["@odata.id"])] = pending
    where, file = registry.file(bmc, str(bios.get("AttributeRegistry") or ""))
    if file:
        found[where] = file
    for place, document in found.items():
        document["@odata.id"] = place
        if isinstance(document.get("Attributes"), dict):
            document["Attributes"] = hidden(document["Attributes"])
    return found
