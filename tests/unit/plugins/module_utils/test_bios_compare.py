"""BIOS intent: what each vendor is sent, what is not sent twice, and the traps that make other tools lie."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import bios_machines as machines
import host_states
import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import bios
from ansible_collections.nearmetal.rack.plugins.module_utils.bios import maps
from bios_machines import bmc, depends, submitted
from hypothesis import given
from hypothesis import strategies as st

Doc = dict[str, Any]


def ask(preset: str = "", attributes: Doc | None = None, strict: bool = False, foreign: str = "keep", **settings: Any) -> Doc:
    return {"settings": settings, "preset": preset, "attributes": attributes or {}, "strict": strict, "foreign_pending": foreign}


# --- each vendor: intent -> body, then pending -> no second one, then applied -> nothing

ON_RESET = {"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}}

CAPTURED: dict[str, tuple[Doc, Doc, Doc, set[str]]] = {
    "dell": (
        ask(smt=False, sriov=True, numa_per_socket=2, turbo=False, acs=True),
        {"LogicalProc": "Disabled", "SubNumaCluster": "2-Way", "ProcTurboMode": "Disabled", "SysProfile": "Custom"},
        ON_RESET, {"acs"},
    ),
    "hpe": (
        ask(smt=False, acs=False, numa_per_socket=4, l3_as_numa=True, c_states=False, above_4g_decoding=True),
        {"ProcSMT": "Disabled", "AccessControlService": "Disabled", "NumaMemoryDomainsPerSocket": "FourMemoryDomainsPerSocket",
         "LastLevelCacheAsNUMANode": "Enabled", "MinProcIdlePower": "NoCStates", "WorkloadProfile": "Custom"},
        {}, {"above_4g_decoding"},
    ),
    "lenovo": (
        ask(smt=False, iommu=False, acs=False, power_profile="performance", boot_mode="uefi", max_read_request=4096),
        {"Processors_HyperThreading": "Disabled", "DevicesandIOPorts_IntelVTforDirectedIOVTd": "Disabled",
         "Processors_PCIeACSCTL": "Disabled", "Power_PlatformControlledType": "MaximumPerformance",
         "OperatingModes_ChooseOperatingMode": "CustomMode"},
        ON_RESET, {"max_read_request"},
    ),
    "supermicro": (
        ask(smt=False, sriov=False, iommu=False, resizable_bar=True, pcie_relaxed_ordering=True, memory_interleave=True),
        {"Hyper_Threading_ALL__F27F": "Disable", "SR_IOVSupport_0047": "Disabled", "Re_SizeBARSupport_0042": "Enabled",
         "IntelVTforDirectedI_O_VT_d__1E32": "Disable", "RelaxedOrdering_1DD1": "Yes", "NUMA_003B": "Disabled"},
        {}, set(),
    ),
    "nvidia_dgx": (
        ask(smt=False, sriov=False, c_states=False, max_read_request=512, above_4g_decoding=True),
        {"ProcessorHyperThreadingDisable": "Disabled", "SRIOVEnable": "Disable", "SriovSupport": "Disabled",
         "PackageCState": "C0/C1 state", "PcieMaxReadRequestSize": "512B"},
        {}, {"above_4g_decoding"},
    ),
    "nvidia_grace": (
        ask(acs=False, smt=False),
        {f"Socket{s}Pcie{p}AdvertiseACS": False for s in (0, 1) for p in range(10)},
        {}, {"smt"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("vendor", CAPTURED)
def test_captured_machines(samples: Path, vendor: str) -> None:
    options, attributes, extra, unsupported = CAPTURED[vendor]
    machine = machines.captured(samples, vendor)
    assert bios.platform(machine) == vendor  # none of them tells a vendor's name
    lives(machine, options, attributes, extra, unsupported)


def lives(machine: Doc, options: Doc, attributes: Doc, extra: Doc, unsupported: set[str]) -> None:
    before = copy.deepcopy(machine)
    first = bios.compare(options, machine)
    assert first.problems == []
    assert first.body == {"Attributes": attributes, **extra}
    assert first.requested == attributes and first.pending == {} and first.reset_required
    assert set(first.unsupported) == unsupported
    assert machine == before  # nothing of what was read is changed
    waiting = submitted(machine, first.body, job=bios.platform(machine) == "dell")
    second = bios.compare(options, waiting)
    assert (second.body, second.requested) == ({}, {})
    assert second.pending == attributes and second.reset_required and second.foreign_pending == {}
    done = bios.compare(options, machines.booted(waiting))
    assert (done.body, done.pending, done.reset_required, done.problems) == ({}, {}, False, [])


MADE: dict[str, tuple[Doc, Doc, Doc, set[str]]] = {
    "dell": (
        ask(smt=False, sriov=True, numa_per_socket=4, c_states=False, power_profile="performance", ats=True),
        {"LogicalProc": "Disabled", "SriovGlobalEnable": "Enabled", "SubNumaCluster": "4-Way", "ProcCStates": "Disabled",
         "ProcC1E": "Disabled", "ProcPwrPerf": "MaxPerf", "EnergyPerformanceBias": "MaxPower", "SysProfile": "Custom"},
        ON_RESET, {"ats"},
    ),
    "dell_amd": (
        ask(iommu=True, numa_per_socket=2, l3_as_numa=True, c_states=False, prefetchers=False),
        {"IommuSupport": "Enabled", "NumaNodesPerSocket": "2", "CcxAsNumaDomain": "Enabled", "ProcCStates": "Disabled",
         "L1StreamHwPrefetcher": "Disabled", "L2StreamHwPrefetcher": "Disabled"},
        ON_RESET, set(),
    ),
    "hpe": (
        ask(iommu=True, power_profile="performance", c_states=False, boot_mode="legacy", memory_interleave=True),
        {"IntelProcVtd": "Enabled", "PowerRegulator": "StaticHighPerf", "EnergyPerfBias": "MaxPerf", "MinProcIdlePower": "NoCStates",
         "MinProcIdlePkgState": "NoState", "BootMode": "LegacyBios", "NodeInterleaving": "Enabled", "WorkloadProfile": "Custom"},
        {}, set(),
    ),
    "hpe_amd": (
        ask(iommu=True, smt=False, numa_per_socket=1, turbo=False),
        {"ProcAmdIoVt": "Enabled", "ProcSMT": "Disabled", "NumaMemoryDomainsPerSocket": "OneMemoryDomainPerSocket",
         "ProcAMDBoost": "Disabled"},
        {}, set(),
    ),
    "lenovo": (
        ask(iommu=True, smt=False, numa_per_socket=2, c_states=False, memory_interleave=True),
        {"DevicesandIOPorts_IntelVTforDirectedIOVTd": "Enable", "Processors_HyperThreading": "Disable", "Processors_SNC": "SNC2",
         "Processors_CStates": "Disable", "Memory_SocketInterleave": "NonNUMA", "OperatingModes_ChooseOperatingMode": "CustomMode"},
        {}, set(),
    ),
    "lenovo_amd": (
        ask(smt=False, numa_per_socket=4, l3_as_numa=True, p_states=False),
        {"Processors_SMTMode": "Disabled", "Memory_NUMANodesperSocket": "NPS4", "Processors_ACPISRATL3CacheasNUMADomain": "Enabled",
         "Processors_P_state1": "Disabled", "Processors_P_state2": "Disabled",
         "OperatingModes_ChooseOperatingMode": "CustomMode"},
        {}, set(),
    ),
    "supermicro": (
        ask(sriov=True, numa_per_socket=4, c_states=False, max_read_request=4096, acs=True),
        {"SR_IOVSupport_002B": "Enabled", "SNC_F300": "Enable SNC4 (4-clusters)", "CPUC6Report_3D22": "Disable",
         "PackageCState_3D25": "C0/C1 state", "PCIeMaxReadRequestSize_00AE": "4096B", "PCIeACSCTL_1E3C": "Enable"},
        {}, set(),
    ),
    "supermicro_amd": (
        ask(smt=False, iommu=True, acs=True, numa_per_socket=1, turbo=False, l3_as_numa=True, c_states=False),
        {"SMTControl_00CB": "Disabled", "IOMMU_00EA": "Enabled", "ACSEnable_00EF": "Enabled", "NUMANodesPerSocket_703E": "NPS1",
         "CorePerformanceBoost_00CC": "Disabled", "ACPISRATL3CacheAsNUMADomain_0099": "Enabled",
         "GlobalC_stateControl_00CD": "Disabled"},
        {}, set(),
    ),
    "nvidia_dgx": (
        ask(smt=False, power_profile="performance", pcie_relaxed_ordering=False, max_read_request=4096, memory_interleave=True),
        {"ProcessorHyperThreadingDisable": "Disabled", "AltEngPerfBIAS": "Performance", "PwrPerfTuning": "BIOS Controls EPB",
         "PcieRelaxedOrdering": "No", "PcieMaxReadRequestSize": "4096B", "NumaEn": "Disable"},
        {}, set(),
    ),
    "nvidia_grace": (
        ask(acs=False, virtualization=True),
        {f"Socket{s}Pcie{p}AdvertiseACS": False for s in (0, 1) for p in range(3)}, {}, {"virtualization"},
    ),
    "bluefield": (ask(iommu=False, sriov=True), {"EnableSMMU": False}, {}, {"sriov"}),
}  # fmt: skip


@pytest.mark.parametrize("vendor", MADE)
def test_made_up_machines(vendor: str) -> None:
    lives(bmc(vendor), *MADE[vendor])


def test_apply_time_is_only_given_where_it_is_known() -> None:
    assert "@Redfish.SettingsApplyTime" in bios.compare(ask(smt=False), bmc("dell")).body  # it makes the job
    assert "@Redfish.SettingsApplyTime" in bios.compare(ask(smt=False), bmc("lenovo", apply_times=["OnReset"])).body
    assert "@Redfish.SettingsApplyTime" not in bios.compare(ask(smt=False), bmc("lenovo", apply_times=["Immediate"])).body
    assert "@Redfish.SettingsApplyTime" not in bios.compare(ask(smt=False), bmc("hpe", apply_times=["OnReset"])).body


# --- whose BIOS


@pytest.mark.parametrize("vendor", machines.ATTRIBUTES)
def test_a_platform_is_known_by_its_name_and_by_its_attributes(vendor: str) -> None:
    machine = bmc(vendor)
    known = "supermicro" if vendor.startswith("super") else vendor.removesuffix("_amd")
    assert bios.platform(machine) == known
    machine.update(manufacturer="", model="")
    if vendor != "dell_amd" or "SysProfile" in machine["bios"]["current"]:
        assert bios.platform(machine) == known


def test_boards_of_other_makers_and_unknown_ones() -> None:
    grace = bmc("nvidia_grace")
    grace["manufacturer"] = "Supermicro"
    assert bios.platform(grace) == "nvidia_grace"
    assert bios.platform(machines.machine({"Foo": 1}, maker=("Super Micro Computer, Inc.", ""))) == "supermicro"
    assert bios.platform(machines.machine({"Foo": 1}, maker=("Hewlett Packard Enterprise", ""))) == "hpe"
    strange = machines.machine({"HyperThreads": "Enabled", "Watchdog": 5}, maker=("ACME", "X"))
    assert bios.platform(strange) == bios.platform(None) == ""
    found = bios.compare(ask(smt=False, attributes={"HyperThreads": "Disabled"}), strange)
    assert found.requested == {"HyperThreads": "Disabled"} and found.unsupported == ["smt"]  # raw attributes still work
    assert "bios_attributes" in found.reasons["smt"]


# --- the traps


def test_a_settings_resource_that_repeats_everything_is_not_pending() -> None:
    for vendor in ("lenovo", "nvidia_dgx", "supermicro"):
        machine = bmc(vendor)
        assert machine["bios"]["settings"] == machine["bios"]["current"]
        found = bios.compare(ask(virtualization=True), machine)
        assert not found.reset_required and found.foreign_pending == {} and found.warnings == []


def test_dell_shows_values_before_the_job_has_run() -> None:
    machine = submitted(bmc("dell"), bios.compare(ask(smt=False), bmc("dell")).body, job=True)
    assert machine["bios"]["current"]["LogicalProc"] == "Disabled"
    assert bios.compare(ask(smt=False), machine).pending == {"LogicalProc": "Disabled"}
    machine["bios"]["settings"] = {}  # some do not even tell what is pending
    found = bios.compare(ask(smt=False, virtualization=True), machine)
    assert found.pending == {"LogicalProc": "Disabled", "ProcVirtualization": "Enabled"} and found.body == {}


def test_a_job_of_others_makes_nothing_doubtful_that_it_does_not_name() -> None:
    machine = submitted(bmc("dell"), {"Attributes": {"OsWatchdogTimer": "Enabled"}}, job=True)
    found = bios.compare(ask(virtualization=True), machine)
    assert not found.reset_required
    assert found.foreign_pending == {"OsWatchdogTimer": {"current": "Enabled", "pending": "Enabled"}}


def test_what_is_pending_on_dell_without_a_job_is_submitted_again() -> None:
    """The BMC died between the values and the job: no reset would apply them."""
    found = bios.compare(ask(smt=False), bmc("dell", {"LogicalProc": "Disabled"}))
    assert found.requested == {"LogicalProc": "Disabled"} and "without a job" in found.warnings[0]
    assert bios.compare(ask(smt=False), bmc("hpe", {"ProcHyperthreading": "Disabled"})).pending


def test_inverted_names_say_what_their_text_says() -> None:
    """ProcessorHyperThreadingDisable: Enabled is Hyper-Threading on, unless the registry's own text is inverted, too."""
    assert not bios.compare(ask(smt=True), bmc("nvidia_dgx")).reset_required
    unread = bmc("nvidia_dgx", with_registry=False)
    assert bios.needs_registry(ask(smt=True), unread)  # only it knows
    odd = bmc("nvidia_dgx")
    odd["registry"]["ProcessorHyperThreadingDisable"]["text"] = "Disable Hyper-Threading"
    assert bios.compare(ask(smt=False), odd).requested == {}
    assert bios.compare(ask(smt=True), odd).requested == {"ProcessorHyperThreadingDisable": "Disabled"}


