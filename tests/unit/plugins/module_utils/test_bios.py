"""The capability bios: its steps, its one call, the one reboot, and what others make of it."""

from __future__ import annotations

import json
from typing import Any

import bios_machines as machines
import host_states
import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import loop
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities import (
    bios,
    gpu_passthrough,
    iommu,
    kernel_args,
    nic_firmware,
    sriov,
)
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric import intent as fabric_intent
from ansible_collections.nearmetal.rack.plugins.plugin_utils.intent import CAPABILITIES, read_intent
from bios_machines import bmc, submitted
from fabric_hosts import PF0, Rack
from fabric_hosts import options as fabric_options
from fabric_hosts import pf as pf_options

Doc = dict[str, Any]
SECRET = "correct horse battery"


def options(**given: Any) -> Doc:
    """As read_intent gives them."""
    connection = {"bios_baseuri": "https://10.0.0.1", "bios_username": "root", "bios_password": SECRET}
    variables = {**connection, **{f"bios_{name}": value for name, value in given.items()}}
    intent, found = read_intent(variables, lambda value: value, ("bios",))
    assert found == []
    return intent["bios"]


def state(machine: Doc | None, threads: int = 2, last: Doc | None = None) -> Any:
    made = host_states.state()
    made["cpu"].update(threads_per_core=threads, smt="on" if threads > 1 else "off", arch="x86_64", vendor="GenuineIntel")
    made["kernel"].update(boot_id="b2", lockdown="none")
    made["iommu"] = {"groups": 0, "types": {}, "units": [], "tables": ["DMAR"]}
    return {**made, "bmc": machine, "last_reboot": last, "firmware": None, "pcie": {}}


def test_a_step_for_each_word_and_raw_attribute() -> None:
    wanted = options(settings={"smt": False, "sriov": True, "c_states": False}, attributes={"OsWatchdogTimer": "Enabled"})
    found = bios.decide(wanted, state(bmc("dell")))
    steps = {s.key: s for s in found.steps}
    assert set(steps) == {"smt", "sriov", "c_states", "OsWatchdogTimer", "SysProfile"}
    assert all(s.disruption == "reboot" for s in found.steps)
    assert (steps["smt"].before, steps["smt"].after) == ("on (LogicalProc=Enabled)", "off (LogicalProc=Disabled)")
    assert steps["c_states"].after == "off (ProcCStates=Disabled ProcC1E=Disabled)"
    assert (steps["OsWatchdogTimer"].before, steps["OsWatchdogTimer"].after) == (
        "OsWatchdogTimer=Disabled", "OsWatchdogTimer=Enabled")  # fmt: skip
    assert "others" in steps["SysProfile"].reason
    assert steps["smt"].verify == "attribute LogicalProc is Disabled in /redfish/v1/Systems/1/Bios, and nothing of it is pending"
    assert found.call is not None and found.call.module == "nearmetal.rack.bios_settings"
    assert found.call.args == {
        "settings": {"smt": False, "sriov": True, "c_states": False}, "preset": "", "strict": False, "foreign_pending": "keep",
        "attributes": {"OsWatchdogTimer": "Enabled"},
    }  # fmt: skip


def test_no_step_once_it_is_in_force_and_none_but_the_reboot_while_it_waits() -> None:
    wanted = options(settings={"smt": False})
    machine = bmc("dell")
    body = {"Attributes": {"LogicalProc": "Disabled"}}
    waiting = submitted(machine, body, job=True)
    found = bios.decide(wanted, state(waiting))
    (step,) = found.steps
    assert found.call is None and "submitted, but not in force before a reset" in step.before and step.disruption == "reboot"
    done = bios.decide(wanted, state(machines.booted(waiting), threads=1))
    assert (done.steps, done.call, done.problems, done.warnings) == ((), None, (), ())


def test_many_attributes_are_not_all_listed() -> None:
    (step,) = bios.decide(options(settings={"acs": False}), state(bmc("nvidia_grace"))).steps
    assert step.after.startswith("off (Socket0Pcie0AdvertiseACS=False") and step.after.endswith("and 2 more)")


def test_foreign_values_that_are_cleared_need_no_reboot() -> None:
    machine = bmc("hpe", {"BootMode": "LegacyBios"})
    found = bios.decide(options(settings={"smt": True}, foreign_pending="clear"), state(machine))
    (step,) = found.steps
    assert (step.key, step.before, step.disruption) == ("foreign_pending", "BootMode=LegacyBios", "none") and found.call
    kept = bios.decide(options(settings={"smt": True}), state(machine))
    assert kept.steps == () and kept.call is None and "BootMode: LegacyBios" in kept.warnings[0]
    (problem,) = bios.decide(options(settings={"smt": True}, foreign_pending="fail"), state(machine)).problems
    assert problem.kind == "host"


