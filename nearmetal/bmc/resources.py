"""The resources of one machine: captured documents as they are, the rest made up from the model.

`resource(machine, path)` gives what a GET answers; None where there is no such resource. Properties and types follow
DSP0266 (Redfish) and DSP0268 (schemas).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from .machine import Job, Machine

ROOT = "/redfish/v1"
PARTS = ("Systems", "Managers", "Chassis", "SessionService", "AccountService", "Registries", "UpdateService")
BOOT_TARGETS = ("None", "Pxe", "Hdd", "Cd", "BiosSetup", "UefiHttp")
Document = dict[str, Any]
DELL = "#DellManager.v1_2_0.DellManager"
IDENTITY = uuid.UUID("8f6e2f3a-4f0c-4c1e-9d8c-7d3c6a1e0001")


def resource(machine: Machine, path: str) -> Document | None:
    """The document at a path, without its slash at the end."""
    plain = machine.traits.plain
    for known, make in _table(machine).items():
        if plain(known) == plain(path):
            return make(machine, known)
    return _captured(machine, path) or None


def types(machine: Machine) -> list[str]:
    """Types of all resources that the model makes up, without the vendor's own."""
    made = [make(machine, path) for path, make in _table(machine).items()]
    return sorted({str(d["@odata.type"]) for d in made if "@odata.type" in d and "#Dell" not in str(d["@odata.type"])})


def actions(machine: Machine) -> dict[str, str]:
    """Targets of the actions that are carried out, with what each does: "reset", "defaults" or "clear"."""
    found = {f"{system_path(machine)}/Actions/ComputerSystem.Reset": "reset"}
    bios = _bios(machine, machine.bios_path.rstrip("/")).get("Actions") or {}
    if target := (bios.get("#Bios.ResetBios") or {}).get("target"):
        found[str(target)] = "defaults"
    if machine.traits.jobs:
        found[f"{machine.settings_path.rstrip('/')}/Actions/Oem/DellManager.ClearPending"] = "clear"
    return found


def _captured(machine: Machine, path: str) -> Document:
    return machine.traits.find(machine.documents, path)


def etag(machine: Machine) -> str:
    """Of everything that may change."""
    return f'"{machine.version:08x}"'


def system_path(machine: Machine) -> str:
    """Where the computer system is: above its BIOS."""
    return machine.bios_path.rstrip("/").rpartition("/")[0]


def manager_path(machine: Machine) -> str:
    """Where the BMC itself is."""
    return f"{ROOT}/Managers/{machine.traits.manager}"


def registry_path(machine: Machine) -> str:
    """Where the attribute registry is; "" where the machine has none."""
    return f"{ROOT}/Registries/{machine.traits.registry}/Registry.json" if machine.registry is not None else ""


def job_paths(machine: Machine) -> tuple[str, ...]:
    """The collections of jobs: Dell has an old and a new one."""
    top = manager_path(machine)
    return (f"{top}/Oem/Dell/Jobs", f"{top}/Jobs") if machine.traits.jobs else ()


def _table(machine: Machine) -> dict[str, Callable[[Machine, str], Document]]:
    system, manager = system_path(machine), manager_path(machine)
    table: dict[str, Callable[[Machine, str], Document]] = {
        "/redfish": lambda _m, _p: {"v1": f"{ROOT}/"},
        ROOT: _root,
        f"{ROOT}/Systems": lambda _m, p: collection(p, "ComputerSystem", "Computer systems", [system]),
        f"{ROOT}/Managers": lambda _m, p: collection(p, "Manager", "Managers", [manager]),
        f"{ROOT}/Chassis": lambda _m, p: collection(p, "Chassis", "Chassis", [f"{ROOT}/Chassis/1"]),
        f"{ROOT}/Chassis/1": _chassis,
        f"{ROOT}/Chassis/1/NetworkAdapters": lambda _m, p: collection(p, "NetworkAdapter", "Network adapters", [f"{p}/NIC1"]),
        f"{ROOT}/Chassis/1/NetworkAdapters/NIC1": _nic,
        f"{ROOT}/UpdateService": _update_service,
        f"{ROOT}/UpdateService/FirmwareInventory": lambda _m, p: collection(
            p, "SoftwareInventory", "Firmware", [f"{p}/BIOS", f"{p}/BMC"]),
        f"{ROOT}/UpdateService/FirmwareInventory/BIOS": lambda m, p: _software(p, "BIOS", "2.1.5"),
        f"{ROOT}/UpdateService/FirmwareInventory/BMC": lambda m, p: _software(p, "BMC", "7.10.30"),
        f"{ROOT}/SessionService": _session_service,
        f"{ROOT}/Registries": _registries,
        system: _system,
        f"{system}/SecureBoot": _secure_boot,
        manager: _manager,
        machine.bios_path.rstrip("/"): _bios,
        machine.settings_path.rstrip("/"): _settings,
    }  # fmt: skip
    if machine.registry is not None:
        table[f"{ROOT}/Registries/{machine.traits.registry}"] = _registry_file
        table[registry_path(machine)] = _registry
    machine.unfinished()  # those whose time has come have run
    for jobs in job_paths(machine):
        table[jobs] = lambda m, p: collection(p, "DellJob", "Jobs", [f"{p}/{j.id}" for j in m.jobs], [
            job_document(j, f"{p}/{j.id}") for j in m.jobs])  # fmt: skip
        for job in machine.jobs:
            table[f"{jobs}/{job.id}"] = lambda _m, p, job=job: job_document(job, p)  # type: ignore[misc]
    return table