def test_supermicro_by_stem_and_by_display_name() -> None:
    for name in ("SR_IOVSupport_0047", "SR_IOVSupport_002B", "SR_IOVSupport"):
        machine = machines.machine({name: "Disabled"}, maker=("Supermicro", ""))
        assert bios.compare(ask(sriov=True), machine).requested == {name: "Enabled"}
    renamed = machines.machine({"PCIS007_0001": "Disabled", "SR_IOVSupporter_0002": "Disabled"}, maker=("Supermicro", ""))
    assert bios.compare(ask(sriov=True), renamed).unsupported == ["sriov"]
    assert bios.needs_registry(ask(sriov=True), renamed)
    renamed["registry"] = machines.registry(renamed["bios"]["current"])
    renamed["registry"]["PCIS007_0001"]["text"] = "SR-IOV Support"
    assert bios.compare(ask(sriov=True), renamed).requested == {"PCIS007_0001": "Enabled"}


def test_raw_names_without_or_with_an_old_suffix() -> None:
    machine = bmc("supermicro")
    for raw in ("SR_IOVSupport", "SR_IOVSupport_0047"):
        assert bios.compare(ask(attributes={raw: "Enabled"}), machine).requested == {"SR_IOVSupport_002B": "Enabled"}
    (problem,) = bios.compare(ask(attributes={"HotPlug": "Disabled"}), machine).problems
    assert "HotPlug_00E6, HotPlug_00EF" in problem.fix


