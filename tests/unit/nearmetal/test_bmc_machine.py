"""The model of a machine behind a BMC: what it takes, what waits, what a boot does with it."""

from __future__ import annotations

from typing import Any

import pytest
from bmc_client import ASKED

from nearmetal.bmc.machine import Machine, Refused, Switch
from nearmetal.bmc.traits import TRAITS, vendor_of

VENDORS = [vendor for vendor in TRAITS if vendor]
PLAIN = [vendor for vendor in VENDORS if not TRAITS[vendor].jobs]
COMMITTED = "IDRAC.2.8.SYS011"


class Recorder(Switch):
    """A power switch that writes down how it was used."""

    def __init__(self, reports_boot: bool = False) -> None:
        super().__init__()
        self.reports_boot = reports_boot
        self.used: list[tuple[str, bool]] = []

    def on(self) -> None:
        self.used.append(("on", False))
        super().on()

    def off(self, graceful: bool = False) -> None:
        self.used.append(("off", graceful))
        super().off(graceful)

    def reset(self, graceful: bool = False) -> None:
        self.used.append(("reset", graceful))
        super().reset(graceful)


def machine(vendor: str) -> tuple[Machine, dict[str, Any], dict[str, Any]]:
    """A machine, what is asked of it, and what it had before."""
    made = Machine.made_up(vendor)
    return made, ASKED[vendor], {name: made.current[name] for name in ASKED[vendor]}


def messages(made: Machine, asked: dict[str, Any], when: str | None = None) -> list[str]:
    """Names of the messages with which values are refused."""
    with pytest.raises(Refused) as caught:
        made.submit(asked, when)
    assert caught.value.status == 400
    return [message.rpartition(".")[2] for message, _words, _attribute in caught.value.errors]


@pytest.mark.parametrize("vendor", PLAIN)
def test_pending_until_boot(vendor: str) -> None:
    made, asked, before = machine(vendor)
    assert made.submit(asked) is None
    assert made.shown().items() >= before.items() and made.pending().items() >= asked.items()
    assert len(made.pending()) == (len(made.current) if made.traits.repeats_all else 1)
    assert made.boot_up() == asked
    assert made.shown().items() >= asked.items() and made.waiting == {}
    assert made.boot_up() == {}


@pytest.mark.parametrize("vendor", VENDORS)
def test_asking_for_the_present_value_withdraws(vendor: str) -> None:
    made, asked, before = machine(vendor)
    made.submit(asked)
    made.submit(before)
    assert made.waiting == {}


@pytest.mark.parametrize(
    ("vendor", "name", "value", "message"),
    [
        ("dell", "LogicalProc", "Perhaps", "PropertyValueNotInList"),
        ("dell", "LogicalProc", "enabled", "PropertyValueNotInList"),
        ("dell", "LogicalProc", True, "PropertyValueTypeError"),
        ("dell", "LogicalProc", None, "PropertyValueTypeError"),
        ("dell", "AcPwrRcvryUserDelay", "120", "PropertyValueTypeError"),
        ("dell", "AcPwrRcvryUserDelay", True, "PropertyValueTypeError"),
        ("dell", "AcPwrRcvryUserDelay", 241, "PropertyValueOutOfRange"),
        ("dell", "AcPwrRcvryUserDelay", -1, "PropertyValueOutOfRange"),
        ("dell", "AssetTag", "x" * 65, "StringValueTooLong"),
        ("dell", "SystemModelName", "R1", "PropertyNotWritable"),
        ("dell", "ProcCStates", "Disabled", "PropertyNotWritable"),
        ("dell", "logicalproc", "Disabled", "PropertyUnknown"),
        ("hpe", "SecureBootStatus", "Enabled", "PropertyNotWritable"),
        ("hpe", "ProcSMT", ["Disabled"], "PropertyValueTypeError"),
        ("lenovo", "SystemRecovery_POSTWatchdogTimerValue", 5.5, "PropertyValueTypeError"),
        ("supermicro", "SecureBootEnable_0122", "Enabled", "PropertyValueTypeError"),
        ("supermicro", "SecureBootEnable_0122", 1, "PropertyValueTypeError"),
        ("nvidia_dgx", "AdminPassword", 5, "PropertyValueTypeError"),
        ("nvidia_grace", "EGM", "true", "PropertyValueTypeError"),
        ("nvidia_grace", "ActiveCores", True, "PropertyValueTypeError"),
        ("nvidia_grace", "EmbeddedUefiShell", 1, "PropertyValueTypeError"),
        ("nvidia_grace", "Egm", True, "PropertyUnknown"),
    ],
)
def test_refused(vendor: str, name: str, value: Any, message: str) -> None:
    made, asked, _before = machine(vendor)
    version = made.version
    assert messages(made, {**asked, name: value}) == [message]
    assert made.waiting == {}, "the good value beside it was taken"
    assert made.version == version


