# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the words are called by each vendor, and how their values are spelled. Data; every table says where it is from.

"libredfish" is NVIDIA/libredfish, with its captured resources of real machines; "weka" is weka/tools, bios_tool
(defaults-db.yml, captured attributes; bios_settings.yml).
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Tuple

Values = Mapping[Any, Tuple[Any, ...]]


class Setting(NamedTuple):
    """One attribute that a word sets. names: what it is called by generation; the first that the machine has is taken.

    values: for each value of the word how it may be spelled, best first. `every`: all attributes of that pattern.
    displays: names in the attribute registry, where those of attributes change (Supermicro).
    display_decides: the attribute's name is inverted; a registry whose display name is, too, turns the values round.
    """

    names: Tuple[str, ...]
    values: Values
    displays: Tuple[str, ...] = ()
    every: bool = False
    display_decides: bool = False


class Profile(NamedTuple):
    """An attribute that governs others: they can be set only while it has the value `custom`."""

    name: str
    custom: str
    governs: Tuple[str, ...]
    source: str


class Table(NamedTuple):
    """A vendor's names."""

    words: Mapping[str, Tuple[Setting, ...]]
    sources: Tuple[str, ...]
    profile: Any = None  # Profile
    suffixes: bool = False  # names end in a hexadecimal number that differs from BIOS to BIOS


ON: Values = {True: ("Enabled", "Enable"), False: ("Disabled", "Disable")}
OFF: Values = {True: ("Disabled", "Disable"), False: ("Enabled", "Enable")}
AUTO_ON: Values = {True: ("Enabled", "Enable", "Auto"), False: ("Disabled", "Disable")}
"""AMD's defaults: Auto means on (AMD's tuning guides for EPYC 7003 and 9004, SMT, Core Performance Boost, C-states)."""
YES: Values = {True: ("Yes", "Enabled"), False: ("No", "Disabled")}
NPS: Values = {1: ("NPS1", "1"), 2: ("NPS2", "2"), 4: ("NPS4", "4")}
SNC: Values = {
    1: ("Disabled", "Disable"),
    2: ("SNC2", "Enable SNC2 (2-clusters)", "Enable SNC2", "Enabled SNC2", "2-Way", "Enabled", "Enable"),
    4: ("SNC4", "Enable SNC4 (4-clusters)", "Enable SNC4", "Enabled SNC4", "4-Way"),
}
"""Where a processor knows one kind of sub-NUMA clusters only (Ice Lake and before), on means two."""
BYTES: Values = {n: ("%dB" % n, "%d Bytes" % n, "%d" % n) for n in (128, 256, 512, 1024, 2048, 4096)}
PACKAGE_C: Values = {
    True: ("C6(Retention) state", "C6(non Retention) state", "No Limit", "Auto", "C2 state"),
    False: ("C0/C1 state", "Disabled"),
}


def _on(*names: str) -> Tuple[Setting, ...]:
    return (Setting(names, ON),)


def _all(*names: str) -> Tuple[Setting, ...]:
    """Attributes that belong to one word; those that a machine lacks are left out."""
    return tuple(Setting((name,), ON) for name in names)


