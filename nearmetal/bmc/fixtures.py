"""Small made-up BIOSes in each vendor's own words: name -> (value, allowed values), or a plain value.

A name in READ_ONLY cannot be written; DEPENDS has (attribute, by, value): `attribute` cannot be written while `by`
is not `value`.
"""

from __future__ import annotations

from typing import Any

ON_OFF = ("Enabled", "Disabled")
EN_DIS = ("Enable", "Disable")
Fixture = dict[str, Any]

DELL: Fixture = {
    "LogicalProc": ("Enabled", ON_OFF), "ProcVirtualization": ("Enabled", ON_OFF), "IommuSupport": ("Enabled", ON_OFF),
    "SriovGlobalEnable": ("Enabled", ON_OFF), "MmioAbove4Gb": ("Enabled", ON_OFF),
    "NumaNodesPerSocket": ("1", ("0", "1", "2", "4")), "CcxAsNumaDomain": ("Disabled", ON_OFF),
    "ProcCStates": ("Enabled", ON_OFF), "ProcPwrPerf": ("OsDbpm", ("MaxPerf", "MinPwr", "OsDbpm")),
    "ProcTurboMode": ("Enabled", ON_OFF), "SysProfile": ("PerfPerWattOptimizedOs", (
        "PerfPerWattOptimizedOs", "PerfOptimized", "Custom")),
    "ProcHwPrefetcher": ("Enabled", ON_OFF), "ProcSwPrefetcher": ("Enabled", ON_OFF), "DcuStreamerPrefetcher": ("Enabled", ON_OFF),
    "NodeInterleave": ("Disabled", ON_OFF), "PcieRelaxedOrdering": ("Enabled", ON_OFF),
    "BootMode": ("Uefi", ("Uefi", "Bios")), "SecureBoot": ("Disabled", ON_OFF), "AcPwrRcvryUserDelay": 120, "AssetTag": "",
    "SystemModelName": "PowerEdge R7625",
}  # fmt: skip
HPE: Fixture = {
    "ProcSMT": ("Enabled", ON_OFF), "ProcAmdIoVt": ("Enabled", ON_OFF), "ProcAmdVirtualization": ("Enabled", ON_OFF),
    "Sriov": ("Enabled", ON_OFF), "AccessControlService": ("Enabled", ON_OFF), "PciePeerToPeerSerialization": ("Disabled", ON_OFF),
    "NumaMemoryDomainsPerSocket": ("Auto", ("Auto", "OneMemoryDomainPerSocket", "TwoMemoryDomainsPerSocket",
                                            "FourMemoryDomainsPerSocket")),
    "LastLevelCacheAsNUMANode": ("Disabled", ON_OFF), "MinProcIdlePower": ("C6", ("C6", "NoCStates")),
    "PowerRegulator": ("OsControl", ("DynamicPowerSavings", "StaticLowPower", "StaticHighPerf", "OsControl")),
    "WorkloadProfile": ("GeneralPowerEfficientCompute", (
        "GeneralPowerEfficientCompute", "GeneralPeakFrequencyCompute", "GeneralThroughputCompute", "Virtualization-PowerEfficient",
        "Virtualization-MaxPerformance", "LowLatency", "HighPerformanceCompute(HPC)", "I/OThroughput", "Custom")),
    "ProcAMDBoost": ("Enabled", ON_OFF), "AmdL1Prefetcher": ("Enabled", ON_OFF), "AmdL2Prefetcher": ("Enabled", ON_OFF),
    "AmdMemoryInterleaving": ("Enabled", ON_OFF), "PciResourcePadding": ("Normal", ("Normal", "Medium", "High")),
    "PcieResizableBar": ("Disabled", ON_OFF), "BootMode": ("Uefi", ("Uefi", "LegacyBios")), "SecureBootStatus": ("Disabled", ON_OFF),
    "AdminName": "", "PowerOnDelay": ("NoDelay", ("NoDelay", "RandomDelay")),
}  # fmt: skip
LENOVO: Fixture = {
    "Processors_HyperThreading": ("Enabled", ON_OFF), "Processors_IntelVirtualizationTechnology": ("Enabled", ON_OFF),
    "DevicesandIOPorts_IntelVTforDirectedIOVTd": ("Enabled", ON_OFF), "DevicesandIOPorts_SRIOV": ("Enabled", ON_OFF),
    "Processors_PCIeACSCTL": ("Enabled", ON_OFF), "DevicesandIOPorts_MMConfigBase": ("Auto", ("Auto", "3GB", "2GB")),
    "DevicesandIOPorts_PCI64BitResourceAllocation": ("Enabled", ON_OFF), "DevicesandIOPorts_ReSizeBarSupport": ("Disabled", ON_OFF),
    "Processors_SNC": ("Disabled", ("Disabled", "Enabled")),
    "Processors_CStates": ("Autonomous", ("Disabled", "Legacy", "Autonomous")),
    "Processors_CPUPstateControl": ("Autonomous", ("None", "Legacy", "Autonomous", "Cooperative")),
    "Processors_TurboMode": ("Enabled", ON_OFF), "Processors_HardwarePrefetcher": ("Enabled", ON_OFF),
    "Processors_AdjacentCachePrefetch": ("Enabled", ON_OFF), "Processors_DCUStreamerPrefetcher": ("Enabled", ON_OFF),
    "Memory_SocketInterleave": ("NUMA", ("NUMA", "Non-NUMA")),
    "OperatingModes_ChooseOperatingMode": ("MaximumEfficiency", (
        "MaximumEfficiency", "MaximumPerformance", "MinimalPower", "CustomMode")),
    "BootModes_SystemBootMode": ("UEFIMode", ("UEFIMode", "LegacyMode")),
    "SecureBootConfiguration_SecureBootSetting": ("Disabled", ON_OFF), "SystemRecovery_POSTWatchdogTimerValue": 5,
}  # fmt: skip
SUPERMICRO: Fixture = {
    "Hyper_Threading_ALL__F27F": ("Enable", EN_DIS), "IntelVirtualizationTechnology_3C6F": ("Enable", EN_DIS),
    "IntelVTforDirectedI_O_VT_d__1E32": ("Enable", EN_DIS), "SR_IOVSupport_0047": ("Enabled", ON_OFF),
    "PCIeACSCTL_1E3C": ("Disable", EN_DIS), "Above4GDecoding_0041": ("Enabled", ON_OFF),
    "Re_SizeBARSupport_0049": ("Disabled", ON_OFF),
    "SNC_F300": ("Disable", ("Auto", "Disable", "Enable SNC2 (2-clusters)", "Enable SNC4 (4-clusters)")),
    "NUMA_003B": ("Enabled", ON_OFF), "PackageCState_3D25": ("Auto", ("C0/C1 state", "C2 state", "C6(Retention) state", "Auto")),
    "CPUC6Report_3D22": ("Auto", ("Disable", "Enable", "Auto")), "EnhancedHaltState_C1E__3D23": ("Enable", EN_DIS),
    "SpeedStep_PStates__3D03": ("Enable", EN_DIS), "PowerTechnology_FF77": ("Custom", ("Disable", "Energy Efficient", "Custom")),
    "PowerPerformanceTuning_3CE0": ("OS Controls EPB", ("OS Controls EPB", "BIOS Controls EPB")),
    "TurboMode_3D06": ("Enable", EN_DIS), "HardwarePrefetcher_3C55": ("Enable", EN_DIS),
    "AdjacentCachePrefetch_3C57": ("Enable", EN_DIS),
    "DCUStreamerPrefetcher_3C58": ("Enable", EN_DIS), "RelaxedOrdering_1DD1": ("No", ("No", "Yes")),
    "PCIeMaxReadRequestSize_00AE": ("Auto", ("Auto", "128B", "256B", "512B", "1024B", "2048B", "4096B")),
    "BootModeSelect_0111": ("UEFI", ("Legacy", "UEFI", "Dual")), "SecureBootEnable_0122": False,
}  # fmt: skip
NVIDIA_DGX: Fixture = {
    "ProcessorHyperThreadingDisable": ("Enabled", ON_OFF), "VTdSupport": ("Enable", EN_DIS),
    "ProcessorVmxEnable": ("Enable", EN_DIS),
    "SRIOVEnable": ("Enable", EN_DIS), "SriovSupport": ("Enabled", ON_OFF), "Above4gDecode": ("Enabled", ON_OFF),
    "NumaEn": ("Enable", EN_DIS), "SncEn": ("Disable", ("Disable", "Enable SNC2 (2-clusters)")),
    "PackageCState": ("C6(Retention) state", ("C0/C1 state", "C2 state", "C6(Retention) state", "No Limit")),
    "C6Enable": ("Enable", EN_DIS), "TurboMode": ("Enable", EN_DIS), "PwrPerfTuning": ("OS Controls EPB", (
        "OS Controls EPB", "BIOS Controls EPB", "PECI Controls EPB")),
    "MlcStreamerPrefetcherEnable": ("Enable", EN_DIS), "MlcSpatialPrefetcherEnable": ("Enable", EN_DIS),
    "DCUStreamerPrefetcherEnable": ("Enable", EN_DIS), "DCUIPPrefetcherEnable": ("Enable", EN_DIS),
    "PcieRelaxedOrdering": ("Yes", ("No", "Yes")),
    "PcieMaxReadRequestSize": ("4096B", ("Auto", "128B", "256B", "512B", "1024B", "2048B", "4096B")),
    "SecureBootSupport": ("Disabled", ON_OFF), "AdminPassword": None,
}  # fmt: skip
NVIDIA_GRACE: Fixture = {
    **{f"Socket{socket}Pcie{port}AdvertiseACS": True for socket in (0, 1) for port in range(4)},
    "ActiveCores": 144, "EGM": False, "EnablePcieNicTopology": False, "EmbeddedUefiShell": "Enabled",
}  # fmt: skip

