"""Role, module and action of benchmark_vm agree, and the result reaches the controller."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.action import benchmark_vm as action
from ansible_collections.nearmetal.rack.plugins.module_utils.bench_runner import Options
from ansible_collections.nearmetal.rack.plugins.module_utils.bench_scenarios import SCENARIOS
from ansible_collections.nearmetal.rack.plugins.modules import benchmark_vm as module
from ansible_collections.nearmetal.rack.plugins.plugin_utils.intent import SPECS

CONTROLLER_ONLY = {"results", "run"}


def role() -> dict[str, dict[str, Any]]:
    return {name.removeprefix("benchmark_vm_"): spec for name, spec in SPECS["benchmark_vm"].items()}


def test_role_and_module_have_the_same_options() -> None:
    spec = module._spec()
    assert set(role()) - CONTROLLER_ONLY == set(spec) == set(Options.__dataclass_fields__)
    for name, option in spec.items():
        for key in ("type", "elements", "choices"):
            assert role()[name].get(key) == option.get(key), (name, key)


def test_scenarios_are_those_that_exist() -> None:
    assert set(role()["scenarios"]["choices"]) == set(SCENARIOS)


def defaults() -> dict[str, Any]:
    return {name: spec["default"] for name, spec in role().items() if name not in CONTROLLER_ONLY}


def test_defaults_are_accepted() -> None:
    module._check(defaults())


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cores", 0, "benchmark_vm_cores=0: must be 1 or more"),
        ("memory_mb", 8, "benchmark_vm_memory_mb=8: must be 64 or more"),
        ("interval", 0.0, "benchmark_vm_interval=0.0: must be above 0"),
        ("scenarios", [], "name at least one of matched_pinned"),
    ],
)
def test_bad_values_are_named(name: str, value: Any, text: str) -> None:
    with pytest.raises(module.BenchError, match=text):
        module._check({**defaults(), name: value})


class Templar:
    def template(self, value: Any) -> Any:
        return value


class Task:
    check_mode = False
    async_val = 0
    args: dict[str, Any] = {}


def an_action(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], seen: dict[str, Any]) -> Any:
    def execute(module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        seen.update(module_args)
        return answer

    monkeypatch.setattr(action.ActionBase, "run", lambda self, tmp, task_vars: {})
    monkeypatch.setattr(action, "end_with_parent", lambda: None)  # the parent of this process is pytest's business
    made = action.ActionModule.__new__(action.ActionModule)
    made._templar, made._task, made._execute_module = Templar(), Task(), execute
    return made


def test_result_is_written_under_run_and_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    made = an_action(monkeypatch, {"changed": False, "results": {"schema": 1}, "scenarios": []}, seen)
    variables = {
        "inventory_hostname": "n1", "benchmark_vm_results": str(tmp_path), "benchmark_vm_run": "r7",
        "benchmark_vm_seconds": "3",
    }  # fmt: skip
    result = made.run(None, variables)
    assert json.loads((tmp_path / "r7" / "n1.json").read_text()) == {"run": "r7", "host": "n1", "schema": 1}
    assert result["file"] == os.fspath(tmp_path / "r7" / "n1.json")
    assert "results" not in result
    assert seen == {**defaults(), "seconds": 3}


def test_without_a_name_the_run_is_named_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = an_action(monkeypatch, {"results": {"schema": 1}}, {})
    made.run(None, {"inventory_hostname": "n1", "benchmark_vm_results": str(tmp_path)})
    assert (tmp_path / action.RUN / "n1.json").exists()


def test_a_failure_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = an_action(monkeypatch, {"failed": True, "msg": "no KVM"}, {})
    result = made.run(None, {"inventory_hostname": "n1", "benchmark_vm_results": str(tmp_path)})
    assert result["failed"]
    assert list(tmp_path.iterdir()) == []


def test_malformed_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    made = an_action(monkeypatch, {}, {})
    with pytest.raises(action.AnsibleActionFail, match="benchmark_vm_hugepages"):
        made.run(None, {"inventory_hostname": "n1", "benchmark_vm_hugepages": "sometimes"})