def test_what_a_machine_does_not_offer_is_said() -> None:
    found = bios.decide(options(settings={"smt": True, "ats": True}), state(bmc("dell")))
    assert found.steps == () and any("ats is not offered" in w and "iommu_ats" in w for w in found.warnings)
    (problem,) = bios.decide(options(settings={"ats": True}, strict=True), state(bmc("dell"))).problems
    assert problem.variable == "bios_settings"


def test_a_bmc_that_cannot_be_read_stops_the_host() -> None:
    broken = {"uri": "https://10.0.0.1", "error": "its certificate is not trusted: set bios_ca_path"}
    (problem,) = bios.decide(options(settings={"smt": False}), state(broken)).problems
    assert (problem.kind, problem.variable) == ("host", "bios_baseuri") and "certificate" in problem.message
    (problem,) = bios.decide(options(settings={"smt": False}), state(None)).problems
    assert "not read" in problem.message
    assert bios.decide(options(), state(None)) == bios.decide(options(), state(bmc("dell")))  # credentials alone ask nothing
    assert bios.decide(options(settings={"smt": False}), {**state(None), "live": False}).warnings


@pytest.mark.parametrize(
    ("given", "variable", "hint"),
    [
        ({"settings": {"smt": False}, "baseuri": ""}, "bios_baseuri", "https://ADDRESS"),
        ({"settings": {"smt": False}, "baseuri": "10.0.0.1"}, "bios_baseuri", "https://ADDRESS"),
        ({"settings": {"smt": False}, "baseuri": f"https://root:{SECRET}@10.0.0.1"}, "bios_baseuri", "bios_password"),
        ({"settings": {"smd": False}}, "bios_settings", "did you mean smt"),
    ],
)  # fmt: skip
def test_bad_options(given: Doc, variable: str, hint: str) -> None:
    (problem,) = bios.problems(options(**given))
    assert problem.variable == variable and hint in problem.fix
    assert SECRET not in repr(problem)
    assert bios.problems(options(baseuri="")) == []


def test_no_second_reboot_in_vain() -> None:
    wanted, machine = options(settings={"smt": False}), bmc("hpe", {"ProcHyperthreading": "Disabled"})
    machine["bios"]["messages"] = ["Base.1.0.Success", "iLO.2.14.UnsupportedOperation: ProcHyperthreading"]
    (step,) = bios.decide(wanted, state(machine)).steps
    last = {"boot_id": "b1", "reason": "x", "wanted": f"{step.id}={step.after}"}
    (problem,) = bios.decide(wanted, state(machine, last=last)).problems
    assert "UnsupportedOperation" in problem.message and "Success" not in problem.message and problem.kind == "host"
    assert not bios.decide(wanted, state(machine, last={**last, "boot_id": "b2"})).problems  # that boot still runs
    assert not bios.decide(wanted, state(machine, last={**last, "wanted": "bios/sriov=on"})).problems


def test_the_kernel_has_the_last_word_about_smt() -> None:
    machine = bmc("dell")
    machine["bios"]["current"]["LogicalProc"] = "Disabled"
    (warning,) = bios.decide(options(settings={"smt": False}), state(machine, threads=2)).warnings
    assert "2 threads per core" in warning and "BMC of this host" in warning
    assert not bios.decide(options(settings={"smt": False}), state(machine, threads=1)).warnings
    on = state(bmc("dell"), threads=1)
    on["cpu"]["smt"] = "notsupported"
    assert "sees no SMT" in bios.decide(options(settings={"smt": True}), on).warnings[0]


def test_other_cpus_after_the_reboot_are_announced() -> None:
    assert bios.decide(options(settings={"smt": False}), state(bmc("dell"))).moves == {"cpus": "smt becomes off"}
    assert bios.decide(options(settings={"sriov": True}), state(bmc("dell"))).moves == {}


# --- together with others


def test_one_reboot_for_bios_and_kernel_arguments_and_no_secret_in_the_plan() -> None:
    intent = {"bios": options(settings={"smt": False, "iommu": True}), "iommu": {"mode": "passthrough", "strict": None}}
    capabilities = {"bios": bios, "iommu": iommu, "kernel_args": kernel_args}
    plan = loop.decide(intent, state(bmc("hpe")), capabilities)
    assert plan["problems"] == [] and plan["reboot"] and not plan["power_cycle"]
    assert [s["id"] for s in plan["steps"]].count("reboot/reboot") == 1
    assert set(plan["steps"][-1]["requires"]) == {"kernel_args/cmdline", "bios/smt", "bios/iommu"}
    assert set(plan["roles"]) == {"kernel_args", "bios"}
    assert SECRET not in json.dumps(plan) and "10.0.0.1" not in json.dumps(plan["calls"])