DELL = Table(
    {
        "smt": _on("LogicalProc"),
        "virtualization": _on("ProcVirtualization"),
        "iommu": _on("IommuSupport", "ProcVirtualization"),
        "sriov": _on("SriovGlobalEnable"),
        "above_4g_decoding": _on("MmioAbove4Gb"),
        "numa_per_socket": (
            Setting(("SubNumaCluster",), {1: ("Disabled",), 2: ("2-Way", "Enabled"), 4: ("4-Way",)}),
            Setting(("NumaNodesPerSocket",), {n: ("%d" % n,) for n in (1, 2, 4)}),
        ),
        "l3_as_numa": _on("CcxAsNumaDomain"),
        "c_states": (
            Setting(("ProcCStates",), {True: ("Enabled", "Autonomous"), False: ("Disabled",)}),
            Setting(("ProcC1E",), ON),
        ),
        "power_profile": (
            Setting(("ProcPwrPerf",), {"performance": ("MaxPerf",), "balanced": ("SysDbpm", "OsDbpm"),
                                       "efficiency": ("SysDbpm", "OsDbpm")}),
            Setting(("EnergyPerformanceBias",), {"performance": ("MaxPower",), "balanced": ("BalancedPerformance",),
                                                 "efficiency": ("LowPower", "BalancedEfficiency")}),
        ),
        "turbo": _on("ProcTurboMode"),
        "prefetchers": _all(
            "ProcHwPrefetcher", "ProcAdjCacheLine", "DcuStreamerPrefetcher", "DcuIpPrefetcher", "L1StreamHwPrefetcher",
            "L1StridePrefetcher", "L1RegionPrefetcher", "L2StreamHwPrefetcher", "L2UpDownPrefetcher",
        ),
        "memory_interleave": _on("NodeInterleave"),
        "boot_mode": (Setting(("BootMode",), {"uefi": ("Uefi",), "legacy": ("Bios",)}),),
        "secure_boot": _on("SecureBoot"),
    },
    (
        "iDRAC 9, Intel: libredfish's PowerEdge R750, BIOS 1.8.2",
        "iDRAC 9, AMD: weka, PowerEdge R6615 (IommuSupport, NumaNodesPerSocket, CcxAsNumaDomain, L1/L2 prefetchers)",
        "iDRAC 10, Intel: weka, PowerEdge R670, BIOS 1.3.2 (the same names); bios_settings.yml (SubNumaCluster: 2-Way)",
        "Dell, BIOS and UEFI reference guides: Virtualization Technology switches VT-d along with VT-x on Intel",
    ),
    Profile(
        "SysProfile", "Custom",
        ("ProcPwrPerf", "ProcCStates", "ProcC1E", "ProcTurboMode", "EnergyPerformanceBias", "MemFrequency",
         "MemPatrolScrub", "MemRefreshRate", "UncoreFrequency", "MonitorMwait", "WriteDataCrc", "PcieAspmL1",
         "CpuInterconnectBusLinkPower", "ControlledTurbo", "DeterminismSlider", "PackageCStates"),
        "Dell, BIOS and UEFI reference guides, System Profile Settings: others than Custom set these by themselves",
    ),
)  # fmt: skip

HPE = Table(
    {
        "smt": _on("ProcHyperthreading", "ProcSMT"),
        "virtualization": _on("ProcVirtualization", "ProcAmdVirtualization"),
        "iommu": _on("IntelProcVtd", "ProcAmdIoVt", "ProcVirtualization"),
        "sriov": _on("Sriov"),
        "acs": _on("AccessControlService"),
        "numa_per_socket": (
            Setting(("SubNumaClustering",), {1: ("Disabled",), 2: ("EnabledSnc2", "Enabled"), 4: ("EnabledSnc4",)}),
            Setting(("NumaMemoryDomainsPerSocket",), {1: ("OneMemoryDomainPerSocket",), 2: ("TwoMemoryDomainsPerSocket",),
                                                      4: ("FourMemoryDomainsPerSocket",)}),
        ),
        "l3_as_numa": _on("LastLevelCacheAsNUMANode"),
        "c_states": (
            Setting(("MinProcIdlePower",), {True: ("C6", "C1E", "C1"), False: ("NoCStates",)}),
            Setting(("MinProcIdlePkgState",), {True: ("C6Retention", "C6NonRetention"), False: ("NoState",)}),
        ),
        "power_profile": (
            Setting(("PowerRegulator",), {"performance": ("StaticHighPerf",), "balanced": ("OsControl", "DynamicPowerSavings"),
                                          "efficiency": ("DynamicPowerSavings", "StaticLowPower")}),
            Setting(("EnergyPerfBias",), {"performance": ("MaxPerf",), "balanced": ("BalancedPerf",),
                                          "efficiency": ("PowerSavingsMode", "BalancedPower")}),
        ),
        "turbo": _on("ProcTurbo", "ProcAMDBoost"),
        "prefetchers": _all(
            "HwPrefetcher", "AdjSecPrefetch", "DcuStreamPrefetcher", "DcuIpPrefetcher", "AmdL1Prefetcher", "AmdL2Prefetcher"
        ),
        "memory_interleave": _on("NodeInterleaving"),
        "boot_mode": (Setting(("BootMode",), {"uefi": ("Uefi",), "legacy": ("LegacyBios",)}),),
        "secure_boot": _on("SecureBootStatus"),
    },
    (
        "iLO 5 and 6, Intel: HPEDevCom/redfishdocs, BIOS attributes of ProLiant Gen10 and Gen11",
        "iLO 5 and 6, AMD: libredfish's ProLiant with registry A42 v1.2.60; HPEDevCom/redfishdocs (NUMA domains, C-states)",
        "iLO 7: libredfish, hpe.rs (ProcVirtualization where there is no IntelProcVtd)",
    ),
    Profile(
        "WorkloadProfile", "Custom",
        ("MinProcIdlePower", "MinProcIdlePkgState", "EnergyPerfBias", "PowerRegulator", "CollabPowerControl",
         "EnergyEfficientTurbo", "UncoreFreqScaling"),
        "HPEDevCom/redfishdocs: \"You can only configure this option if Workload Profile is set to Custom\"",
    ),
)  # fmt: skip

