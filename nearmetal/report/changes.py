"""What a run changed, why, and what was verified: plan and journal put together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nearmetal.report.cmdline import Word, compare
from nearmetal.report.collect import Collected, Event, RunData, natural, text, timestamp
from nearmetal.report.words import duration

OUTCOMES = {
    "verified": ("ok", "verified"),
    "done": ("warn", "done, not verified"),
    "failed": ("bad", "failed"),
    "started": ("bad", "started, did not end"),
    "open": ("warn", "not reached"),
}
"""Outcome of a step: how it is coloured, what is said."""


@dataclass(frozen=True)
class StepView:
    """One planned step and what became of it. evidence: what was read back."""

    id: str
    host: str
    capability: str
    key: str
    before: str
    after: str
    reason: str
    disruption: str
    requires: list[str]
    verify: str
    outcome: str
    evidence: str
    took: str

    @property
    def short(self) -> str:
        """The id without the host."""
        return f"{self.capability}/{self.key}"

    @property
    def words(self) -> list[Word]:
        """Where both sides are lines of words with some in common: the words that are gone and new."""
        line = compare(self.before, self.after)
        return [w for w in line if w.change != "same"] if self.kept >= 2 else []

    @property
    def kept(self) -> int:
        """Words that both sides have."""
        return sum(w.change == "same" for w in compare(self.before, self.after))


@dataclass(frozen=True)
class Group:
    """The same step on several hosts."""

    step: StepView
    hosts: list[str]
    verified: int
    alike: bool  # before and after are the same everywhere


@dataclass(frozen=True)
class HostChanges:
    """What happened on one host."""

    host: str
    status: str  # of the plan: "ok", "changes", "problems", "unreachable", "failed", ""
    steps: list[StepView] = field(default_factory=list)
    proofs: list[str] = field(default_factory=list)  # verified events that name no planned step
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    reboots: int = 0

    @property
    def verified(self) -> int:
        """Steps read back."""
        return sum(s.outcome == "verified" for s in self.steps)


def host_changes(found: Collected) -> dict[str, HostChanges]:
    """Plan and journal of each host."""
    run = found.run
    if not run:
        return {host: HostChanges(host, "") for host in found.hosts}
    return {host: _of_host(run, host) for host in found.hosts}


def _of_host(run: RunData, host: str) -> HostChanges:
    planned = run.plan.get("hosts", {}).get(host, {})
    events = [e for e in run.journal if e.host == host]
    steps = [_step(s, events) for s in run.plan.get("steps", []) if s.get("host") == host]
    known = {name for s in steps for name in (s.id, s.short)}
    failures = [e for e in events if e.event in ("problem", "step_failed")]
    return HostChanges(
        host=host,
        status=text(planned.get("status")),
        steps=steps,
        proofs=[_said(e) for e in events if e.event == "verified" and e.step not in known],
        problems=[_problem(p) for p in planned.get("problems", [])] + [_said(e) for e in failures],
        warnings=[text(w) for w in planned.get("warnings", [])],
        reboots=sum(e.event == "reboot_done" for e in events),
    )


def _problem(found: Any) -> str:
    """A Problem in one sentence."""
    if not isinstance(found, dict):
        return text(found)
    where = f"{text(found.get('variable'))}: " if found.get("variable") else ""
    fix = f" Fix: {text(found.get('fix'))}" if found.get("fix") else ""
    return f"{where}{text(found.get('message'))}{fix}"


def _said(event: Event) -> str:
    subject = f"{event.step}: " if event.step else ""
    return subject + (event.message or event.after or event.event.replace("_", " "))


def _step(planned: dict[str, Any], events: list[Event]) -> StepView:
    names = {text(planned.get("id")), f"{planned.get('capability')}/{planned.get('key')}"}
    mine = [e for e in events if e.step in names]
    last = {e.event: e for e in mine}
    outcome = next(
        (said for event, said in (("step_failed", "failed"), ("verified", "verified"), ("step_done", "done"),
                                  ("step_start", "started")) if event in last),
        "open",
    )  # fmt: skip
    proof = last.get("verified") or last.get("step_failed")
    start, end = last.get("step_start"), last.get("step_done") or last.get("step_failed")
    span = end.time - start.time if start and end and start.time is not None and end.time is not None else None
    return StepView(
        id=text(planned.get("id")),
        host=text(planned.get("host")),
        capability=text(planned.get("capability")),
        key=text(planned.get("key")),
        before=text(planned.get("before")),
        after=text(planned.get("after")),
        reason=text(planned.get("reason")),
        disruption=text(planned.get("disruption")) or "none",
        requires=[text(r) for r in planned.get("requires") or []],
        verify=text(planned.get("verify")),
        outcome=outcome,
        evidence=(proof.message or proof.after) if proof else "",
        took=duration(span) if span is not None else "",
    )


def grouped(changes: dict[str, HostChanges]) -> list[Group]:
    """Steps that are the same on several hosts, in the order of the plan."""
    groups: dict[tuple[str, ...], list[StepView]] = {}
    for host in changes.values():
        for step in host.steps:
            key = (step.capability, step.key, step.reason, step.disruption, step.verify)
            groups.setdefault(key, []).append(step)
    return [
        Group(
            step=steps[0],
            hosts=sorted((s.host for s in steps), key=natural),
            verified=sum(s.outcome == "verified" for s in steps),
            alike=len({(s.before, s.after) for s in steps}) == 1,
        )
        for steps in groups.values()
    ]


@dataclass(frozen=True)
class Span:
    """A stretch of time on one host, in seconds since the start of the run.

    kind: "step", "reboot", "open" (began and did not end); or a point (seconds 0): "verified", "problem".
    """

    host: str
    kind: str
    start: float
    seconds: float
    label: str


def timeline(run: RunData) -> list[Span]:
    """What happened when, from the journal; empty where it has no times."""
    timed = [e for e in run.journal if e.time is not None]
    if not timed:
        return []
    first = min(e.time for e in timed if e.time is not None)
    zero = min(first, timestamp(run.info.get("started")) or first)
    last = max(e.time for e in timed if e.time is not None)
    end = max(last, timestamp(run.info.get("ended")) or last) - zero
    spans: list[Span] = []
    running: dict[tuple[str, str], tuple[float, str]] = {}
    for e in timed:
        at = (e.time or 0.0) - zero
        kind = "reboot" if e.event.startswith("reboot") else "step"
        label = _label(e) if kind == "step" else "reboot"
        if e.event.endswith("_start"):
            running[e.host, label] = (at, kind)
        elif e.event in ("step_done", "step_failed", "reboot_done"):
            begun, _ = running.pop((e.host, label), (at, kind))
            spans.append(Span(e.host, kind, begun, at - begun, label))
        if e.event in ("verified", "problem", "step_failed"):
            point = "verified" if e.event == "verified" else "problem"
            spans.append(Span(e.host, point, at, 0.0, _said(e)))
    spans += [Span(host, "open", at, max(end - at, 0.0), label) for (host, label), (at, _) in running.items()]
    return spans


def _label(event: Event) -> str:
    """A step without its host."""
    return event.step.removeprefix(f"{event.host}/") or event.message