def test_one_power_cycle_for_bios_and_nic_firmware() -> None:
    made = state(bmc("dell"))
    made["pci"] = [{"address": "0000:17:00.0", "vendor": "0x15b3", "class": "0x020000", "physfn": "", "driver": "mlx5_core"}]
    values = {"NUM_OF_VFS": {"default": "8", "current": "8", "next": "8"}}
    made["firmware"] = {"0000:17:00.0": {"tool": "mstconfig", "values": values, "error": ""}}
    firmware = {"settings": {"NUM_OF_VFS": 16}, "cards": [], "fit_vfs": False, "tool": "auto", "load": "auto"}
    plan = loop.decide({"bios": options(settings={"sriov": True}), "nic_firmware": firmware}, made,
                       {"bios": bios, "nic_firmware": nic_firmware})  # fmt: skip
    assert plan["power_cycle"] and [s["id"] for s in plan["steps"]] == ["bios/sriov", "nic_firmware/0000:17:00", "reboot/reboot"]


def test_an_iommu_that_the_bios_switches_on_stops_nobody() -> None:
    made = state(bmc("hpe"))
    made["kernel"]["cmdline"] = made["boot"]["configured"] = "quiet intel_iommu=on iommu=pt"
    asked = {"mode": "passthrough", "strict": None}
    (problem,) = iommu.decide({**asked, "nic_firmware": None, "bios": None}, made).problems
    assert "bios_settings: {iommu: true}" in problem.fix
    plan = loop.decide({"bios": options(settings={"iommu": True}), "iommu": asked}, made, {"bios": bios, "iommu": iommu})
    assert plan["problems"] == [] and [s["id"] for s in plan["steps"]] == ["bios/iommu", "reboot/reboot"]
    done = submitted(made["bmc"], {"Attributes": {"IntelProcVtd": "Enabled"}}, job=False)
    made["bmc"] = machines.booted(done)  # on in the BIOS, and still none in use
    plan = loop.decide({"bios": options(settings={"iommu": True}), "iommu": asked}, made, {"bios": bios, "iommu": iommu})
    assert plan["problems"]


def test_gpus_wait_for_the_iommu_and_for_acs() -> None:
    made = state(bmc("hpe"))
    function = {"address": "0000:3b:00.0", "vendor": "0x10de", "device": "0x2330", "class": "0x030200", "iommu_group": None,
                "driver": "", "physfn": "", "parent": ""}  # fmt: skip
    made["pci"] = [function]
    asked = {"devices": ["0000:3b:00.0"], "driver": "vfio-pci", "keep_off": [], "accept_console": False, "iommu": None}
    found = gpu_passthrough.decide({**asked, "bios": options(settings={"iommu": True})}, made)
    assert not found.problems and all(s.requires == ("bios/iommu", "reboot") for s in found.steps) and found.steps
    assert gpu_passthrough.decide({**asked, "bios": None}, made).problems
    foreign = {**function, "address": "0000:3c:00.0", "class": "0x020000", "iommu_group": 7}
    made["pci"], made["bmc"] = [{**function, "iommu_group": 7}, foreign], bmc("supermicro")
    assert gpu_passthrough.decide({**asked, "bios": None}, made).problems
    found = gpu_passthrough.decide({**asked, "bios": options(settings={"acs": True})}, made)
    assert not found.problems and all(s.requires == ("bios/acs", "reboot") for s in found.steps) and found.steps
    assert any("ACS is switched on in the BIOS" in w for w in found.warnings)


def test_vfs_wait_for_sriov_and_for_the_iommu() -> None:
    rack = Rack(iommu=False)
    made = rack.state()
    for one in made["fabric"]["pfs"]:
        one.update(sriov_total=0, sriov_capable=True)
    made["bmc"] = bmc("supermicro")
    wanted = fabric_options(sriov_pfs=[pf_options(PF0, driver="vfio-pci")])["sriov"]
    assert fabric_intent.problems(wanted, None) == []
    alone = sriov.decide(wanted, made)
    assert any("SR-IOV" in p.message for p in alone.problems) and any("vfio-pci" in p.message for p in alone.problems)
    found = sriov.decide({**wanted, "bios": options(settings={"sriov": True, "iommu": True})}, made)
    assert found.problems == () and found.steps and all("reboot" in step.requires for step in found.steps)


def test_the_capability_is_found_and_reads_nobody() -> None:
    assert CAPABILITIES["bios"] is bios or CAPABILITIES["bios"].MODULE == bios.MODULE
    assert bios.AFTER == () and bool(bios.cmdline({}, state(None))) is False
    for reader in (iommu, sriov, gpu_passthrough):
        assert "bios" in reader.READS
