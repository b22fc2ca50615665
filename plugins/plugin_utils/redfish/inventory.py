# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a BMC knows of its host beside the BIOS settings. Parts that a BMC does not have are left empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .client import Bmc, link
from .errors import BmcError
from .reading import describe, empty, find_system, read_manager

ADAPTERS = 16
"""Network adapters that are looked at."""


def information(bmc: Bmc) -> dict[str, Any]:
    """The result of bmc_info. Raises BmcError."""
    system = find_system(bmc)
    document = describe(empty(bmc.uri), system)
    manager = read_manager(bmc, document, system)
    secure = _optional(bmc, link(system, "SecureBoot")).get("SecureBootEnable")
    for name in ("bios", "registry", "error"):
        document.pop(name)
    return {
        **document, "secure_boot": secure if isinstance(secure, bool) else None,
        "bmc_health": str((manager.get("Status") or {}).get("Health") or ""), "nics": _nics(bmc, system),
    }  # fmt: skip


def _nics(bmc: Bmc, system: Mapping[str, Any]) -> list[dict[str, str]]:
    """Network adapters of the system's chassis with the versions of their firmware."""
    chassis = (system.get("Links") or {}).get("Chassis") or ()
    found: list[dict[str, str]] = []
    for one in chassis[:4]:
        collection = _optional(bmc, link(_optional(bmc, str(one.get("@odata.id") or "")), "NetworkAdapters"))
        for member in (collection.get("Members") or ())[: ADAPTERS - len(found)]:
            adapter = _optional(bmc, str(member.get("@odata.id") or ""))
            versions = [str(c["FirmwarePackageVersion"]) for c in adapter.get("Controllers") or () if c.get("FirmwarePackageVersion")]
            found.append({
                "id": str(adapter.get("Id") or ""), "manufacturer": str(adapter.get("Manufacturer") or ""),
                "model": str(adapter.get("Model") or adapter.get("Name") or ""), "firmware": versions[0] if versions else "",
            })  # fmt: skip
    return found


def _optional(bmc: Bmc, path: str) -> dict[str, Any]:
    """A resource that a BMC need not have; {} where it has none."""
    if not path:
        return {}
    try:
        return bmc.get(path)
    except BmcError as err:
        if err.kind in ("not_found", "refused", "answer"):
            return {}
        raise
