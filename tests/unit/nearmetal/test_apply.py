"""apply: batches, verdicts, locks, history."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmetal import history, locks
from nearmetal.commands.apply import batches, judge, parse_batches
from nearmetal.commands.plan import write_metrics
from nearmetal.errors import NearmetalError


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_STATE_DIR", str(tmp_path / "state"))


@given(st.integers(1, 300), st.lists(st.one_of(st.integers(1, 50).map(str), st.integers(1, 100).map("{}%".format)), min_size=1))
def test_batches_take_every_host_once(count: int, sizes: list[str]) -> None:
    hosts = [f"h{i}" for i in range(count)]
    assert [h for b in batches(hosts, parse_batches(",".join(sizes))) for h in b] == hosts


def test_canary_first() -> None:
    assert [len(b) for b in batches([str(i) for i in range(100)], ["1", "10%", "50%"])] == [1, 10, 50, 39]


@pytest.mark.parametrize("text", ["", "0", "0%", "101%", "a", "1,,2", "-1", "1.5"])
def test_bad_batch(text: str) -> None:
    with pytest.raises(NearmetalError) as caught:
        parse_batches(text)
    assert caught.value.code == 64


def plan_event(host: str, steps: int = 0, ok: bool = True, reboot: bool = False, calls: bool = False) -> dict[str, Any]:
    plan = {"steps": [{}] * steps, "reboot": reboot, "calls": {"x": 1} if calls else {}}
    return {"event": "plan", "host": host, "ok": ok, "plan": plan}


def test_only_a_clean_last_plan_is_ok() -> None:
    events = [plan_event("a", 2, calls=True), plan_event("a"), plan_event("b", 2, calls=True), plan_event("c", 1)]
    events += [{"event": "failed", "host": "c", "action": "x", "message": "m"}]
    assert judge(["a", "b", "c", "d"], events, stopped=False) == {"a": "ok", "b": "failed", "c": "failed", "d": "failed"}


def test_a_reboot_that_was_not_allowed_is_pending_not_failed() -> None:
    assert judge(["a"], [plan_event("a", 1, reboot=True)], stopped=False) == {"a": "reboot pending"}


def test_stopped_hosts_stay_pending() -> None:
    assert judge(["a", "b"], [plan_event("a")], stopped=True) == {"a": "ok", "b": "pending"}


def _hold(path: str, ready: Any, go: Any) -> None:
    os.environ["NEARMETAL_STATE_DIR"] = path
    with locks.held("inventory", ["/inv"], "run-1"):
        ready.set()
        go.wait(20)


def test_second_apply_is_refused_with_the_holder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, go = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(str(tmp_path / "state"), ready, go))
    other.start()
    assert ready.wait(20)
    with pytest.raises(NearmetalError, match=f"pid {other.pid}.*run run-1"), locks.held("inventory", ["/inv"], "run-2"):
        pytest.fail("got a lock that another process holds")
    other.kill()
    other.join()
    with locks.held("inventory", ["/inv"], "run-2"):
        pass


def test_a_run_whose_controller_is_gone_has_died() -> None:
    run = history.begin(["apply"], "inv", "")
    run.save()
    assert history.read(run.id).status == "running"
    run.pid = 2**22 + 1
    run.save()
    assert history.read(run.id).status == "died"
    run.end("ok")
    assert [r.status for r in history.all_runs()] == ["ok"]


def test_damaged_run_is_named(tmp_path: Path) -> None:
    run = history.begin(["apply"], "inv", "")
    run.save()
    (run.folder / "run.json").write_text("{")
    with pytest.raises(NearmetalError, match="damaged"):
        history.read(run.id)
    assert list(history.all_runs()) == []


def test_metrics(tmp_path: Path) -> None:
    plan = {
        "hosts": {'a"b': {"status": "changes"}, "c": {"status": "ok"}},
        "steps": [{"host": 'a"b', "capability": "iommu"}, {"host": 'a"b', "capability": "iommu"}],
    }
    write_metrics(plan, tmp_path / "m.prom")
    text = (tmp_path / "m.prom").read_text()
    assert 'nearmetal_drift_steps{host="a\\"b",capability="iommu"} 2' in text
    assert 'nearmetal_host_status{host="c",status="ok"} 1' in text
    assert json.dumps(os.listdir(tmp_path)) == '["m.prom"]'