@pytest.mark.parametrize(
    ("vendor", "name", "value"),
    [
        ("dell", "AcPwrRcvryUserDelay", 240), ("dell", "AssetTag", "x" * 64), ("nvidia_dgx", "AdminPassword", "new"),
        ("nvidia_grace", "ActiveCores", 72), ("nvidia_grace", "EmbeddedUefiShell", "Disabled"),
    ],
)  # fmt: skip
def test_taken(vendor: str, name: str, value: Any) -> None:
    made = Machine.made_up(vendor)
    made.submit({name: value})
    assert made.waiting == {name: value}


def test_every_bad_value_is_named() -> None:
    made = Machine.made_up("dell")
    with pytest.raises(Refused) as caught:
        made.submit({"LogicalProc": "Perhaps", "NoSuch": 1})
    assert [attribute for _m, _w, attribute in caught.value.errors] == ["LogicalProc", "NoSuch"]


def test_a_dependency_is_judged_with_what_is_asked_and_what_waits() -> None:
    made = Machine.made_up("dell")
    made.submit({"SysProfile": "Custom", "ProcCStates": "Disabled"})
    made.submit({"ProcTurboMode": "Disabled"})
    assert made.waiting.keys() == {"SysProfile", "ProcCStates", "ProcTurboMode"}
    assert messages(made, {"SysProfile": "PerfOptimized", "ProcPwrPerf": "MaxPerf"}) == ["PropertyNotWritable"]


@pytest.mark.parametrize(
    ("vendor", "when", "message"),
    [
        ("dell", "OnReset", ""), ("dell", "Immediate", "PropertyValueNotInList"), ("lenovo", "OnReset", ""),
        ("lenovo", "Immediate", "PropertyValueNotInList"), ("lenovo", "Soon", "PropertyValueNotInList"),
        ("hpe", "OnReset", "PropertyUnknown"), ("supermicro", "Immediate", "PropertyUnknown"),
    ],
)  # fmt: skip
def test_apply_time(vendor: str, when: str, message: str) -> None:
    made, asked, before = machine(vendor)
    if message:
        assert messages(made, asked, when) == [message]
        assert made.waiting == {}
        return
    job = made.submit(asked, when)
    assert (job is not None) == made.traits.jobs
    assert made.current.items() >= before.items()
    made.boot_up()
    assert made.current.items() >= asked.items()


def test_without_a_job_nothing_is_applied() -> None:
    made, asked, before = machine("dell")
    made.submit(asked)
    assert made.shown().items() >= asked.items(), "Dell shows new values early"
    assert made.boot_up() == {}
    assert made.current.items() >= before.items() and made.waiting == asked
    made.schedule()
    assert made.current.items() >= before.items()
    assert made.boot_up() == asked
    assert made.unfinished() == []


def test_a_job_takes_its_time_after_the_boot() -> None:
    now, told = [100.0], []
    made, asked, before = machine("dell")
    made.job_seconds, made.clock = 30.0, lambda: now[0]
    job = made.submit(asked, "OnReset")
    assert job is not None and job.state == "Scheduled"
    made.boot_up()
    made.on_change = lambda: told.append(made.current["LogicalProc"])
    now[0], version = 129.9, made.version
    assert [j.state for j in made.unfinished()] == ["Running"]
    assert made.pending() == asked and made.current.items() >= before.items()
    now[0] = 130.0
    assert made.unfinished() == [] and job.state == "Completed"
    assert made.pending() == {} and made.current.items() >= asked.items()
    assert told == ["Disabled"], "whoever keeps the values was not told"
    assert made.version > version, "the ETag stayed although the resource changed"


def test_committed_values_are_left_alone() -> None:
    made, asked, _before = machine("dell")
    job = made.submit(asked, "OnReset")
    assert job is not None
    for change in (lambda: made.submit(asked), made.clear, made.schedule, made.reset_bios):
        with pytest.raises(Refused) as caught:
            change()
        assert [e[0] for e in caught.value.errors] == [COMMITTED]
    made.drop_job(job.id)
    assert made.waiting == asked and made.boot_up() == {}
    made.clear()
    assert made.waiting == {}


