# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a BMC to the document that decisions are made of: state["bmc"]."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from . import jobs
from .client import Answer, Bmc, etag_of, link
from .errors import BmcError, messages

SYSTEMS = "/redfish/v1/Systems"
SECRET = re.compile(r"(?i)passw|passphrase|secret|private_?key|hddpwd")
HIDDEN = "***"


def empty(uri: str, error: str = "") -> dict[str, Any]:
    """The document of a BMC of which nothing is known."""
    return {
        "uri": uri, "error": error, "manufacturer": "", "model": "", "bios_version": "", "bmc_version": "", "bmc_model": "",
        "power_state": "", "health": "", "system": "", "reset_types": [],
        "boot": {"override": "", "enabled": "", "allowed": []}, "secure_boot": None,
        "bios": {
            "path": "", "settings_path": "", "registry": "", "current": {}, "settings": {}, "settings_etag": "",
            "apply_times": [], "messages": [], "clear_action": "", "jobs": [], "jobs_path": "",
        },
        "registry": None,
    }  # fmt: skip


def find_system(bmc: Bmc) -> dict[str, Any]:
    """The computer system that has a BIOS; of several (HGX baseboards stand beside hosts) the first such."""
    collection = bmc.get(link(bmc.root, "Systems") or SYSTEMS)
    paths = [m["@odata.id"] for m in collection.get("Members") or () if isinstance(m, Mapping) and "@odata.id" in m]
    if not paths:
        raise BmcError("answer", f"{bmc.uri} lists no computer system")
    first: dict[str, Any] = {}
    for path in sorted(paths, key=lambda p: "HGX" in p or "Baseboard" in p)[:8]:
        system = bmc.get(path)
        system.setdefault("@odata.id", path)
        if link(system, "Bios"):
            return system
        first = first or system
    return first


def describe(document: dict[str, Any], system: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in what the system's resource says."""
    boot = system.get("Boot") or {}
    reset = _reset(system)
    document.update(
        manufacturer=_text(system, "Manufacturer"), model=_text(system, "Model"), bios_version=_text(system, "BiosVersion"),
        power_state=_text(system, "PowerState"), health=_text(system.get("Status") or {}, "Health"),
        system=_text(system, "@odata.id"), reset_types=[str(t) for t in reset.get("ResetType@Redfish.AllowableValues") or ()],
        boot={
            "override": _text(boot, "BootSourceOverrideTarget"), "enabled": _text(boot, "BootSourceOverrideEnabled"),
            "allowed": [str(t) for t in boot.get("BootSourceOverrideTarget@Redfish.AllowableValues") or ()],
        },
    )  # fmt: skip
    return document


def _reset(system: Mapping[str, Any]) -> Mapping[str, Any]:
    found = (system.get("Actions") or {}).get("#ComputerSystem.Reset")
    return found if isinstance(found, Mapping) else {}


def read(bmc: Bmc, secure_boot: bool = False) -> dict[str, Any]:
    """The document, without registry. secure_boot: read it, too, which is one request more. Raises BmcError."""
    system = find_system(bmc)
    document = describe(empty(bmc.uri), system)
    bios = link(system, "Bios")
    if not bios:
        raise BmcError("no_bios", f"{bmc.uri} ({_name(document)}) offers no BIOS settings over Redfish")
    read_bios(bmc, document, bios)
    if secure_boot and link(system, "SecureBoot"):
        found = bmc.get(link(system, "SecureBoot")).get("SecureBootEnable")
        document["secure_boot"] = found if isinstance(found, bool) else None
    return document


def read_bios(bmc: Bmc, document: dict[str, Any], path: str) -> None:
    """Fill in current and pending values, and unfinished jobs."""
    try:
        current = bmc.get(path)
    except BmcError as err:
        if err.kind != "not_found":
            raise
        raise BmcError("no_bios", f"{bmc.uri} ({_name(document)}) has no BIOS resource at {path}", err.status) from err
    if not isinstance(current.get("Attributes"), Mapping):
        raise BmcError("no_bios", f"{bmc.uri} ({_name(document)}): {path} has no attributes")
    about = current.get("@Redfish.Settings")
    about = about if isinstance(about, Mapping) else {}
    pending = settings(bmc, path, link(about, "SettingsObject"))
    body = pending.body or {}
    document["bios"] = {
        "path": path, "settings_path": body.get("@odata.id") or link(about, "SettingsObject"),
        "registry": _text(current, "AttributeRegistry"), "current": hidden(current["Attributes"]),
        "settings": hidden(body.get("Attributes") or {}), "settings_etag": etag_of(pending),
        "apply_times": [str(t) for t in about.get("SupportedApplyTimes") or ()],
        "messages": messages(about.get("Messages") or ()), "clear_action": clear_action(current, body), "jobs": [],
        "jobs_path": jobs.queue(body) if is_dell(document) else "",
    }  # fmt: skip
    if is_dell(document):
        document["bios"]["jobs"] = jobs.unfinished(bmc, document["bios"]["jobs_path"])


def settings(bmc: Bmc, path: str, named: str) -> Answer:
    """The resource with pending values: the one that is named, else the usual one; without either there is none pending."""
    where = named or path.rstrip("/") + "/Settings"
    try:
        answer = bmc.fetch("GET", where)
    except BmcError as err:
        if err.kind != "not_found" or named:
            raise
        return Answer(404, {}, {"@odata.id": path})
    if answer.body is not None:
        answer.body["@odata.id"] = where
    return answer


def clear_action(current: Mapping[str, Any], pending: Mapping[str, Any]) -> str:
    """Where to POST to drop pending values; "" where the BMC has nothing for it."""
    for resource in (pending, current):
        actions = resource.get("Actions") or {}
        oem = actions.get("Oem") if isinstance(actions.get("Oem"), Mapping) else {}
        for name, action in (*actions.items(), *(oem or {}).items()):
            if "ClearPending" in name and isinstance(action, Mapping) and action.get("target"):
                return str(action["target"])
    return ""


def hidden(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes with the values of passwords masked: they are neither shown nor compared."""
    return {k: HIDDEN if v and isinstance(v, str) and SECRET.search(k) else v for k, v in attributes.items()}


def is_dell(document: Mapping[str, Any]) -> bool:
    """Whether BIOS values go through a job."""
    return "dell" in document["manufacturer"].lower()


def read_manager(bmc: Bmc, document: dict[str, Any], system: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the BMC's own model and firmware version; returns its resource."""
    managers = (system.get("Links") or {}).get("ManagedBy") or ()
    path = link({"m": managers[0]}, "m") if managers else ""
    if not path:
        return {}
    manager = bmc.get(path)
    document.update(bmc_version=_text(manager, "FirmwareVersion"), bmc_model=_text(manager, "Model"))
    return manager


def _name(document: Mapping[str, Any]) -> str:
    return f"{document['manufacturer']} {document['model']}".strip() or "maker unknown"


def _text(resource: Mapping[str, Any], name: str) -> str:
    value = resource.get(name)
    return value.strip() if isinstance(value, str) else ""
