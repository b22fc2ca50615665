"""What a run changed, why, and what was verified: plan and journal put together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nearmetal.report.cmdline import Word, compare
from nearmetal.report.collect import Collected, Event, RunData, natural, text, timestamp
from nearmetal.report.words import duration

OBSERVES = "nearmetal.rack.plan"
"""The action that observes a host and decides."""

REBOOT_STEP = "reboot/reboot"
"""The planned step that is the reboot itself."""

FAILURES = ("failed", "unreachable")
ENDS = ("task_done", "reboot_done", "plan", *FAILURES)
"""Events that end what was at work on a host."""

OUTCOMES = {
    "verified": ("ok", "verified"),
    "done": ("warn", "done, not verified"),
    "failed": ("bad", "failed"),
    "waiting": ("warn", "waits for a reboot"),
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
        return self.key if self.key == self.capability else f"{self.capability}/{self.key}"

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
    failures = [e for e in events if e.event in FAILURES]
    return HostChanges(
        host=host,
        status=text(planned.get("status")),
        steps=[_step(s, events) for s in run.plan.get("steps", []) if s.get("host") == host],
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
    subject = event.task or event.event
    return f"{subject}: {event.message.strip()}" if event.message.strip() else subject


def _step(planned: dict[str, Any], events: list[Event]) -> StepView:
    name = f"{planned.get('capability')}/{planned.get('key')}"
    verify = text(planned.get("verify"))
    outcome, evidence = _outcome(name, verify, events)
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
        verify=verify,
        outcome=outcome,
        evidence=evidence,
        took=_took(name, events),
    )


def _outcome(name: str, verify: str, events: list[Event]) -> tuple[str, str]:
    """What became of a step, and what shows it: the last observation has the last word.

    A step is verified where it was in the first observation of the run or the plan and a later one,
    in which everything could be decided, does not find it any more.
    """
    failed = next((e for e in events if e.event == "failed" and name in e.step.split(", ")), None)
    done = [i for i, e in enumerate(events) if _does(e, name)]
    looks = [i for i, e in enumerate(events) if e.plan]
    last = events[looks[-1]].plan if looks else None
    if last and last.known and name not in last.steps:
        return "verified", verify or "no difference is left"
    if failed:
        return "failed", failed.message.strip()
    if last and name in last.steps and (len(looks) > 1 or (done and looks[-1] > done[-1])):
        found = f"found {last.steps[name] or 'nothing'}; expected: {verify}"
        return ("waiting" if last.reboot and not _rebooted(events) else "failed"), found
    return ("done" if done else "open"), ""


def _does(event: Event, name: str) -> bool:
    return event.event == "step_done" and event.step == name or event.event == "reboot_done" and name == REBOOT_STEP


def _rebooted(events: list[Event]) -> bool:
    return any(e.event in ("reboot_start", "reboot_done") for e in events)


def _took(name: str, events: list[Event]) -> str:
    """Time of the task that did a step (several steps may share it); "" where it is not known."""
    begun: float | None = None
    for event in events:
        if event.event.endswith("_start"):
            begun = event.time
        elif _does(event, name) and begun is not None and event.time is not None:
            return duration(event.time - begun)
    return ""


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

    kind: "step", "reboot", "look" (observed, read back), "open" (began and did not end); or a point
    (seconds 0): "verified", "problem".
    """

    host: str
    kind: str
    start: float
    seconds: float
    label: str


def timeline(run: RunData) -> list[Span]:
    """What happened when, from the journal; empty where it has no times."""
    timed = [(e.time, e) for e in run.journal if e.time is not None]
    if not timed:
        return []
    zero = min(timed[0][0], timestamp(run.info.get("started")) or timed[0][0])
    end = max(timed[-1][0], timestamp(run.info.get("ended")) or timed[-1][0]) - zero
    return [span for host in {e.host: 0 for _, e in timed if e.host} for span in _spans(host, timed, zero, end)]


def _spans(host: str, timed: list[tuple[float, Event]], zero: float, end: float) -> list[Span]:
    """Spans of one host. Tasks of a host follow each other, so that what begins last ends next."""
    spans: list[Span] = []
    begun: tuple[float, Event] | None = None
    steps: list[str] = []
    looked = False
    for time, event in ((t - zero, e) for t, e in timed if e.host == host):
        if event.event.endswith("_start"):
            begun, steps = (time, event), []
        elif event.event == "step_done":
            steps.append(event.step)
        elif event.event in ENDS and begun:
            label = ", ".join(steps) or begun[1].task or _kind(begun[1])
            spans.append(Span(host, _kind(begun[1]), begun[0], time - begun[0], label))
            begun = None
        if event.event in FAILURES:
            spans.append(Span(host, "problem", time, 0.0, _said(event)))
        if event.plan:
            if looked and event.plan.known and not event.plan.steps:
                spans.append(Span(host, "verified", time, 0.0, "everything was read back as intended"))
            looked = True
    return [*spans, Span(host, "open", begun[0], max(end - begun[0], 0.0), begun[1].task)] if begun else spans


def _kind(event: Event) -> str:
    return "reboot" if event.event == "reboot_start" else "look" if event.action == OBSERVES else "step"
