"""Read what a report is made of: one apply run and one benchmark run.

Files that cannot be read never end the report: each is named in `Collected.notes` with its reason,
and the page shows these notes. A journal whose last line was cut (controller killed) is normal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from nearmetal.bench.results import HostResults
from nearmetal.errors import USAGE, NearmetalError

if TYPE_CHECKING:
    from ansible_collections.nearmetal.rack.plugins.module_utils.state import State

STATE_SECTIONS = {
    "os": dict, "cpu": dict, "memory": dict, "kernel": dict, "boot": dict, "iommu": dict,
    "pci": list, "net": list, "confinement": dict, "unread": list,
}  # fmt: skip
"""What a document of `host_info` has at least, and of which type."""


@dataclass(frozen=True)
class Event:
    """One line of a journal. time: seconds since the epoch, None where the line has none."""

    time: float | None
    host: str
    event: str
    step: str = ""
    before: str = ""
    after: str = ""
    message: str = ""


@dataclass(frozen=True)
class RunData:
    """One apply run: run.json, plan.json, states/, journal.jsonl."""

    id: str
    info: dict[str, Any]
    plan: dict[str, Any]
    before: dict[str, State]
    after: dict[str, State]
    journal: list[Event]

    @property
    def changed(self) -> bool:
        """Whether anything was done on a host (not merely planned)."""
        return any(e.event in ("step_done", "reboot_done", "step_failed") for e in self.journal)


@dataclass(frozen=True)
class BenchData:
    """One benchmark run: a HostResults document per host."""

    id: str
    hosts: dict[str, HostResults]


@dataclass(frozen=True)
class Collected:
    """Everything that the report is made of. `later`: later runs that found nothing to change."""

    run: RunData | None
    bench: BenchData | None
    later: list[RunData] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def states(self) -> dict[str, State]:
        """The last state seen of each host: after the run, else before it."""
        return {**self.run.before, **self.run.after} if self.run else {}

    @property
    def hosts(self) -> list[str]:
        """Every host that any document speaks of, sorted by name."""
        names = set(self.states)
        if self.run:
            names |= set(self.run.plan.get("hosts", {})) | {e.host for e in self.run.journal if e.host}
        if self.bench:
            names |= set(self.bench.hosts)
        return sorted(names, key=natural)


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key that puts node2 before node10."""
    parts: list[tuple[int, str]] = []
    digits = ""
    for char in name + "\0":
        if char.isdecimal() and char.isascii():
            digits += char
            continue
        if digits:
            parts.append((int(digits), ""))
            digits = ""
        parts.append((-1, char))
    return tuple(parts)


def collect(state_dir: Path, run: str | None, bench: str | None) -> Collected:
    """Read the named runs, or the latest run that changed something and the latest benchmark run.

    Raises NearmetalError(USAGE) where a named run does not exist, with those that do.
    """
    notes: list[str] = []
    runs = _folders(state_dir / "runs", run, "run")
    benches = _folders(state_dir / "bench", bench, "benchmark run")
    loaded = [_load_run(folder, notes if run else []) for folder in runs]
    chosen = _choose(loaded)
    if chosen and not run:
        _load_run(state_dir / "runs" / chosen.id, notes)
    later = [r for r in loaded if chosen and _start(r) > _start(chosen) and not r.plan.get("steps")] if not run else []
    return Collected(chosen, _load_benches(benches, notes), later, notes)


def _folders(parent: Path, wanted: str | None, what: str) -> list[Path]:
    """Sub-folders of `parent`, or the one wanted."""
    found = sorted(p for p in parent.iterdir() if p.is_dir()) if parent.is_dir() else []
    if wanted is None:
        return found
    if match := [p for p in found if p.name == wanted]:
        return match
    known = ", ".join(p.name for p in found[-5:]) or "none yet"
    raise NearmetalError(f"there is no {what} {wanted!r} in {parent}; the latest are: {known}", USAGE)


def _choose(runs: list[RunData]) -> RunData | None:
    """The latest run that changed something, else the latest with steps, else the latest."""
    ordered = sorted(runs, key=_start)
    for good in (lambda r: r.changed, lambda r: bool(r.plan.get("steps")), lambda r: True):
        if match := [r for r in ordered if good(r)]:
            return match[-1]
    return None


def _start(run: RunData) -> tuple[float, str]:
    return (timestamp(run.info.get("started")) or 0.0, run.id)


def timestamp(value: Any) -> float | None:
    """Seconds since the epoch of an ISO 8601 text (UTC where it names no zone) or of a number."""
    if isinstance(value, int | float):
        return float(value)
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _load_run(folder: Path, notes: list[str]) -> RunData:
    info = _object(folder / "run.json", notes)
    plan = _object(folder / "plan.json", notes)
    return RunData(
        id=folder.name,
        info=info,
        plan=plan,
        before=dict(_states(folder, "before", notes)),
        after=dict(_states(folder, "after", notes)),
        journal=_journal(folder / "journal.jsonl", notes),
    )


def _object(path: Path, notes: list[str]) -> dict[str, Any]:
    """A JSON object; empty, with a note, where it cannot be had."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        notes.append(f"{path.name} of run {path.parent.name} cannot be read: {_why(error)}")
        return {}
    if isinstance(found, dict):
        return found
    notes.append(f"{path.name} of run {path.parent.name} is no JSON object")
    return {}


def _why(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _states(folder: Path, when: str, notes: list[str]) -> Iterator[tuple[str, State]]:
    for path in sorted(folder.glob(f"states/*.{when}.json")):
        document = _object(path, notes)
        wrong = [name for name, kind in STATE_SECTIONS.items() if not isinstance(document.get(name), kind)]
        if document and wrong:
            notes.append(f"states/{path.name} is no document of host_info: it lacks {', '.join(wrong)}")
        elif document:
            yield path.name.removesuffix(f".{when}.json"), cast("State", document)


def _journal(path: Path, notes: list[str]) -> list[Event]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []  # nothing was done
    except OSError as error:
        notes.append(f"the journal of run {path.parent.name} cannot be read: {_why(error)}")
        return []
    events = []
    for number, line in enumerate(lines, 1):
        try:
            found = json.loads(line)
            events.append(_event(found))
        except (ValueError, AttributeError):
            notes.append(f"line {number} of the journal of run {path.parent.name} is cut or no JSON; it was left out")
    return events


def _event(found: Any) -> Event:
    texts = {name: text(found.get(name)) for name in ("host", "event", "step", "before", "after", "message")}
    return Event(time=timestamp(found.get("time")), **texts)


def text(value: Any) -> str:
    """A value as people read it: "" for None, JSON for lists and objects."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _load_benches(folders: list[Path], notes: list[str]) -> BenchData | None:
    """The latest folder that holds a result."""
    for folder in sorted(folders, key=lambda p: p.name, reverse=True):
        hosts: dict[str, HostResults] = {}
        for path in sorted(folder.glob("*.json")):
            try:
                results = HostResults.model_validate_json(path.read_bytes())
                hosts[results.host] = results
            except (OSError, ValidationError) as error:
                first = str(error).splitlines()[0]
                notes.append(f"bench/{folder.name}/{path.name} is no benchmark result: {first}")
        if hosts:
            return BenchData(folder.name, hosts)
    return None
