"""What explains a shortfall: each rule sees its fault and is silent without it."""

from __future__ import annotations

import copy
from typing import Any, cast

import fabric_states as fs
import pytest
from support import report_fixtures as made

from nearmetal.bench.results import HostResults
from nearmetal.report.explain import explain
from nearmetal.report.finding import Finding
from nearmetal.report.measured import figures
from nearmetal.report.why import sections

SPEEDS = {"bare_metal": 400.0, "matched_pinned": 399.0, "smt_hidden": 300.0}
GOOD = made.LAB_SCENARIOS[:2]


def found(document: dict[str, Any], state: dict[str, Any] | None = None) -> list[Finding]:
    states = {"c": state or made.lab_host("c", converged=True)}
    return explain([HostResults.model_validate(document)], cast("Any", states))


def good(**more: Any) -> dict[str, Any]:
    document = made.results("c", copy.deepcopy(GOOD), made.runs(GOOD, SPEEDS), emulated=False)
    return {**document, **more}


def rules(findings: list[Finding]) -> set[str]:
    return {f.rule for f in findings}


def test_a_sound_benchmark_has_no_finding() -> None:
    assert found(good()) == []


def test_faults_of_the_fabric_explain_a_shortfall() -> None:
    told = found(good(), fs.broken_host("c"))
    first = next(f for f in told if f.rule == "fabric_lag_vfs_bound")
    assert first.level == "cause" and first.host == "c" and first.scenario == ""
    assert first.evidence[0].startswith("VFs 3 and 5 of 0000:17:00.0")
    assert "bind them when type is switchdev" in first.fix and "(Cause: " in first.fix
    assert {f.level for f in told if f.rule in ("fabric_mtu_mismatch", "fabric_guard_armed")} == {"suspect"}
    assert {f.level for f in told if f.rule == "fabric_management_in_lag"} == {"note"}
    assert not [f for f in found(good(), fs.gpu_host("c")) if f.rule.startswith("fabric_")]


def side(**more: Any) -> dict[str, Any]:
    document = good()
    document["scenarios"][1].update(more)
    return document


def vm_runs(change: Any) -> dict[str, Any]:
    document = good()
    for run in document["runs"]:
        if run["scenario"] == "matched_pinned":
            change(run)
    return document


def pins(*places: tuple[int, int, int]) -> dict[str, Any]:
    return {"pins": made.scenario("x", 1, "", list(places))["pins"]}


FAULTS = [
    ("placement_broken", side(placement_ok=False, placement_problems=["vcpu0 was seen on CPU 3"])),
    ("placement_broken", vm_runs(lambda r: r["threads"][0].update(seen="6,3"))),
    ("placement_unproven", side(placement_ok=None)),
    ("smt_hidden", side(**pins((6, 0, 0), (7, 1, 0)))),
    ("siblings_shuffled", side(**pins((6, 0, 0), (3, 0, 1)))),
    ("spans_nodes", side(**pins((6, 0, 0), (3, 1, 0)))),
    ("memory_remote", vm_runs(lambda r: r["memory"].append({"node": 0, "bytes": 99 * 1024**2, "page_kb": 2048}))),
    ("huge_pages", vm_runs(lambda r: r.update(memory=[{"node": 1, "bytes": 1024**3, "page_kb": 4}]))),
    ("preempted", vm_runs(lambda r: r["threads"][0].update(involuntary_switches=5000))),
    ("preempted", vm_runs(lambda r: r["threads"][0].update(wait_ms=900.0))),
    ("migrated", vm_runs(lambda r: r["threads"][0].update(migrations=4))),
    ("emulator", side(emulator_cpus="0,7")),
    ("emulator", side(emulator_cpus="")),
    ("interrupted", vm_runs(lambda r: r["interrupts"].update({"6": 10**6}))),
    ("not_isolated", side(**pins((4, 0, 0), (5, 0, 1)))),
    ("unequal_sides", side(**pins((2, 0, 0), (3, 0, 1)))),
]