def collection(path: str, kind: str, name: str, members: list[str], whole: list[Document] | None = None) -> Document:
    """A collection; whole: the members themselves instead of links to them."""
    return {
        "@odata.id": path, "@odata.type": f"#{kind}Collection.{kind}Collection", "Name": name,
        "Members@odata.count": len(members), "Members": whole or [{"@odata.id": m} for m in members],
    }  # fmt: skip


def _root(machine: Machine, _path: str) -> Document:
    links = {name: {"@odata.id": f"{ROOT}/{name}"} for name in PARTS}
    return {
        "@odata.id": f"{ROOT}/", "@odata.type": "#ServiceRoot.v1_9_0.ServiceRoot", "Id": "RootService", "Name": "Root Service",
        "RedfishVersion": "1.11.0", "UUID": str(IDENTITY), "Vendor": machine.traits.manufacturer or "Unknown", **links,
        "Links": {"Sessions": {"@odata.id": f"{ROOT}/SessionService/Sessions"}},
    }  # fmt: skip


def _system(machine: Machine, path: str) -> Document:
    captured = _captured(machine, path)
    traits, boot = machine.traits, machine.boot
    return {
        "@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem", "Id": path.rpartition("/")[2], "Name": "System",
        "SystemType": "Physical", "Manufacturer": traits.manufacturer, "Model": traits.model, "BiosVersion": "2.1.5",
        "Status": {"State": "Enabled", "Health": "OK", "HealthRollup": "OK"}, **captured, "@odata.id": path,
        "PowerState": machine.power.state(),
        "Boot": {
            "BootSourceOverrideEnabled": boot["enabled"], "BootSourceOverrideTarget": boot["target"],
            "BootSourceOverrideTarget@Redfish.AllowableValues": list(BOOT_TARGETS),
        },
        "Bios": {"@odata.id": machine.bios_path}, "SecureBoot": {"@odata.id": f"{path}/SecureBoot"},
        "Links": {"ManagedBy": [{"@odata.id": manager_path(machine)}], "Chassis": [{"@odata.id": f"{ROOT}/Chassis/1"}]},
        "Actions": {"#ComputerSystem.Reset": {
            "target": f"{path}/Actions/ComputerSystem.Reset", "ResetType@Redfish.AllowableValues": list(traits.reset_types),
        }},
    }  # fmt: skip


def _secure_boot(machine: Machine, path: str) -> Document:
    on = next((v for k, v in machine.shown().items() if k.startswith("SecureBoot") and v in (True, "Enabled")), False)
    return {
        "@odata.id": path, "@odata.type": "#SecureBoot.v1_1_0.SecureBoot", "Id": "SecureBoot", "Name": "Secure Boot",
        "SecureBootEnable": bool(on), "SecureBootCurrentBoot": "Enabled" if on else "Disabled", "SecureBootMode": "UserMode",
    }  # fmt: skip


def _manager(machine: Machine, path: str) -> Document:
    links: Document = {"ManagerForServers": [{"@odata.id": system_path(machine)}]}
    more: Document = {}
    if machine.traits.jobs:
        links["Oem"] = {"Dell": {"Jobs": {"@odata.id": f"{path}/Jobs"}}}
        more["Oem"] = {"Dell": {"@odata.type": DELL, "Jobs": {"@odata.id": f"{path}/Oem/Dell/Jobs"}}}
    return {
        "@odata.id": path, "@odata.type": "#Manager.v1_10_0.Manager", "Id": machine.traits.manager, "Name": "Manager",
        "ManagerType": "BMC", "Model": machine.traits.bmc, "FirmwareVersion": "7.10.30", "PowerState": "On",
        "Status": {"State": "Enabled", "Health": "OK"},
        "Links": links, **more,
    }  # fmt: skip


def _chassis(machine: Machine, path: str) -> Document:
    return {
        "@odata.id": path, "@odata.type": "#Chassis.v1_14_0.Chassis", "Id": "1", "Name": "Chassis", "ChassisType": "RackMount",
        "Status": {"State": "Enabled", "Health": "OK"}, "NetworkAdapters": {"@odata.id": f"{path}/NetworkAdapters"},
        "Links": {"ComputerSystems": [{"@odata.id": system_path(machine)}]},
    }  # fmt: skip


