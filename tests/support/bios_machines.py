"""What reads of BMCs give: small made-up machines of each vendor, and captured ones, for tests of BIOS settings.

`bmc(vendor)` is a machine with its registry (where the vendor has one), `captured(folder, vendor)` a captured one.
`submitted` and `booted` do to it what a BMC does after a PATCH and at the next start.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Doc = dict[str, Any]

MAKERS = {
    "dell": ("Dell Inc.", "PowerEdge R750"), "dell_amd": ("Dell Inc.", "PowerEdge R6615"),
    "hpe": ("HPE", "ProLiant DL380 Gen11"), "hpe_amd": ("HPE", "ProLiant DL325 Gen10 Plus"),
    "lenovo": ("Lenovo", "ThinkSystem SR650 V2"), "lenovo_amd": ("Lenovo", "ThinkSystem SR635 V3"),
    "supermicro": ("Supermicro", "SYS-621"), "supermicro_amd": ("Supermicro", "AS -1115CS-TNR"),
    "nvidia_dgx": ("NVIDIA", "DGX H100"), "nvidia_grace": ("NVIDIA", "GB200 NVL"), "bluefield": ("NVIDIA", "BlueField-3"),
}  # fmt: skip

E, D = "Enabled", "Disabled"
ATTRIBUTES: dict[str, Doc] = {
    "dell": {
        "LogicalProc": E, "ProcVirtualization": E, "SriovGlobalEnable": D, "MmioAbove4Gb": E, "SubNumaCluster": D,
        "SysProfile": "PerfPerWattOptimizedDapc", "ProcCStates": E, "ProcC1E": E, "ProcTurboMode": E,
        "ProcPwrPerf": "SysDbpm", "EnergyPerformanceBias": "BalancedPerformance", "NodeInterleave": D, "BootMode": "Uefi",
        "ProcHwPrefetcher": E, "ProcAdjCacheLine": E, "SecureBoot": D, "OsWatchdogTimer": D, "SystemServiceTag": "F54P1G3",
        "AcPwrRcvryUserDelay": 120, "SetupPassword": None,
    },
    "dell_amd": {
        "LogicalProc": E, "ProcVirtualization": E, "IommuSupport": D, "NumaNodesPerSocket": "1", "CcxAsNumaDomain": D,
        "SysProfile": "Custom", "ProcCStates": E, "L1StreamHwPrefetcher": E, "L2StreamHwPrefetcher": E,
    },
    "hpe": {
        "ProcHyperthreading": E, "ProcVirtualization": E, "IntelProcVtd": D, "Sriov": E, "SubNumaClustering": D,
        "MinProcIdlePower": "C6", "MinProcIdlePkgState": "C6Retention", "PowerRegulator": "DynamicPowerSavings",
        "EnergyPerfBias": "BalancedPerf", "ProcTurbo": E, "HwPrefetcher": E, "NodeInterleaving": D, "BootMode": "Uefi",
        "WorkloadProfile": "GeneralPowerEfficientCompute", "SecureBootStatus": D, "RestoreManufacturingDefaults": "No",
        "ServerConfigLockStatus": D,
    },
    "hpe_amd": {
        "ProcSMT": E, "ProcAmdIoVt": D, "Sriov": E, "AccessControlService": E, "NumaMemoryDomainsPerSocket": "Auto",
        "LastLevelCacheAsNUMANode": D, "MinProcIdlePower": "C6", "PowerRegulator": "OsControl", "ProcAMDBoost": E,
        "AmdL1Prefetcher": E, "WorkloadProfile": "Custom", "ServerConfigLockStatus": D,
    },
    "lenovo": {
        "Processors_HyperThreading": "Enable", "Processors_IntelVirtualizationTechnology": "Enable",
        "DevicesandIOPorts_IntelVTforDirectedIOVTd": "Disable", "DevicesandIOPorts_SRIOV": "Enable",
        "Processors_SNC": "Disable", "Processors_CStates": "Autonomous", "Processors_TurboMode": "Enable",
        "OperatingModes_ChooseOperatingMode": "Efficiency_FavorPerformance", "Processors_PCIeACSCTL": "Enable",
        "Power_PlatformControlledType": "Efficiency_FavorPerformance", "Memory_SocketInterleave": "NUMA",
        "BootModes_SystemBootMode": "UEFIMode", "POSTAttempts_POSTAttemptsLimit": "POSTAttemptsLimit_3",
    },
    "lenovo_amd": {
        "Processors_SMTMode": E, "Processors_SVMMode": E, "DevicesandIOPorts_IOMMU": E, "Memory_NUMANodesperSocket": "NPS1",
        "Processors_ACPISRATL3CacheasNUMADomain": D, "Processors_GlobalC_stateControl": E, "Processors_P_state1": E,
        "Processors_P_state2": E, "OperatingModes_ChooseOperatingMode": "MaximumEfficiency",
    },
    "supermicro": {
        "Hyper_Threading_ALL__F27F": "Enable", "IntelVirtualizationTechnology_3C6F": "Enable",
        "IntelVTforDirectedI_O_VT_d__1E32": "Disable", "SR_IOVSupport_002B": D, "Above4GDecoding_0041": E,
        "Re_SizeBARSupport_0042": D, "SNC_F300": "Auto", "PackageCState_3D25": "Auto", "CPUC6Report_3D22": "Auto",
        "TurboMode_3D06": "Enable", "NUMA_003B": E, "RelaxedOrdering_1DD1": "No", "PCIeMaxReadRequestSize_00AE": "Auto",
        "PCIeACSCTL_1E3C": "Disable", "HotPlug_00E6": E, "HotPlug_00EF": E, "SecureBootEnable_0122": False,
        "AdministratorPassword_0117": None,
    },
    "supermicro_amd": {
        "SMTControl_00CB": "Auto", "SVMMode_00D8": E, "IOMMU_00EA": "Auto", "ACSEnable_00EF": "Auto",
        "NUMANodesPerSocket_703E": "NPS4", "ACPISRATL3CacheAsNUMADomain_0099": "Auto", "CorePerformanceBoost_00CC": "Auto",
        "GlobalC_stateControl_00CD": "Auto", "PowerProfileSelection_00F8": "High Performance Mode",
    },
    "nvidia_dgx": {
        "ProcessorHyperThreadingDisable": E, "ProcessorVmxEnable": "Enable", "VTdSupport": "Enable", "SRIOVEnable": "Enable",
        "SriovSupport": E, "PackageCState": "C6(Retention) state", "TurboMode": "Enable", "NumaEn": "Enable",
        "PcieRelaxedOrdering": "Yes", "PcieMaxReadRequestSize": "Auto", "PwrPerfTuning": "OS Controls EPB",
        "AltEngPerfBIAS": "Balanced Performance", "MAPIDS": "...",
    },
    "nvidia_grace": {
        **{f"Socket{s}Pcie{p}AdvertiseACS": True for s in (0, 1) for p in range(3)}, "EGM": False, "ActiveCores": 144,
    },
    "bluefield": {"EnableSMMU": True, "HostPrivilegeLevel": "Privileged", "InternalCPUModel": "Embedded"},
}  # fmt: skip

OTHERS: dict[str, list[Any]] = {  # values of enumerations that are no switch
    "SubNumaCluster": [D, "2-Way", "4-Way"], "SysProfile": ["PerfOptimized", "PerfPerWattOptimizedDapc", "Custom"],
    "ProcPwrPerf": ["MaxPerf", "SysDbpm", "OsDbpm"], "NumaNodesPerSocket": ["0", "1", "2", "4"],
    "EnergyPerformanceBias": ["MaxPower", "BalancedPerformance", "BalancedEfficiency", "LowPower"],
    "BootMode": ["Bios", "LegacyBios", "Uefi"],
    "MinProcIdlePower": ["C6", "C1E", "NoCStates"], "MinProcIdlePkgState": ["C6Retention", "C6NonRetention", "NoState"],
    "PowerRegulator": ["DynamicPowerSavings", "StaticLowPower", "StaticHighPerf", "OsControl"],
    "EnergyPerfBias": ["MaxPerf", "BalancedPerf", "BalancedPower", "PowerSavingsMode"],
    "WorkloadProfile": ["GeneralPowerEfficientCompute", "Virtualization-MaxPerformance", "Custom"],
    "NumaMemoryDomainsPerSocket": ["Auto", "OneMemoryDomainPerSocket", "TwoMemoryDomainsPerSocket", "FourMemoryDomainsPerSocket"],
    "Processors_SNC": ["Disable", "SNC2", "SNC4"], "Processors_CStates": ["Autonomous", "Legacy", "Disable"],
    "OperatingModes_ChooseOperatingMode": ["MaximumEfficiency", "MaximumPerformance", "Efficiency_FavorPerformance", "CustomMode"],
    "Power_PlatformControlledType": ["MaximumPerformance", "Efficiency_FavorPerformance", "Efficiency_FavorPower"],
    "Memory_SocketInterleave": ["NUMA", "NonNUMA"], "BootModes_SystemBootMode": ["UEFIMode", "LegacyMode"],
    "Memory_NUMANodesperSocket": ["NPS1", "NPS2", "NPS4"],
    "SNC": ["Auto", "Disable", "Enable SNC2 (2-clusters)", "Enable SNC4 (4-clusters)"],
    "PackageCState": ["C0/C1 state", "C2 state", "C6(non Retention) state", "C6(Retention) state", "No Limit", "Auto"],
    "CPUC6Report": ["Disable", "Enable", "Auto"], "RelaxedOrdering": ["No", "Yes"], "SMTControl": [D, "Auto"],
    "PCIeMaxReadRequestSize": ["Auto", "128B", "256B", "512B", "1024B", "2048B", "4096B"],
    "PcieMaxReadRequestSize": ["Auto", "128B", "256B", "512B", "1024B", "2048B", "4096B"],
    "IOMMU": [D, E, "Auto"], "ACSEnable": [D, E, "Auto"], "NUMANodesPerSocket": ["NPS0", "NPS1", "NPS2", "NPS4", "Auto"],
    "ACPISRATL3CacheAsNUMADomain": [D, E, "Auto"], "CorePerformanceBoost": [D, "Auto"], "GlobalC_stateControl": [D, E, "Auto"],
    "PwrPerfTuning": ["OS Controls EPB", "BIOS Controls EPB", "PECI Controls EPB"],
    "AltEngPerfBIAS": ["Performance", "Balanced Performance", "Balanced Power", "Power"],
}  # fmt: skip

READ_ONLY = ("SystemServiceTag", "SecureBootStatus", "ServerConfigLockStatus", "MAPIDS")


def _base(name: str) -> str:
    head, _sep, tail = name.rpartition("_")
    return head.rstrip("_") if head and len(tail) == 4 and tail.upper() == tail and name not in OTHERS else name


def registry(attributes: Mapping[str, Any], dependencies: list[Doc] | None = None) -> Doc:
    """A registry as a read of a BMC gives it."""
    made: Doc = {"@dependencies": dependencies or []}
    for name, value in attributes.items():
        one: Doc = {"type": "String", "values": [], "display": {}, "min": None, "max": None, "read_only": name in READ_ONLY,
                    "hidden": False, "default": None, "text": name}  # fmt: skip
        if isinstance(value, bool):
            one["type"] = "Boolean"
        elif isinstance(value, int):
            one.update(type="Integer", min=0, max=255)
        elif value is None:
            one["type"] = "Password"
        elif _base(name) in OTHERS:
            one.update(type="Enumeration", values=OTHERS[_base(name)])
        elif value in (E, D, "Enable", "Disable", "Yes", "No"):
            pair = next(p for p in ([E, D], ["Enable", "Disable"], ["Yes", "No"]) if value in p)
            one.update(type="Enumeration", values=pair)
        made[name] = one
    return made


def depends(name: str, prop: str, *conditions: tuple[str, str, Any], value: bool = True) -> Doc:
    """A dependency of type Map: (attribute, condition, value), joined by AND."""
    terms = [{"MapFromAttribute": a, "MapFromProperty": "CurrentValue", "MapFromCondition": c, "MapFromValue": v,
              **({"MapTerms": "AND"} if i else {})} for i, (a, c, v) in enumerate(conditions)]  # fmt: skip
    rule = {"MapFrom": terms, "MapToAttribute": name, "MapToProperty": prop, "MapToValue": value}
    return {"Dependency": rule, "DependencyFor": name, "Type": "Map"}


def machine(current: Doc, settings: Doc | None = None, maker: tuple[str, str] = ("", ""), **more: Any) -> Doc:
    """What a read gives; `more` are keys of its bios part."""
    return {
        "uri": "https://10.0.0.1", "error": "", "manufacturer": maker[0], "model": maker[1], "bios_version": "1.0",
        "secure_boot": None, "registry": None,
        "bios": {
            "path": "/redfish/v1/Systems/1/Bios", "settings_path": "/redfish/v1/Systems/1/Bios/Settings",
            "registry": "BiosAttributeRegistry.v1", "current": current, "settings": settings or {}, "settings_etag": "",
            "apply_times": [], "messages": [], "clear_action": "", "jobs": [], **more,
        },
    }  # fmt: skip


def bmc(vendor: str, settings: Doc | None = None, with_registry: bool = True, **more: Any) -> Doc:
    """A made-up machine. Lenovo, DGX and Supermicro repeat every attribute in their settings resource."""
    current = copy.deepcopy(ATTRIBUTES[vendor])
    repeats = vendor.startswith(("lenovo", "nvidia_dgx", "supermicro"))
    made = machine(current, {**(current if repeats else {}), **(settings or {})}, MAKERS[vendor], **more)
    if vendor in ("nvidia_grace", "bluefield"):
        made["bios"]["registry"] = ""
    elif with_registry:
        made["registry"] = registry(current)
    return made


CAPTURED = {
    "dell": ("libredfish-dell-Systems_System.Embedded.1_Bios.json", "libredfish-dell-Systems_System.Embedded.1_Bios_Settings.json"),
    "hpe": ("libredfish-hpe-Systems_1_Bios.json", ""),
    "lenovo": ("libredfish-lenovo-Systems_1_Bios.json", "libredfish-lenovo-Systems_1_Bios_Pending.json"),
    "supermicro": ("libredfish-supermicro-Systems_1_Bios.json", "libredfish-supermicro-Systems_1_Bios_SD.json"),
    "nvidia_dgx": ("libredfish-nvidia_viking-Systems_DGX_Bios.json", "libredfish-nvidia_viking-Systems_DGX_Bios_SD.json"),
    "nvidia_grace": (
        "libredfish-nvidia_gb200-Systems_System_0_Bios.json", "libredfish-nvidia_gb200-Systems_System_0_Bios_Settings.json",
    ),
}  # fmt: skip


def captured(folder: Path, vendor: str) -> Doc:
    """A captured machine, without a vendor's name: its attributes tell."""
    now, then = CAPTURED[vendor]
    shown = json.loads((folder / "redfish" / now).read_text())
    waiting = json.loads((folder / "redfish" / then).read_text()) if then else {}
    times = shown.get("@Redfish.Settings", {}).get("SupportedApplyTimes", [])
    made = machine(shown["Attributes"], waiting.get("Attributes", {}), apply_times=times)
    made["bios"]["registry"] = shown.get("AttributeRegistry", "")
    return made


def submitted(machine: Doc, body: Doc, job: bool) -> Doc:
    """The machine after a PATCH. With a job (Dell) it shows the new values as current before they are."""
    new = copy.deepcopy(machine)
    new["bios"]["settings"].update(body["Attributes"])
    if job:
        new["bios"]["jobs"] = [{"id": "JID_1", "state": "Scheduled", "percent": 0, "message": "", "path": ""}]
        new["bios"]["current"].update(body["Attributes"])
    return new


def booted(machine: Doc) -> Doc:
    """The machine after its start: what was pending is in force."""
    new = copy.deepcopy(machine)
    pending = {k: v for k, v in new["bios"]["settings"].items() if v is not None}
    new["bios"]["current"].update(pending)
    repeats = len(new["bios"]["settings"]) > len(new["bios"]["current"]) / 2
    new["bios"]["settings"] = dict(new["bios"]["current"]) if repeats else {}
    new["bios"]["jobs"] = []
    return new