@pytest.mark.parametrize(("rule", "document"), FAULTS, ids=[f"{r}-{i}" for i, (r, _) in enumerate(FAULTS)])
def test_each_fault_is_found_with_evidence_and_fix(rule: str, document: dict[str, Any]) -> None:
    findings = [f for f in found(document) if f.rule == rule]
    assert len(findings) == 1
    assert findings[0].fix.endswith(".") and all(findings[0].evidence) and not findings[0].deliberate


def test_asking_for_huge_pages_and_not_getting_them_is_a_cause() -> None:
    def small(run: dict[str, Any]) -> None:
        run["memory"] = [{"node": 1, "bytes": 1024**3, "page_kb": 4}]

    (asked,) = [f for f in found(vm_runs(small)) if f.rule == "huge_pages"]
    document = vm_runs(small)
    document["scenarios"][1]["hugepages_kb"] = 0
    (never,) = [f for f in found(document) if f.rule == "huge_pages"]
    assert (asked.level, never.level) == ("cause", "suspect")


def test_state_of_the_host() -> None:
    state = made.lab_host("c", converged=True)
    state["kvm"] = False
    state["boot"]["configured"] += " nosmt"
    assert {"no_kvm", "reboot_pending"} <= rules(found(good(), state))
    unknown = made.lab_host("c", converged=True)
    unknown["cpu"]["isolated"] = None
    assert "isolation_unverified" in rules(found(good(), unknown))
    nothing = explain([HostResults.model_validate(good())], {})
    assert rules(nothing) == {"isolation_unverified"}


def test_failed_and_few_runs_limit_the_conclusion() -> None:
    document = good()
    for run in document["runs"][2:]:
        run.update(ok=False, error="did not verify")
    findings = found(document)
    assert {"failed_runs", "few_runs"} <= rules(findings)
    assert {f.level for f in findings} == {"note"}


def lab_sections(emulated: bool) -> list[Any]:
    document = made.results("c", made.LAB_SCENARIOS, made.runs(made.LAB_SCENARIOS, SPEEDS), emulated=emulated)
    results = HostResults.model_validate(document)
    return sections(found(document), figures(results))


def test_a_deliberate_fault_is_called_so_and_explains_its_scenario() -> None:
    matched, hidden = lab_sections(emulated=False)
    assert matched.findings == [] and "Not measurably slower" in matched.conclusion
    assert hidden.conclusion == "Slower on 1 host; the findings below explain it."
    assert hidden.findings[0].finding.deliberate and hidden.findings[0].level == "likely cause"


def test_on_emulated_hosts_no_cost_is_claimed() -> None:
    matched, hidden = lab_sections(emulated=True)
    assert matched.measured == hidden.measured == []
    assert "cannot be told on emulated hardware" in hidden.conclusion
    assert hidden.findings[0].level == "would slow a VM on real hardware"


def test_slower_without_evidence_is_said_plainly() -> None:
    document = good()
    for run in document["runs"]:
        run["value"] *= 0.5 if run["scenario"] == "matched_pinned" else 1
    (section,) = sections(found(document), figures(HostResults.model_validate(document)))
    assert "nothing in the evidence explains it" in section.conclusion


def test_the_same_finding_on_several_hosts_is_told_once() -> None:
    documents = [{**good(), "host": name} for name in ("c1", "c2")]
    for number, document in enumerate(documents):
        document["scenarios"][1]["emulator_cpus"] = str(6 + number)
    results = [HostResults.model_validate(d) for d in documents]
    states = {n: made.lab_host(n, converged=True) for n in ("c1", "c2")}
    section = sections(explain(results, cast("Any", states)), [f for r in results for f in figures(r)])[0]
    (shared,) = section.findings
    assert shared.hosts == ["c1", "c2"] and shared.evidence[0].startswith("c1: ")