@pytest.mark.parametrize(
    ("present", "off"),
    [("Enabled", "Disabled"), ("Enable", "Disable"), ("enabled", "disabled"), ("ON", "OFF"), ("Yes", "No"), ("true", "false"),
     ("1", "0"), (True, False), (1, 0)],
)  # fmt: skip
def test_a_switch_is_spelled_as_it_is_present(present: Any, off: Any) -> None:
    machine = machines.machine({"LogicalProc": present}, maker=("Dell Inc.", ""))
    assert not bios.compare(ask(smt=True), machine).reset_required
    (value,) = bios.compare(ask(smt=False), machine).requested.values()
    assert value == off and type(value) is type(off)


def test_the_registry_decides_the_spelling() -> None:
    machine = bmc("dell")
    machine["registry"]["LogicalProc"].update(values=["LpOn", "LpOff"], display={"LpOn": "Enabled", "LpOff": "Disabled"})
    machine["bios"]["current"]["LogicalProc"] = "LpOn"
    assert not bios.compare(ask(smt=True), machine).reset_required
    assert bios.compare(ask(smt=False), machine).requested == {"LogicalProc": "LpOff"}
    machine["registry"]["SubNumaCluster"]["values"] = ["Disabled", "Enabled"]
    assert bios.compare(ask(numa_per_socket=2), machine).requested == {"SubNumaCluster": "Enabled"}
    found = bios.compare(ask(numa_per_socket=4), machine)
    assert found.unsupported == ["numa_per_socket"] and "Disabled, Enabled" in found.reasons["numa_per_socket"]