def _nic(_machine: Machine, path: str) -> Document:
    return {
        "@odata.id": path, "@odata.type": "#NetworkAdapter.v1_5_0.NetworkAdapter", "Id": "NIC1", "Name": "Network adapter",
        "Manufacturer": "Mellanox Technologies", "Model": "ConnectX-7", "Status": {"State": "Enabled", "Health": "OK"},
        "Controllers": [{"FirmwarePackageVersion": "28.39.1002"}],
    }  # fmt: skip


def _update_service(_machine: Machine, path: str) -> Document:
    return {
        "@odata.id": path, "@odata.type": "#UpdateService.v1_8_0.UpdateService", "Id": "UpdateService", "Name": "Update service",
        "ServiceEnabled": True, "FirmwareInventory": {"@odata.id": f"{path}/FirmwareInventory"},
    }  # fmt: skip


def _software(path: str, name: str, version: str) -> Document:
    return {
        "@odata.id": path, "@odata.type": "#SoftwareInventory.v1_2_3.SoftwareInventory", "Id": name, "Name": name,
        "Version": version, "Updateable": True, "Status": {"State": "Enabled", "Health": "OK"},
    }  # fmt: skip


def _session_service(_machine: Machine, path: str) -> Document:
    return {
        "@odata.id": path, "@odata.type": "#SessionService.v1_1_7.SessionService", "Id": "SessionService",
        "Name": "Session service", "ServiceEnabled": True, "SessionTimeout": 1800, "Sessions": {"@odata.id": f"{path}/Sessions"},
    }  # fmt: skip


def _bios(machine: Machine, path: str) -> Document:
    captured = dict(_captured(machine, path))
    settings = {
        "@odata.type": "#Settings.v1_3_3.Settings", "Messages": [], **(captured.pop("@Redfish.Settings", None) or {}),
        "SettingsObject": {"@odata.id": machine.settings_path},
    }  # fmt: skip
    if machine.traits.apply_times:
        settings.setdefault("SupportedApplyTimes", list(machine.traits.apply_times))
    made = {
        "@odata.type": "#Bios.v1_2_0.Bios", "Id": "Bios", "Name": "BIOS configuration, current",
        "Actions": {"#Bios.ResetBios": {"target": f"{path}/Actions/Bios.ResetBios"}}, **captured,
        "@odata.id": machine.bios_path, "@odata.etag": etag(machine), "@Redfish.Settings": settings, "Attributes": machine.shown(),
    }  # fmt: skip
    if machine.registry is not None:
        made.setdefault("AttributeRegistry", machine.traits.registry)
    return made


def _settings(machine: Machine, path: str) -> Document:
    captured = _captured(machine, path)
    made: Document = {
        "@odata.type": "#Bios.v1_2_0.Bios", "Id": path.rpartition("/")[2], "Name": "BIOS configuration, pending", **captured,
        "@odata.id": machine.settings_path, "@odata.etag": etag(machine), "Attributes": machine.pending(),
    }  # fmt: skip
    if machine.traits.jobs:
        made.setdefault("Actions", {"Oem": {"#DellManager.ClearPending": {
            "target": f"{path}/Actions/Oem/DellManager.ClearPending"}}})  # fmt: skip
        made.setdefault("Oem", {"Dell": {"@odata.type": DELL, "Jobs": {"@odata.id": job_paths(machine)[0]}}})
    if machine.registry is not None:
        made.setdefault("AttributeRegistry", machine.traits.registry)
    return made


def _registries(machine: Machine, path: str) -> Document:
    members = [f"{path}/{machine.traits.registry}"] if machine.registry is not None else []
    return collection(path, "MessageRegistryFile", "Registries", members)


def _registry_file(machine: Machine, path: str) -> Document:
    return {
        "@odata.id": path, "@odata.type": "#MessageRegistryFile.v1_1_3.MessageRegistryFile", "Id": machine.traits.registry,
        "Name": "BIOS attribute registry", "Registry": machine.traits.registry, "Languages": ["en"],
        "Location": [{"Language": "en", "Uri": registry_path(machine)}],
    }  # fmt: skip


def _registry(machine: Machine, path: str) -> Document:
    return {
        "@odata.id": path, "@odata.type": "#AttributeRegistry.v1_3_4.AttributeRegistry", "Id": machine.traits.registry,
        "Name": "BIOS attribute registry", "Language": "en", "OwningEntity": machine.traits.manufacturer or "Unknown",
        "RegistryVersion": "1.0.0", "RegistryEntries": machine.registry,
    }  # fmt: skip


def job_document(job: Job, path: str) -> Document:
    """A job, as Dell shows it."""
    return {
        "@odata.id": path, "@odata.type": "#DellJob.v1_1_0.DellJob", "Id": job.id, "Name": "ConfigBIOS:BIOS.Setup.1-1",
        "JobType": "BIOSConfiguration", "JobState": job.state, "PercentComplete": 100 if job.state == "Completed" else 0,
        "Message": "Job completed successfully." if job.state == "Completed" else "Task successfully scheduled.",
    }  # fmt: skip
