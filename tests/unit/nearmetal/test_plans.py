"""Plans: gathered from events, judged, folded, saved."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from nearmetal import plans
from nearmetal.errors import NearmetalError
from nearmetal.runner import Outcome


def step(host: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": "kernel_args/cmdline", "capability": "kernel_args", "key": "cmdline", "before": "quiet", "after": "quiet iommu=pt",
        "reason": "iommu", "disruption": "reboot", "requires": [], "verify": "/proc/cmdline", **changes,
    }  # fmt: skip


def event(host: str, steps: list[dict[str, Any]] | None = None, problems: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    status = "problems" if problems else "changes" if steps else "ok"
    plan = {
        "status": status, "steps": steps or [], "problems": problems or [], "warnings": [],
        "reboot": bool(steps), "marks": ["d" + host],
    }  # fmt: skip
    return {"event": "plan", "host": host, "plan": plan, "ok": not problems}


def problem(kind: str) -> dict[str, Any]:
    return {"variable": "iommu_mode", "value": "x", "message": "no such mode", "fix": "use passthrough", "kind": kind}


def outcome(*events: dict[str, Any], rc: int = 0) -> Outcome:
    return Outcome(rc, "successful", list(events))


def test_steps_carry_their_host() -> None:
    plan = plans.collect(outcome(event("a", [step("a", requires=["hugepages/boot"])]), event("b")), "inv")
    assert [s["id"] for s in plan["steps"]] == ["a/kernel_args/cmdline"]
    assert plan["steps"][0]["requires"] == ["a/hugepages/boot"]
    assert plan["summary"] == {
        "hosts": 2, "changed_hosts": 1, "reboots": 1,
        "by_disruption": {"none": 0, "traffic": 0, "drain": 0, "reboot": 1, "power_cycle": 0},
    }  # fmt: skip
    assert plans.changed_hosts(plan) == ["a"]


@pytest.mark.parametrize(
    ("events", "code"),
    [
        ([event("a")], 0),
        ([event("a", [step("a")])], 2),
        ([event("a", problems=[problem("intent")])], 65),
        ([event("a", problems=[problem("host")])], 1),
        ([event("a", problems=[problem("intent")]), event("b", [step("b")])], 65),
        ([event("a", [step("a")]), {"event": "unreachable", "host": "b", "message": "no route"}], 1),
        ([event("a", [step("a")]), {"event": "failed", "host": "b", "message": "no python", "action": "x"}], 1),
    ],
)
def test_exit_codes(events: list[dict[str, Any]], code: int) -> None:
    assert plans.exit_code(plans.collect(outcome(*events), "inv")) == code


def test_a_host_with_problems_is_not_changed() -> None:
    plan = plans.collect(outcome(event("a", [step("a")], [problem("host")]), event("b", [step("b")])), "inv")
    assert plans.changed_hosts(plan) == ["b"]


def test_no_host_at_all(tmp_path: Path) -> None:
    with pytest.raises(NearmetalError, match="no host matches") as caught:
        plans.collect(outcome(), "inv")
    assert caught.value.code == 65
    log = tmp_path / "stdout"
    log.write_text("ERROR! inventory is broken\n")
    with pytest.raises(NearmetalError, match="inventory is broken") as caught:
        plans.collect(Outcome(4, "failed", [], log), "inv")
    assert caught.value.code == 1


def test_saved_and_loaded(tmp_path: Path) -> None:
    plan = plans.collect(outcome(event("a", [step("a")])), "inv")
    plans.save(plan, tmp_path / "p.json")
    assert plans.load(tmp_path / "p.json") == plan


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 99}', json.dumps({"schema": 1})])
def test_no_plan_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(NearmetalError, match="no plan file") as caught:
        plans.load(tmp_path / "p.json")
    assert caught.value.code == 65


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        (["node1", "node2", "node3"], "node[1-3]"),
        (["node1", "node3"], "node[1,3]"),
        (["r1-n09", "r1-n10", "gateway"], "r1-n[09-10], gateway"),
        (["a.example"], "a.example"),
    ],
)
def test_fold(hosts: list[str], text: str) -> None:
    assert plans.fold(hosts) == text


def _unfold(text: str) -> set[str]:
    found = set()
    for item in text.split(", "):
        head, bracket, rest = item.partition("[")
        if not bracket:
            found.add(item)
            continue
        body, _, tail = rest.partition("]")
        for part in body.split(","):
            low, _, high = part.partition("-")
            found |= {f"{head}{n:0{len(low)}d}{tail}" for n in range(int(low), int(high or low) + 1)}
    return found


@given(st.lists(st.tuples(st.sampled_from(["node", "rack-a", "x"]), st.integers(0, 120), st.sampled_from(["", "03"])), min_size=1))
def test_fold_loses_nobody(parts: list[tuple[str, int, str]]) -> None:
    hosts = {f"{head}{number:{width}d}".replace(" ", "") for head, number, width in parts}
    assert _unfold(plans.fold(sorted(hosts))) == hosts


def test_equal_steps_are_shown_once() -> None:
    plan = plans.collect(outcome(*(event(f"n{i}", [step(f"n{i}")]) for i in range(400))), "inv")
    out = io.StringIO()
    plans.show(plan, Console(file=out, width=100))
    text = out.getvalue()
    assert text.count("iommu=pt") == 1
    assert "n[0-399]" in text
    assert max(map(len, text.splitlines())) <= 100


def test_markup_in_values_is_shown_as_it_is() -> None:
    plan = plans.collect(outcome(event("a", [step("a", after="[red]x[/red]")])), "inv")
    out = io.StringIO()
    plans.show(plan, Console(file=out, width=100))
    assert "[red]x[/red]" in out.getvalue()