def test_the_registry_is_read_only_where_it_helps() -> None:
    machine = bmc("dell", with_registry=False)
    assert not bios.needs_registry(ask(virtualization=True, acs=True), machine)
    assert bios.needs_registry(ask(smt=False), machine)
    machine["bios"]["registry"] = ""
    assert not bios.needs_registry(ask(smt=False), machine)
    assert not bios.needs_registry(ask(smt=False), None)
    assert not bios.needs_registry(ask(smt=False), bmc("dell"))  # it was


# --- raw attributes


def test_raw_attributes_win() -> None:
    found = bios.compare(ask(smt=False, attributes={"LogicalProc": "Enabled"}), bmc("dell"))
    assert not found.reset_required and found.words == {"LogicalProc": "LogicalProc"}


def test_raw_values_are_compared_by_type() -> None:
    machine = bmc("dell")
    for value in (120, "120"):
        assert not bios.compare(ask(attributes={"AcPwrRcvryUserDelay": value}), machine).reset_required
    assert bios.compare(ask(attributes={"AcPwrRcvryUserDelay": "60"}), machine).requested == {"AcPwrRcvryUserDelay": 60}
    assert bios.compare(ask(attributes={"OsWatchdogTimer": "enabled"}), machine).requested == {"OsWatchdogTimer": "Enabled"}
    assert bios.compare(ask(attributes={"OsWatchdogTimer": True}), machine).requested == {"OsWatchdogTimer": "Enabled"}
    unread = bmc("dell", with_registry=False)
    assert bios.compare(ask(attributes={"AcPwrRcvryUserDelay": "60"}), unread).requested == {"AcPwrRcvryUserDelay": 60}


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("SysProfile", "Fast", "PerfOptimized, PerfPerWattOptimizedDapc, Custom"), ("AcPwrRcvryUserDelay", "soon", "0 to 255"),
        ("AcPwrRcvryUserDelay", 256, "0 to 255"), ("SystemServiceTag", "X", "leave it out"),
        ("SetupPassword", "hunter2", "vendor's own tool"),
    ],
)  # fmt: skip
def test_a_raw_value_that_is_refused_is_one_problem(name: str, value: Any, hint: str) -> None:
    found = bios.compare(ask(attributes={name: value}), bmc("dell"))
    (problem,) = found.problems
    assert (problem.variable, problem.kind) == ("bios_attributes", "intent") and hint in problem.fix
    assert found.requested == {} and "hunter2" not in repr(found)