LENOVO = Table(
    {
        "smt": _on("Processors_HyperThreading", "Processors_SMTMode"),
        "virtualization": _on("Processors_IntelVirtualizationTechnology", "Processors_SVMMode"),
        "iommu": _on("DevicesandIOPorts_IntelVTforDirectedIOVTd", "DevicesandIOPorts_IOMMU"),
        "sriov": _on("DevicesandIOPorts_SRIOV"),
        "acs": _on("Processors_PCIeACSCTL"),
        "above_4g_decoding": _on("DevicesandIOPorts_PCI64BitResourceAllocation"),
        "numa_per_socket": (Setting(("Processors_SNC",), SNC), Setting(("Memory_NUMANodesperSocket",), NPS)),
        "l3_as_numa": _on("Processors_ACPISRATL3CacheasNUMADomain"),
        "c_states": (
            Setting(("Processors_CStates",), {True: ("Autonomous", "Legacy", "Enabled", "Enable"), False: ("Disabled", "Disable")}),
            Setting(("Processors_GlobalC_stateControl",), AUTO_ON),
        ),
        "p_states": (
            Setting(("Processors_CPUPstateControl",), {True: ("Autonomous", "Cooperative", "Legacy"), False: ("None", "Disabled")}),
            Setting(("Processors_P_state1",), ON),
            Setting(("Processors_P_state2",), ON),
        ),
        "power_profile": (
            Setting(("Power_PlatformControlledType", "OperatingModes_ChooseOperatingMode"),
                    {"performance": ("MaximumPerformance",), "balanced": ("Efficiency_FavorPerformance", "MaximumEfficiency"),
                     "efficiency": ("Efficiency_FavorPower", "MinimalPower", "MaximumEfficiency")}),
        ),
        "turbo": (
            Setting(("Processors_TurboMode",), ON),
            Setting(("Processors_CorePerformanceBoost",), AUTO_ON),
        ),
        "prefetchers": _all(
            "Processors_HardwarePrefetcher", "Processors_AdjacentCachePrefetch", "Processors_DCUStreamerPrefetcher",
            "Processors_DCUIPPrefetcher", "Processors_L1StreamHWPrefetcher", "Processors_L1StridePrefetcher",
            "Processors_L1RegionPrefetcher", "Processors_L2StreamHWPrefetcher", "Processors_L2UpDownPrefetcher",
        ),
        "memory_interleave": (Setting(("Memory_SocketInterleave",), {True: ("NonNUMA",), False: ("NUMA",)}),),
        "boot_mode": (Setting(("BootModes_SystemBootMode",), {"uefi": ("UEFIMode",), "legacy": ("LegacyMode",)}),),
        "secure_boot": _on("SecureBootConfiguration_SecureBootStatus"),
    },
    (
        "XCC, Intel: libredfish's ThinkSystem, registry BiosAttributeRegistry.1.0.0; Lenovo Press LP1477 (Enable became "
        "Enabled between generations)",
        "XCC 2, AMD: weka, ThinkSystem SR635 V3; Lenovo Press LP1977, LP2210",
    ),
    Profile(
        "OperatingModes_ChooseOperatingMode", "CustomMode",
        ("Processors_CStates", "Processors_C1EnhancedMode", "Processors_TurboMode", "Processors_CPUPstateControl",
         "Processors_EnergyEfficientTurbo", "Processors_UncoreFrequencyScaling", "Processors_CPUFrequencyLimits",
         "Processors_UPILinkFrequency", "Power_PowerPerformanceBias", "Power_PlatformControlledType",
         "Memory_MemorySpeed", "Memory_MemoryPowerManagement", "Processors_GlobalC_stateControl",
         "Processors_CorePerformanceBoost", "Processors_DeterminismSlider", "Processors_P_state1", "Processors_P_state2"),
        "Lenovo Press LP1477, LP2210: single parameters can be changed in Custom Mode only",
    ),
)  # fmt: skip

