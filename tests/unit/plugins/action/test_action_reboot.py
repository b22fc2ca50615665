"""The action that reboots: what it says where a host will not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.nearmetal.rack.plugins.action import reboot as action
from ansible_collections.nearmetal.rack.plugins.plugin_utils import rebooting

from nearmetal.bmc.machine import Machine
from nearmetal.bmc.server import BmcServer


class Connection:
    resets = 0

    def reset(self) -> None:
        self.resets += 1


def reboot(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], variables: dict[str, Any] | None = None, **args: Any
) -> tuple[dict[str, Any], list[str]]:
    """Run the action; said: command -> (exit status, output), or an exception. Returns its result and what it ran."""
    ran: list[str] = []
    made = object.__new__(action.ActionModule)
    made._task = SimpleNamespace(args={"reason": "r", "wanted": "w", **args}, check_mode=False)
    made._connection = Connection()
    made._templar = SimpleNamespace(template=lambda value: value)

    def low(command: str) -> dict[str, Any]:
        ran.append(command)
        answer = said.get(command, (0, ""))
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, Exception):
            raise answer
        return {"rc": answer[0], "stdout": answer[1], "stderr": ""}

    monkeypatch.setattr(action.ActionBase, "run", lambda self, tmp, task_vars: {})
    monkeypatch.setattr(made, "_low_level_execute_command", low)
    monkeypatch.setattr(made, "_execute_module", lambda **kw: {"changed": True, "note": {"boot_id": "old"}})
    monkeypatch.setattr(action.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(action, "end_with_parent", lambda: None)
    return made.run(None, variables), ran


def test_goes_down_comes_back_and_settles(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = AnsibleConnectionFailure("lost")
    said = {rebooting.REBOOT: lost, rebooting.BOOT_ID: [(0, "old\n"), lost, (255, ""), (0, "new\n")]}
    done, ran = reboot(monkeypatch, said)
    assert done["rebooted"] and done["changed"]
    assert ran == [rebooting.REBOOT, *[rebooting.BOOT_ID] * 4, rebooting.SETTLED]


def test_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    done, ran = reboot(monkeypatch, {rebooting.REBOOT: (1, "Interactive authentication required.")})
    assert done["failed"]
    assert done["msg"] == "the host refused to reboot: Interactive authentication required."
    assert ran == [rebooting.REBOOT]


def test_no_bmc_for_the_power_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    done, _ran = reboot(monkeypatch, {rebooting.POWER_CYCLE: (127, "ipmitool: not found")}, power_cycle=True)
    assert "did not take the power cycle: ipmitool: not found. Fix: power cycle it by hand" in done["msg"]


def test_not_back_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 10_000, 20))
    monkeypatch.setattr(action.time, "monotonic", lambda: float(next(ticks)))
    done, ran = reboot(monkeypatch, {rebooting.BOOT_ID: AnsibleConnectionFailure("no route")}, timeout=30)
    assert done["failed"] and not done["rebooted"]
    assert "the host is not back after" in done["msg"] and "no route" in done["msg"]
    assert rebooting.SETTLED not in ran


def bmc_of(server: BmcServer, **more: Any) -> dict[str, Any]:
    """Variables of a host with this BMC."""
    return {"bios_baseuri": server.url, "bios_username": "admin", "bios_password": "admin", "bios_timeout": 2, **more}


def test_power_cycle_by_the_bmc(monkeypatch: pytest.MonkeyPatch) -> None:
    with BmcServer(Machine.made_up("hpe"), tls=False) as server:
        said = {rebooting.BOOT_ID: (0, "new\n")}
        done, ran = reboot(monkeypatch, said, bmc_of(server), power_cycle=True)
        assert done["rebooted"] and server.machine.boots == 1 and server.service.sessions == 0
    assert ran == [rebooting.SYNC, rebooting.BOOT_ID, rebooting.SETTLED]


def test_the_bmc_refuses_the_power_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    with BmcServer(Machine.made_up("hpe"), tls=False) as server:
        done, ran = reboot(monkeypatch, {}, bmc_of(server, bios_password="other"), power_cycle=True)
    assert done["failed"] and "did not take the power cycle" in done["msg"] and "refuses the login" in done["msg"]
    assert rebooting.POWER_CYCLE not in ran


def test_not_back_tells_of_the_power(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 10_000, 20))
    monkeypatch.setattr(action.time, "monotonic", lambda: float(next(ticks)))
    lost = {rebooting.BOOT_ID: AnsibleConnectionFailure("no route")}
    with BmcServer(Machine.made_up("hpe"), tls=False) as server:
        server.machine.power.off()
        done, _ran = reboot(monkeypatch, lost, bmc_of(server), timeout=30)
        assert "no route. Its BMC says that the power is Off" in done["msg"]
    ticks = iter(range(0, 10_000, 20))
    done, _ran = reboot(monkeypatch, lost, bmc_of(server), timeout=30)
    assert "Its BMC does not help" in done["msg"]


def test_waits_for_the_job_of_a_dell(monkeypatch: pytest.MonkeyPatch) -> None:
    with BmcServer(Machine.made_up("dell"), tls=False) as server:
        name = next(n for n, v in server.machine.current.items() if v == "Enabled")
        server.machine.submit({name: "Disabled"}, "OnReset")
        server.machine.job_seconds = 1.0
        server.machine.boot_up()
        done, _ran = reboot(monkeypatch, {rebooting.BOOT_ID: (0, "new\n")}, bmc_of(server))
        assert done["rebooted"] and not done["warnings"]
        assert server.machine.current[name] == "Disabled"
        server.machine.submit({name: "Enabled"}, "OnReset")
        server.machine.job_seconds = 10_000.0
        server.machine.boot_up()
        done, _ran = reboot(monkeypatch, {rebooting.BOOT_ID: (0, "new\n")}, bmc_of(server, bios_job_timeout=0))
        assert "is still Running" in done["warnings"][0]