def test_a_word_that_yaml_took_for_a_switch() -> None:
    machine = machines.machine({"TpmSecurity": "On", "Other": "Auto"}, maker=("Dell Inc.", ""))
    assert bios.compare(ask(attributes={"TpmSecurity": False}), machine).requested == {"TpmSecurity": "Off"}
    (problem,) = bios.compare(ask(attributes={"Other": False}), machine).problems
    assert "quotes" in problem.fix


def test_an_attribute_that_is_not_there() -> None:
    found = bios.compare(ask(attributes={"LogicalProcs": "Disabled"}), bmc("dell"))
    assert found.unsupported == ["LogicalProcs"] and "LogicalProc" in found.reasons["LogicalProcs"] and not found.problems
    (problem,) = bios.compare(ask(attributes={"LogicalProcs": "Disabled"}, strict=True), bmc("dell")).problems
    assert problem.variable == "bios_attributes"


def test_strict() -> None:
    (problem,) = bios.compare(ask(acs=True, strict=True), bmc("dell")).problems
    assert (problem.variable, problem.value) == ("bios_settings", "acs") and "bios_strict" in problem.fix


# --- dependent and read-only attributes


def test_a_profile_becomes_custom_only_where_it_must() -> None:
    assert "SysProfile" not in bios.compare(ask(smt=False), bmc("dell")).requested
    assert "SysProfile" not in bios.compare(ask(turbo=True), bmc("dell")).wanted  # it is on already
    found = bios.compare(ask(turbo=False), bmc("dell"))
    assert found.requested["SysProfile"] == "Custom" and "SysProfile becomes Custom" in found.warnings[0]


def test_a_profile_that_was_asked_for_is_not_overridden() -> None:
    found = bios.compare(ask(turbo=False, attributes={"SysProfile": "PerfOptimized"}), bmc("dell"))
    (problem,) = found.problems
    assert "only while it is Custom" in problem.message and "leave out turbo" in problem.fix
    assert not bios.compare(ask(turbo=False, attributes={"SysProfile": "Custom"}), bmc("dell")).problems


def test_a_profile_by_word_gives_way_to_single_words() -> None:
    found = bios.compare(ask(power_profile="performance", p_states=False), bmc("lenovo_amd"))
    assert found.unsupported == ["power_profile"] and found.requested["OperatingModes_ChooseOperatingMode"] == "CustomMode"
    assert bios.compare(ask(power_profile="performance"), bmc("lenovo_amd")).requested == {
        "OperatingModes_ChooseOperatingMode": "MaximumPerformance"}  # fmt: skip


def test_dependencies_of_the_registry_are_looked_at_with_what_is_wanted() -> None:
    machine = bmc("hpe")
    rules = [depends("Sriov", "GrayOut", ("IntelProcVtd", "EQU", "Disabled"))]
    machine["registry"]["@dependencies"] = rules
    (problem,) = bios.compare(ask(sriov=False), machine).problems
    assert "Sriov is greyed out while IntelProcVtd is Disabled" in problem.message and problem.kind == "host"
    assert bios.compare(ask(sriov=False, iommu=True), machine).requested == {"IntelProcVtd": "Enabled", "Sriov": "Disabled"}
    assert not bios.compare(ask(sriov=True), machine).problems  # it is so already


def test_a_dependency_on_the_profile_makes_it_custom() -> None:
    machine = bmc("hpe")
    machine["registry"]["@dependencies"] = [depends("Sriov", "ReadOnly", ("WorkloadProfile", "NEQ", "Custom"))]
    assert bios.compare(ask(sriov=False), machine).requested == {"WorkloadProfile": "Custom", "Sriov": "Disabled"}


