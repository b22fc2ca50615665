"""The action `converge`: a guard in a module's result is confirmed over a new connection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible_collections.nearmetal.rack.plugins.action import converge as action

TOKEN = "ab" * 16
CONFIRM = f"/usr/bin/python3 /usr/local/lib/nearmetal/fabric.pyz confirm {TOKEN}"


def converge(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], *said: Any) -> tuple[dict[str, Any], list[str]]:
    """Run it with one module call; said: what the host says to the confirmation, in turn. Result, and what was done."""
    log: list[str] = []
    answers = list(said)
    clock = [0.0]
    made = object.__new__(action.ActionModule)
    made._task = SimpleNamespace(args={"capability": "vf_lag"}, check_mode=False)
    made._connection = SimpleNamespace(reset=lambda: log.append("reset"))
    made._shared_loader_obj = SimpleNamespace(action_loader=SimpleNamespace(has_plugin=lambda name: False))

    def low(command: str) -> dict[str, Any]:
        log.append(command)
        one = answers.pop(0)
        if isinstance(one, Exception):
            raise one
        return {"rc": one[0], "stdout": "", "stderr": one[1]}

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(action.ActionBase, "run", lambda self, tmp, task_vars: {})
    monkeypatch.setattr(made, "_low_level_execute_command", low)
    monkeypatch.setattr(made, "_execute_module", lambda **kw: answer)
    monkeypatch.setattr(action.time, "sleep", sleep)
    monkeypatch.setattr(action.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(action, "end_with_parent", lambda: None)
    plan = {"steps": [], "calls": {"vf_lag": {"module": "nearmetal.rack.vf_lag", "args": {}}}, "reboot": False}
    return made.run(None, {"nearmetal_plan": {"plan": plan}}), log


GUARD = {"token": TOKEN, "seconds": 60, "deadline": "2026-01-31T12:00:00Z"}


def test_confirms_over_a_new_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    done, log = converge(monkeypatch, {"changed": True, "guard": GUARD}, (0, "confirmed"))
    assert log == ["reset", CONFIRM] and not done.get("failed") and done["guard"] == GUARD and done["changed"]


def test_waits_and_fails_when_the_network_was_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = AnsibleConnectionFailure("Connection timed out")
    restored = (3, "nearmetal: the network was restored at 12:00")
    done, log = converge(monkeypatch, {"changed": True, "guard": GUARD}, lost, (255, "ssh: no route"), restored)
    assert done["failed"] and "the network was restored" in done["msg"] and "ssh: no route" in done["msg"]
    assert log == ["reset", CONFIRM] * 3


def test_nothing_to_confirm(monkeypatch: pytest.MonkeyPatch) -> None:
    done, log = converge(monkeypatch, {"changed": True})
    assert log == [] and not done.get("failed")


def test_a_failed_module_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    done, log = converge(monkeypatch, {"failed": True, "msg": "no", "guard": GUARD})
    assert log == [] and done["failed"]


def test_an_action_of_the_controller_is_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[dict[str, Any]] = []

    class Action:
        def __init__(self, task: Any) -> None:
            self.task = task

        def run(self, task_vars: dict[str, Any]) -> dict[str, Any]:
            ran.append(self.task.args)
            if "bad" in self.task.args:
                raise AnsibleActionFail("the BMC is gone")
            return {"changed": True, "diff": [{"before": "a"}], "warnings": ["w"]}

    made = object.__new__(action.ActionModule)
    task = SimpleNamespace(args={"capability": "bios"})
    made._task = SimpleNamespace(copy=lambda: task)
    made._connection = made._play_context = made._loader = made._templar = None
    loader = SimpleNamespace(
        has_plugin=lambda name: name == "nearmetal.rack.bios_settings", get=lambda name, task, **more: Action(task)
    )
    made._shared_loader_obj = SimpleNamespace(action_loader=loader)
    call = {"module": "nearmetal.rack.bios_settings", "args": {"settings": {"smt": False}}}
    assert made._carry_out(call, {})["changed"]
    assert ran == [{"settings": {"smt": False}}], "it gets no root"
    failed = made._carry_out({**call, "args": {"bad": 1}}, {})
    assert failed == {"failed": True, "msg": "the BMC is gone"}