SUPERMICRO = Table(
    {
        "smt": (
            Setting(("Hyper_Threading_ALL_", "Hyper_Threading", "HyperThreading"), ON, ("Hyper-Threading [ALL]", "Hyper-Threading")),
            Setting(("SMTControl",), AUTO_ON, ("SMT Control",)),
        ),
        "virtualization": (
            Setting(("IntelVirtualizationTechnology",), ON, ("Intel Virtualization Technology", "VMX")),
            Setting(("SVMMode",), ON, ("SVM Mode",)),
        ),
        "iommu": (
            Setting(("IntelVTforDirectedI_O_VT_d_", "VTdSupport"), ON, ("Intel® VT for Directed I/O (VT-d)",)),
            Setting(("IOMMU",), ON, ("IOMMU",)),
        ),
        "sriov": (Setting(("SR_IOVSupport",), ON, ("SR-IOV Support",)),),
        "acs": (
            Setting(("PCIeACSCTL",), ON, ("PCIe ACSCTL",)),
            Setting(("ACSEnable",), ON, ("ACS Enable",)),
        ),
        "above_4g_decoding": (Setting(("Above4GDecoding",), ON, ("Above 4G Decoding",)),),
        "resizable_bar": (Setting(("Re_SizeBARSupport",), ON, ("Re-Size BAR Support",)),),
        "numa_per_socket": (
            Setting(("SNC", "SubNUMAClustering"), SNC, ("SNC", "SNC (Sub NUMA)", "Sub NUMA Clustering")),
            Setting(("NUMANodesPerSocket",), NPS, ("NUMA Nodes Per Socket",)),
        ),
        "l3_as_numa": (Setting(("ACPISRATL3CacheAsNUMADomain",), ON, ("ACPI SRAT L3 Cache As NUMA Domain",)),),
        "c_states": (
            Setting(("CPUC6Report", "CPUC6report"), ON, ("CPU C6 Report",)),
            Setting(("PackageCState",), PACKAGE_C, ("Package C State",)),
            Setting(("GlobalC_stateControl",), AUTO_ON, ("Global C-state Control",)),
        ),
        "p_states": (Setting(("SpeedStep_P_States_",), ON, ("SpeedStep (P-States)",)),),
        "power_profile": (
            Setting(("PowerProfileSelection",),
                    {"performance": ("High Performance Mode",), "balanced": ("Balanced Core Performance Mode",),
                     "efficiency": ("Efficiency Mode",)}, ("Power Profile Selection",)),
        ),
        "turbo": (
            Setting(("TurboMode",), ON, ("Turbo Mode",)),
            Setting(("CorePerformanceBoost",), AUTO_ON, ("Core Performance Boost",)),
        ),
        "prefetchers": (
            Setting(("HardwarePrefetcher",), ON, ("Hardware Prefetcher",)),
            Setting(("AdjacentCachePrefetch",), ON, ("Adjacent Cache Prefetch",)),
            Setting(("DCUStreamerPrefetcher",), ON, ("DCU Streamer Prefetcher",)),
            Setting(("DCUIPPrefetcher",), ON, ("DCU IP Prefetcher",)),
            Setting(("L1StreamHWPrefetcher",), AUTO_ON, ("L1 Stream HW Prefetcher",)),
            Setting(("L2StreamHWPrefetcher",), AUTO_ON, ("L2 Stream HW Prefetcher",)),
        ),
        "memory_interleave": (Setting(("NUMA",), OFF, ("NUMA",)),),
        "pcie_relaxed_ordering": (Setting(("RelaxedOrdering",), YES, ("Relaxed Ordering",)),),
        "max_read_request": (Setting(("PCIeMaxReadRequestSize", "MaxReadRequest"), BYTES, ("PCIe Max Read Request Size",)),),
        "boot_mode": (Setting(("BootModeSelect",), {"uefi": ("UEFI",), "legacy": ("LEGACY",)}, ("Boot Mode Select",)),),
        "secure_boot": (Setting(("SecureBootEnable",), ON, ("Secure Boot Enable",)),),
    },
    (
        "X13, Intel: libredfish's Supermicro (stems; suffixes differ, SR_IOVSupport_0047 and _002B)",
        "H13, AMD: weka, AS -1115CS-TNR; names without suffix on newer BIOS (SMTControl)",
        "display names: Supermicro's export of BIOS settings (SUM), bios_settings.yml of weka",
    ),
    suffixes=True,
)  # fmt: skip