@pytest.mark.parametrize(
    ("rule", "is_blocked"),
    [
        (depends("LogicalProc", "Hidden", ("BootMode", "EQU", "Uefi"), ("SysProfile", "EQU", "Custom")), False),
        (depends("LogicalProc", "Hidden", ("BootMode", "EQU", "uefi"), ("NodeInterleave", "NEQ", "Enabled")), True),
        (depends("LogicalProc", "ReadOnly", ("AcPwrRcvryUserDelay", "GTR", 119)), True),
        (depends("LogicalProc", "ReadOnly", ("AcPwrRcvryUserDelay", "GEQ", 121)), False),
        (depends("LogicalProc", "ReadOnly", ("AcPwrRcvryUserDelay", "LSS", 121)), True),
        (depends("LogicalProc", "ReadOnly", ("AcPwrRcvryUserDelay", "LEQ", 119)), False),
        (depends("LogicalProc", "ReadOnly", ("BootMode", "GTR", 1)), False),
        (depends("LogicalProc", "CurrentValue", ("BootMode", "EQU", "Uefi")), False),
        (depends("OsWatchdogTimer", "ReadOnly", ("BootMode", "EQU", "Uefi")), False),
        (depends("LogicalProc", "ReadOnly", ("Nowhere", "EQU", "x")), False),
    ],
)  # fmt: skip
def test_conditions_of_dependencies(rule: Doc, is_blocked: bool) -> None:
    machine = bmc("dell")
    machine["registry"]["@dependencies"] = [rule]
    found = bios.compare(ask(smt=False), machine)
    assert bool(found.problems) is is_blocked and ("LogicalProc" in found.requested) is not is_blocked


def test_later_dependencies_win_and_or_joins() -> None:
    machine = bmc("dell")
    block, free = depends("LogicalProc", "ReadOnly", ("BootMode", "EQU", "Uefi")), depends(
        "LogicalProc", "ReadOnly", ("SysProfile", "NEQ", "Custom"), value=False)  # fmt: skip
    machine["registry"]["@dependencies"] = [block, free]
    assert not bios.compare(ask(smt=False), machine).problems
    either = depends("LogicalProc", "ReadOnly", ("BootMode", "EQU", "Bios"), ("OsWatchdogTimer", "EQU", "Disabled"))
    either["Dependency"]["MapFrom"][1]["MapTerms"] = "OR"
    machine["registry"]["@dependencies"] = [either]
    assert bios.compare(ask(smt=False), machine).problems


def test_what_is_always_read_only() -> None:
    machine = bmc("dell")
    machine["registry"]["LogicalProc"]["read_only"] = True
    found = bios.compare(ask(smt=False), machine)
    assert found.unsupported == ["smt"] and "read-only" in found.reasons["smt"] and not found.body
    assert bios.compare(ask(smt=True), machine).unsupported == []  # as it is, it is right
    machine["registry"]["LogicalProc"].update(read_only=False, hidden=True)
    assert bios.compare(ask(smt=False), machine).unsupported == ["smt"]


def test_a_word_that_is_done_in_part_says_so() -> None:
    machine = bmc("dell")
    machine["registry"]["ProcC1E"]["read_only"] = True
    found = bios.compare(ask(c_states=False), machine)
    assert set(found.requested) == {"ProcCStates", "SysProfile"} and "ProcC1E is read-only" in found.warnings[0]


def test_one_attribute_for_two_words() -> None:
    """VT-d comes with VT-x on Dell's Intel machines."""
    machine = bmc("dell")
    machine["bios"]["current"]["ProcVirtualization"] = "Disabled"
    options = ask(virtualization=True, iommu=True)
    assert bios.compare(options, machine).requested == {"ProcVirtualization": "Enabled"}
    assert bios.turning_on(options, machine, "iommu") and bios.turning_on(options, machine, "virtualization")
    (problem,) = bios.compare(ask(virtualization=True, iommu=False), machine).problems
    assert "the same attribute here (ProcVirtualization)" in problem.message


# --- what others left pending


def test_foreign_values_are_kept_cleared_or_refused() -> None:
    hpe = bmc("hpe", {"BootMode": "LegacyBios", "ProcHyperthreading": "Disabled"})
    kept = bios.compare(ask(smt=False), hpe)
    assert kept.foreign_pending == {"BootMode": {"current": "Uefi", "pending": "LegacyBios"}}
    assert kept.body == {} and "BootMode: LegacyBios" in kept.warnings[0] and not kept.clear
    cleared = bios.compare(ask(smt=False, foreign="clear"), hpe)
    assert cleared.clear and cleared.body == {"Attributes": {"BootMode": "Uefi"}}
    assert cleared.pending == {"ProcHyperthreading": "Disabled"} and cleared.requested == {}
    (problem,) = bios.compare(ask(smt=False, foreign="fail"), hpe).problems
    assert (problem.variable, problem.kind) == ("bios_foreign_pending", "host")
    assert bios.compare(ask(smt=False, foreign="fail"), bmc("hpe")).problems == []