def test_jobs_have_names_of_their_own() -> None:
    made, asked, before = machine("dell")
    for wanted in (asked, before):
        made.submit(wanted, "OnReset")
        made.boot_up()
    made.drop_job(made.jobs[0].id)
    made.submit(asked, "OnReset")
    names = [job.id for job in made.jobs]
    assert len(set(names)) == len(names) == 2 and all(name.startswith("JID_") for name in names)


@pytest.mark.parametrize("vendor", VENDORS)
def test_factory_values_wait_as_well(vendor: str) -> None:
    made, asked, before = machine(vendor)
    made.submit(asked, "OnReset" if made.traits.jobs else None)
    made.boot_up()
    made.reset_bios()
    assert made.current.items() >= asked.items() and made.waiting == before
    assert made.boot_up() == before


@pytest.mark.parametrize(
    ("enabled", "after"), [("Once", "None"), ("Continuous", "Pxe"), ("Disabled", "Pxe")]
)
def test_boot_override(enabled: str, after: str) -> None:
    made = Machine.made_up("hpe")
    made.boot.update(target="Pxe", enabled=enabled)
    made.boot_up()
    assert made.boot["target"] == after
    assert made.boot["enabled"] == ("Disabled" if enabled == "Once" else enabled)


@pytest.mark.parametrize(
    ("kind", "before", "used", "after", "boots"),
    [
        ("On", "On", [], "On", 0),
        ("On", "Off", [("on", False)], "On", 1),
        ("ForceOff", "On", [("off", False)], "Off", 0),
        ("GracefulShutdown", "On", [("off", True)], "Off", 0),
        ("ForceRestart", "On", [("reset", False)], "On", 1),
        ("PowerCycle", "On", [("reset", False)], "On", 1),
        ("GracefulRestart", "On", [("reset", True)], "On", 1),
        ("ForceRestart", "Off", [("on", False)], "On", 1),
    ],
)
def test_reset_types(kind: str, before: str, used: list[tuple[str, bool]], after: str, boots: int) -> None:
    power = Recorder()
    made = Machine.made_up("hpe", power)
    made.submit(ASKED["hpe"])
    if before == "Off":
        Switch.off(power)
    made.reset(kind)
    assert (power.used, power.state(), made.boots) == (used, after, boots)
    assert (made.waiting == {}) == bool(boots), "values are applied by a boot and by nothing else"


def test_where_the_power_reports_the_boot_a_reset_alone_applies_nothing() -> None:
    power = Recorder(reports_boot=True)
    made = Machine.made_up("hpe", power)
    made.submit(ASKED["hpe"])
    made.reset("ForceRestart")
    assert power.used == [("reset", False)] and made.boots == 0 and made.waiting == ASKED["hpe"]


def test_unknown_reset_type() -> None:
    power = Recorder()
    with pytest.raises(Refused) as caught:
        Machine.made_up("hpe", power).reset("Nmi")
    assert caught.value.errors[0][0].endswith("ActionParameterValueNotInList") and power.used == []


@pytest.mark.parametrize(
    ("name", "bios", "settings", "vendor"),
    [
        ("x-idrac", "/redfish/v1/Systems/1/Bios", "", "dell"), ("ilo5", "", "", "hpe"), ("a-XCC", "", "", "lenovo"),
        ("smc", "", "", "supermicro"), ("libredfish-nvidia_viking", "", "", "nvidia_dgx"), ("gh200", "", "", "nvidia_grace"),
        ("m", "/redfish/v1/Systems/System.Embedded.1/Bios", "", "dell"), ("m", "/redfish/v1/systems/1/bios/", "", "hpe"),
        ("m", "/redfish/v1/Systems/DGX/Bios", "", "nvidia_dgx"), ("m", "/redfish/v1/Systems/System_0/Bios", "", "nvidia_grace"),
        ("m", "/redfish/v1/Systems/1/Bios", "/redfish/v1/Systems/1/Bios/Pending", "lenovo"),
        ("m", "/redfish/v1/Systems/1/Bios", "/redfish/v1/Systems/1/Bios/SD", ""),
    ],
)  # fmt: skip
def test_vendor_of_a_capture(name: str, bios: str, settings: str, vendor: str) -> None:
    assert vendor_of(name, bios, settings) == vendor