NVIDIA_DGX = Table(
    {
        "smt": (Setting(("ProcessorHyperThreadingDisable",), ON, display_decides=True),),
        "virtualization": _on("ProcessorVmxEnable"),
        "iommu": _on("VTdSupport"),
        "sriov": _all("SRIOVEnable", "SriovSupport"),
        "numa_per_socket": (Setting(("SncEn",), SNC),),
        "c_states": (Setting(("PackageCState",), PACKAGE_C),),
        "p_states": _on("ProcessorEistEnable"),
        "power_profile": (
            Setting(("AltEngPerfBIAS",), {"performance": ("Performance", "Maximum Performance"), "balanced": ("Balanced Performance",),
                                          "efficiency": ("Power", "Balanced Power")}),
        ),
        "turbo": _on("TurboMode"),
        "prefetchers": _all(
            "MlcStreamerPrefetcherEnable", "MlcSpatialPrefetcherEnable", "DCUStreamerPrefetcherEnable", "DCUIPPrefetcherEnable"
        ),
        "memory_interleave": (Setting(("NumaEn",), OFF),),
        "pcie_relaxed_ordering": (Setting(("PcieRelaxedOrdering",), YES),),
        "max_read_request": (Setting(("PcieMaxReadRequestSize",), BYTES),),
        "secure_boot": _on("SecureBootSupport"),
    },
    (
        "DGX H100: libredfish's Viking, registry 113.1.1.3 (names are those of variables of Intel's reference BIOS, "
        "values the texts of the setup)",
        "ProcessorHyperThreadingDisable: 0 is on in Intel's reference BIOS (SocketProcessorCoreConfiguration; "
        "smtEnable = ...Disable ? 0 : 1), and its question \"Hyper-Threading [ALL]\" has the texts 0 Enable, 1 Disable "
        "(export of a Supermicro Xeon D): so Enabled means that Hyper-Threading is on, against the attribute's name",
    ),
    Profile(
        "PwrPerfTuning", "BIOS Controls EPB", ("AltEngPerfBIAS",),
        "Intel's reference BIOS: the BIOS's energy bias counts only where the BIOS, not the system, controls it",
    ),
)  # fmt: skip

NVIDIA_GRACE = Table(
    {
        "acs": (Setting((r"Socket[0-9]+Pcie[0-9]+AdvertiseACS",), ON, every=True),),
    },
    ("GB200: libredfish (booleans, no registry, one attribute for each socket and port); GH200: nvidia_gh200.rs",),
)

BLUEFIELD = Table(
    {"iommu": _on("EnableSMMU", "Enable SMMU")},
    ("BlueField-2 and 3: NVIDIA, BlueField BSP 4.8 and 4.9, Redfish; libredfish, nvidia_dpu.rs (names lost their blanks)",),
)

TABLES: Dict[str, Table] = {
    "dell": DELL, "hpe": HPE, "lenovo": LENOVO, "supermicro": SUPERMICRO, "nvidia_dgx": NVIDIA_DGX,
    "nvidia_grace": NVIDIA_GRACE, "bluefield": BLUEFIELD,
}  # fmt: skip

WHY_NOT: Dict[str, str] = {
    "ats": "no BIOS that is known shows it; role iommu (iommu_ats) sets it on cards",
    "secure_boot": "the BMC does not tell",
}
