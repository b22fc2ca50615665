"""Plan and journal put together: outcome of steps, time line, command lines word by word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import report_fixtures as made

from nearmetal.report import changes, cmdline
from nearmetal.report.collect import Collected, Event, Left, RunData, collect
from nearmetal.report.views import host_views, summary

STEP = made.step("h", "hugepages", "node0", "0", "64", "why", "none", "nr_hugepages is 64")
NAME = "hugepages/node0"


def run_of(events: list[Event], **info: Any) -> RunData:
    plan = {"hosts": {"h": {"status": "changes", "problems": [], "warnings": []}}, "steps": [STEP]}
    return RunData("r", dict(info), plan, {}, {}, events)


def event(name: str, time: float, **more: Any) -> Event:
    return Event(time, "h", name, **more)


def look(time: float, *left: str, known: bool = True, reboot: bool = False) -> Event:
    """An observation that found these steps still to do."""
    return event("plan", time, plan=Left(dict.fromkeys(left, "0"), known, reboot), action=changes.OBSERVES)


DONE = event("step_done", 3, step=NAME)
REBOOTED = event("reboot_done", 5)


@pytest.mark.parametrize(
    ("events", "outcome", "tone"),
    [
        ([], "open", "warn"),
        ([look(1, NAME)], "open", "warn"),
        ([look(1, NAME), DONE], "done", "warn"),
        ([look(1, NAME), DONE, look(4)], "verified", "ok"),
        ([look(1, NAME), look(4)], "verified", "ok"),  # only the reboot was missing
        ([look(1, NAME), DONE, look(4, NAME)], "failed", "bad"),  # done, and not in force
        ([look(1, NAME), DONE, look(4, NAME, reboot=True)], "waiting", "warn"),
        ([look(1, NAME), DONE, REBOOTED, look(6, NAME, reboot=True)], "failed", "bad"),
        ([look(1, NAME), DONE, look(4, known=False)], "done", "warn"),  # not decided: proves nothing
        ([look(1, NAME), event("failed", 3, step=f"x/y, {NAME}", message="no space")], "failed", "bad"),
        ([look(1, NAME), event("failed", 3, step="x/y")], "open", "bad"),
    ],
)
def test_outcome_of_a_step(events: list[Event], outcome: str, tone: str) -> None:
    found = Collected(run_of(events), None)
    (host,) = changes.host_changes(found).values()
    assert host.steps[0].outcome == outcome
    (view,) = host_views(found, changes.host_changes(found))
    assert view.tone == tone


def test_evidence_is_what_was_found() -> None:
    (good,) = changes.host_changes(Collected(run_of([look(1, NAME), DONE, look(4)]), None)).values()
    assert good.steps[0].evidence == "nr_hugepages is 64"
    (bad,) = changes.host_changes(Collected(run_of([look(1, NAME), DONE, look(4, NAME)]), None)).values()
    assert bad.steps[0].evidence == "found 0; expected: nr_hugepages is 64"


@pytest.mark.parametrize(
    ("told", "said"), [("pending", "not finished"), ("reboot pending", "reboot pending"), ("failed", "failed")]
)
def test_what_the_run_says_of_a_host_counts(told: str, said: str) -> None:
    found = Collected(run_of([look(1, NAME), DONE], hosts={"h": told}), None)
    (view,) = host_views(found, changes.host_changes(found))
    assert view.said == said


def test_only_what_was_read_back_counts_as_verified() -> None:
    found = Collected(run_of([look(1, NAME), DONE], status="ok"), None)
    head = summary(found, host_views(found, changes.host_changes(found)))
    assert head.tone == "warn" and "not read back" in head.verdict


def test_the_lab_in_words(tmp_path: Path) -> None:
    found = collect(made.lab_rack(tmp_path), None, None)
    changed = changes.host_changes(found)
    head = summary(found, host_views(found, changed))
    assert head.tone == "ok"
    assert "Both hosts are as intended: all 12 steps" in head.verdict and "2 reboots" in head.verdict
    assert "20261130T215800Z-f00d) found nothing to change" in head.verdict
    assert head.emulated == ["compute1 and compute2: the host is a QEMU guest without KVM (TCG)"]
    groups = changes.grouped(changed)
    assert [(g.step.short, g.hosts, g.verified) for g in groups][0] == ("kernel_args/cmdline", ["compute1", "compute2"], 2)
    assert [w.text for w in groups[0].step.words if w.change == "gone"] == [] and groups[0].step.kept == 4


def test_problems_of_plan_and_journal_reach_the_head() -> None:
    run = run_of([event("unreachable", 5, message="no route to host")], status="failed")
    run.plan["hosts"]["h"]["problems"] = [{"variable": "hugepages", "message": "too many", "fix": "ask for fewer"}]
    found = Collected(run, None)
    head = summary(found, host_views(found, changes.host_changes(found)))
    assert head.tone == "bad"
    assert [p for _, p in head.problems] == ["hugepages: too many Fix: ask for fewer", "unreachable: no route to host"]


def test_time_line_of_one_host() -> None:
    converge = event("task_start", 10, task="converge", action="nearmetal.rack.converge")
    events = [
        event("task_start", 8, action=changes.OBSERVES, task="observe"), look(9, NAME), converge,
        event("step_done", 12, step=NAME), event("task_done", 12), event("reboot_start", 13, task="Reboot"),
        REBOOTED, event("task_start", 70, action=changes.OBSERVES), look(71),
        event("task_start", 72, task="hangs"),
    ]  # fmt: skip
    events[6] = event("reboot_done", 69)
    spans = changes.timeline(run_of(events, started="1970-01-01T00:00:08", ended="1970-01-01T00:01:48"))
    assert [(s.kind, s.start, s.seconds) for s in spans] == [
        ("look", 0, 1), ("step", 2, 2), ("reboot", 5, 56), ("look", 62, 1), ("verified", 63, 0), ("open", 64, 36),
    ]  # fmt: skip
    assert spans[1].label == NAME and spans[-1].label == "hangs"


def test_a_failure_ends_the_task_and_marks_the_place() -> None:
    events = [event("task_start", 1, task="t"), event("failed", 4, task="t", message="no")]
    assert [(s.kind, s.label) for s in changes.timeline(run_of(events))] == [("step", "t"), ("problem", "t: no")]


def test_time_line_without_times_is_empty() -> None:
    assert changes.timeline(run_of([Event(None, "h", "step_done")])) == []


WORDS = st.lists(st.sampled_from(["ro", "quiet", "console=tty0", 'a="b c"', "hugepages=4", "iommu=pt"]), max_size=9)


@given(WORDS, WORDS)
def test_kept_and_gone_words_are_the_old_line_kept_and_new_ones_the_new(old: list[str], new: list[str]) -> None:
    found = cmdline.compare(" ".join(old), " ".join(new))
    assert [w.text for w in found if w.change != "new"] == old
    assert [w.text for w in found if w.change != "gone"] == new


def test_an_unknown_side_gives_no_difference() -> None:
    assert {w.change for w in cmdline.compare("a b", None)} == {"same"}
    assert cmdline.compare(None, None) == []
