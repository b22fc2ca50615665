"""A machine from captured JSON: files PLATFORM-WHATEVER.json of one folder, each served at its @odata.id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import BAD_INTENT, NearmetalError
from .machine import Machine
from .traits import TRAITS, Traits, vendor_of


def load(folder: Path, platform: str) -> Machine:
    """The machine of a platform's files. Raises NearmetalError where they are no captured BIOS."""
    documents = _documents(folder, platform)
    bios_path, bios = _bios(documents, folder, platform)
    asked = ((bios.get("@Redfish.Settings") or {}).get("SettingsObject") or {}).get("@odata.id", "")
    vendor = vendor_of(platform, bios_path, asked)
    settings_path = asked or f"{bios_path.rstrip('/')}/{TRAITS[vendor].settings}"
    settings = TRAITS[vendor].find(documents, settings_path)
    registry = next((d["RegistryEntries"] for d in documents.values() if d.get("RegistryEntries")), None)
    traits = _traits(vendor, documents, bios_path, bios, registry is not None)
    current, pending = dict(bios["Attributes"]), settings.get("Attributes") or {}
    waiting = {k: v for k, v in pending.items() if k in current and current[k] != v}
    return Machine(vendor, traits, bios_path, settings_path, current, waiting, registry, documents)


def platforms(folder: Path) -> list[str]:
    """Names for which there is a BIOS in a folder."""
    names = {p.name.partition("-Systems_")[0] for p in folder.glob("*-Systems_*.json")}
    return sorted(names | {p.name.removesuffix("-bios.json") for p in folder.glob("*-bios.json")})


def _documents(folder: Path, platform: str) -> dict[str, dict[str, Any]]:
    if not folder.is_dir():
        raise NearmetalError(f"--from {folder}: no such folder", BAD_INTENT)
    found = {}
    longer = tuple(f"{p}-" for p in platforms(folder) if p.startswith(f"{platform}-"))
    for path in sorted(p for p in folder.glob(f"{platform}-*.json") if not p.name.startswith(longer)):
        try:
            document = json.loads(path.read_text())
        except (OSError, ValueError) as err:
            raise NearmetalError(f"{path} is no JSON: {err}", BAD_INTENT) from None
        if isinstance(document, dict) and isinstance(document.get("@odata.id"), str):
            found[document["@odata.id"]] = document
    if not found:
        known = ", ".join(platforms(folder)) or "none"
        raise NearmetalError(
            f"--platform {platform}: {folder} has no file {platform}-*.json with an @odata.id; platforms there: {known}", BAD_INTENT
        )
    return found


def _bios(documents: dict[str, dict[str, Any]], folder: Path, platform: str) -> tuple[str, dict[str, Any]]:
    """The current BIOS resource: the one that names a settings object, else the one with the shortest path."""
    all_of = {p: d for p, d in documents.items() if ".Bios" in str(d.get("@odata.type")) and isinstance(d.get("Attributes"), dict)}
    chosen = [p for p, d in all_of.items() if "@Redfish.Settings" in d] or sorted(all_of, key=len)
    if not chosen:
        raise NearmetalError(f"none of the files {platform}-*.json in {folder} is a BIOS resource with Attributes", BAD_INTENT)
    return chosen[0], all_of[chosen[0]]


def _traits(
    vendor: str, documents: dict[str, dict[str, Any]], bios_path: str, bios: dict[str, Any], registry: bool
) -> Traits:
    """The vendor's, with the names and apply times that the capture has."""
    base = TRAITS[vendor]
    settings = bios.get("@Redfish.Settings") or {}
    system = bios_path.rstrip("/").rpartition("/")[0]
    known = base.find(documents, system)
    return Traits(
        known.get("Manufacturer") or base.manufacturer, known.get("Model") or base.model, system.rpartition("/")[2], base.manager,
        base.settings, str(bios.get("AttributeRegistry") or (base.registry if registry else "")), base.repeats_all,
        base.needs_if_match, base.jobs, base.shows_new_early, tuple(settings.get("SupportedApplyTimes") or base.apply_times),
        base.any_case, base.reset_types, base.bmc,
    )  # fmt: skip