MADE_UP = {
    "dell": DELL, "hpe": HPE, "lenovo": LENOVO, "supermicro": SUPERMICRO, "nvidia_dgx": NVIDIA_DGX, "nvidia_grace": NVIDIA_GRACE,
}  # fmt: skip
READ_ONLY = frozenset(("SystemModelName", "SecureBootStatus"))
DEPENDS = (
    ("ProcCStates", "SysProfile", "Custom"), ("ProcPwrPerf", "SysProfile", "Custom"), ("ProcTurboMode", "SysProfile", "Custom"),
)  # fmt: skip


def values(vendor: str) -> dict[str, Any]:
    """The present values of a vendor's made-up BIOS."""
    return {name: entry[0] if isinstance(entry, tuple) else entry for name, entry in MADE_UP[vendor].items()}


def registry(vendor: str) -> dict[str, Any]:
    """RegistryEntries of a vendor's made-up BIOS, as DSP2046 has them (AttributeRegistry)."""
    attributes = [_entry(name, entry) for name, entry in MADE_UP[vendor].items()]
    known = {a["AttributeName"] for a in attributes}
    dependencies = [_dependency(*rule) for rule in DEPENDS if rule[0] in known]
    return {"Attributes": attributes, "Dependencies": dependencies, "Menus": []}


def _entry(name: str, entry: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "AttributeName": name, "DisplayName": name, "ReadOnly": name in READ_ONLY, "Hidden": False, "ResetRequired": True,
    }  # fmt: skip
    if isinstance(entry, tuple):
        return {**made, "Type": "Enumeration", "Value": [{"ValueName": v, "ValueDisplayName": v} for v in entry[1]]}
    if isinstance(entry, bool):
        return {**made, "Type": "Boolean"}
    if isinstance(entry, int):
        return {**made, "Type": "Integer", "LowerBound": 0, "UpperBound": max(240, entry)}
    if entry is None:
        return {**made, "Type": "Password"}
    return {**made, "Type": "String", "MinLength": 0, "MaxLength": 64}


def _dependency(attribute: str, by: str, value: str) -> dict[str, Any]:
    condition = {"MapFromAttribute": by, "MapFromProperty": "CurrentValue", "MapFromCondition": "NEQ", "MapFromValue": value}
    return {
        "DependencyFor": attribute, "Type": "Map",
        "Dependency": {"MapFrom": [condition], "MapToAttribute": attribute, "MapToProperty": "ReadOnly", "MapToValue": True},
    }  # fmt: skip