def test_a_bmc_that_clears_everything_is_told_ours_again() -> None:
    machine = submitted(bmc("dell", clear_action="/clear"), {"Attributes": {"LogicalProc": "Disabled", "BootMode": "Bios"}}, job=True)
    machine["bios"]["current"].update(LogicalProc="Enabled", BootMode="Uefi")
    found = bios.compare(ask(smt=False, foreign="clear"), machine)
    assert found.clear and found.body["Attributes"] == {"LogicalProc": "Disabled"} and found.pending == {}


def test_our_word_against_what_is_pending() -> None:
    back = bmc("hpe", {"ProcHyperthreading": "Disabled"})
    found = bios.compare(ask(smt=True), back)  # in force, but the next reset would undo it
    assert found.body == {"Attributes": {"ProcHyperthreading": "Enabled"}} and found.foreign_pending == {}
    assert "taken back" in found.warnings[0] and not found.reset_required
    other = bmc("hpe", {"PowerRegulator": "StaticLowPower"})
    other["bios"]["current"]["WorkloadProfile"] = "Custom"
    found = bios.compare(ask(attributes={"PowerRegulator": "OsControl"}), other)
    assert found.requested == {"PowerRegulator": "OsControl"} and "replaced" in found.warnings[0] and found.reset_required


# --- reading


def test_what_cannot_be_read() -> None:
    machine = bmc("dell")
    machine["error"] = "the BMC refused the name or password"
    (problem,) = bios.compare(ask(smt=False), machine).problems
    assert (problem.variable, problem.kind) == ("bios_baseuri", "host") and "refused the name" in problem.message
    for part in (None, {}, {"current": {}}):
        (problem,) = bios.compare(ask(smt=False), {"uri": "https://x", "error": "", "bios": part}).problems
        assert "no BIOS attributes" in problem.message
    assert bios.compare(ask(smt=False), None) == bios.Comparison()
    for helper in (bios.needs_registry, bios.topology_changes):
        assert not helper(ask(smt=False), machine)


def test_secure_boot_is_compared_and_never_set() -> None:
    machine = bmc("dell")
    machine["secure_boot"] = True
    assert bios.compare(ask(secure_boot=True), machine) == bios.compare(ask(), machine)
    (problem,) = bios.compare(ask(secure_boot=False), machine).problems
    assert "Secure Boot is on" in problem.message and problem.kind == "host"
    machine["secure_boot"] = None  # then the attribute tells
    assert bios.compare(ask(secure_boot=False), machine).problems == []
    assert bios.compare(ask(secure_boot=True), bmc("nvidia_grace")).unsupported == ["secure_boot"]


# --- what it means for others


def test_topology_changes() -> None:
    assert bios.topology_changes(ask(smt=False, sriov=True), bmc("dell")) == {"cpus": "smt becomes off"}
    assert bios.topology_changes(ask(numa_per_socket=2, smt=True), bmc("dell")) == {
        "nodes": "numa_per_socket becomes 2"
    }
    assert bios.topology_changes(ask(smt=False), bmc("hpe", {"ProcHyperthreading": "Disabled"})) == {
        "cpus": "smt becomes off"
    }
    assert bios.topology_changes(ask(sriov=True, smt=True), bmc("dell")) == {}
    assert bios.topology_changes(None, bmc("dell")) == bios.topology_changes(ask(smt=False), None) == {}


def test_turning_on() -> None:
    assert bios.turning_on(ask(sriov=True), bmc("dell"), "sriov")
    assert not bios.turning_on(ask(sriov=True), bmc("hpe"), "sriov")  # on already
    assert not bios.turning_on(ask(smt=False), bmc("dell"), "sriov")
    assert not bios.turning_on(ask(acs=True), bmc("dell"), "acs")  # not offered
    assert not bios.turning_on(None, bmc("dell"), "sriov")


# --- intent


@pytest.mark.parametrize(
    ("options", "value", "hint"),
    [
        (ask(hyperthreading=False), "hyperthreading", "did you mean smt?"),
        (ask(xyzzy=1), "xyzzy", "take one of smt"),
        (ask(sriov_=True), "sriov_", "did you mean sriov"),
        (ask(numa=2), "numa", "l3_as_numa"), (ask(c_state=False), "c_state", "c_states"),
        (ask(smt="perhaps"), "perhaps", "true, false"), (ask(smt=None), None, "true, false"), (ask(numa_per_socket=3), 3, "1, 2, 4"),
        (ask(power_profile="fast"), "fast", "performance, balanced, efficiency"), (ask(max_read_request=100), 100, "4096"),
        (ask(preset="virtualisation_performance"), "virtualisation_performance", "did you mean virtualization_performance"),
        (ask(attributes={"A": [1]}), "A", "A: Enabled"), (ask(attributes={"A": None}), "A", "A: Enabled"),
        (ask(attributes={"AdminPassword": "x"}), "AdminPassword", "vendor's own tool"),
    ],
)  # fmt: skip
def test_bad_intent(options: Doc, value: Any, hint: str) -> None:
    (problem,) = bios.intent_problems(options)
    assert problem.value == value and hint in problem.fix and problem.kind == "intent"


def test_good_intent_in_any_spelling() -> None:
    options = ask("storage_client", smt="off", iommu="Enabled", numa_per_socket="2", power_profile="Balanced", max_read_request="512")
    assert bios.intent_problems(options) == []
    wishes = bios.wishes(options)
    assert (wishes["smt"], wishes["iommu"], wishes["numa_per_socket"]) == (False, True, 2)
    assert wishes["power_profile"] == "balanced" and wishes["max_read_request"] == 512  # words win over the preset
    assert wishes["sriov"] is True


def test_tables_know_only_words_and_values_that_there_are() -> None:
    for name, table in maps.TABLES.items():
        assert table.sources, name
        for word, settings in table.words.items():
            for setting in settings:
                assert set(setting.values) <= set(bios.WORDS[word].values), (name, word)
                assert all(setting.values.values()), (name, word)
    for preset in bios.PRESETS.values():
        assert bios.intent_problems(ask(**preset)) == []


def test_the_page_names_every_attribute() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "bios.md").read_text()
    for table in maps.TABLES.values():
        assert table.profile is None or f"`{table.profile.name}`" in page
        for word, settings in table.words.items():
            assert f"| `{word}`" in page
            for setting in settings:
                for name in setting.names if not setting.every else ("SocketNPcieNAdvertiseACS",):
                    assert f"`{name.removeprefix('Processors_') if word == 'prefetchers' else name}`" in page, name


# --- properties

VENDORS = st.sampled_from(sorted(machines.ATTRIBUTES))
SETTINGS = st.fixed_dictionaries(
    {}, optional={w.name: st.sampled_from(w.values) for w in bios.WORDS.values() if not w.read_only}
)  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> tuple[Doc, Doc]:
    vendor = draw(VENDORS)
    machine = bmc(vendor, with_registry=draw(st.booleans()))
    current = machine["bios"]["current"]
    names = draw(st.lists(st.sampled_from(sorted(current)), max_size=3, unique=True))
    raw = {}
    for name in names:
        values = machines.registry(current)[name]["values"] or [current[name]]
        raw[name] = draw(st.sampled_from(values))
    others = draw(st.sampled_from([{}, {"OsWatchdogTimer": "Enabled"}, {"BootMode": "LegacyBios"}]))
    machine["bios"]["settings"].update({k: v for k, v in others.items() if k in current})
    if machine["registry"]:
        for name in draw(st.lists(st.sampled_from(sorted(current)), max_size=2)):
            machine["registry"][name]["read_only"] = True
    options = ask(attributes={k: v for k, v in raw.items() if v is not None}, foreign=draw(st.sampled_from(["keep", "clear"])),
                  preset=draw(st.sampled_from(["", *bios.PRESETS])), **draw(SETTINGS))  # fmt: skip
    return options, machine


@host_states.unhurried
@given(cases())
def test_what_was_submitted_and_booted_leaves_nothing(case: tuple[Doc, Doc]) -> None:
    options, machine = case
    first = bios.compare(options, machine)
    waiting = submitted(machine, first.body, job=bios.platform(machine) == "dell") if first.body else machine
    second = bios.compare(options, waiting)
    if not second.foreign_pending:
        assert second.body == {}
    assert set(second.pending) == {*first.requested, *first.pending}
    last = bios.compare(options, machines.booted(waiting))
    assert (last.body, last.pending, last.clear) == ({}, {}, False)


@host_states.unhurried
@given(cases())
def test_what_is_read_only_is_never_sent_and_raw_attributes_win(case: tuple[Doc, Doc]) -> None:
    options, machine = case
    found = bios.compare(options, machine)
    for name, value in found.body.get("Attributes", {}).items():
        told = (machine["registry"] or {}).get(name)
        assert not (told or {}).get("read_only") and value is not None
        if told and told["type"] == "Enumeration":
            assert value in told["values"]
    for name, value in options["attributes"].items():
        if name in found.wanted:
            assert str(found.wanted[name]).casefold() == str(value).casefold() and found.words[name] == name
