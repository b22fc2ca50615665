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
from typing import Any, cast

from ansible_collections.nearmetal.rack.plugins.module_utils.state import State
from pydantic import TypeAdapter, ValidationError

from nearmetal.bench.results import HostResults
from nearmetal.errors import BAD_INTENT, NearmetalError

USED = frozenset([
    "os", "cpu", "memory", "kernel", "boot", "iommu", "pci", "net", "confinement", "kvm", "unread", "name", "arch",
    "vendor", "model", "online", "offline", "threads_per_core", "smt", "sockets", "cores", "nodes", "cpus", "node",
    "socket", "kind", "id", "memory_bytes", "distances", "total_bytes", "hugepages", "size_kb", "total", "free",
    "release", "loader", "sealed", "groups", "types", "units", "address", "class", "numa_node", "driver",
    "iommu_group", "sriov_total", "sriov_vfs", "physfn", "netdevs", "operstate", "speed_mbps", "bond",
    "default_irq_affinity", "irqbalance", "section", "reason",
])  # fmt: skip
"""Names that the report reads and cannot do without: documents of an older version may lack any other."""

STATE: TypeAdapter[State] = TypeAdapter(State)
"""Checks documents of `host_info`."""


LAST = "last"
"""Stands for the latest run, like no name."""


@dataclass(frozen=True)
class Left:
    """What an observation found to differ: id of each step -> what was found there.

    known: whether everything could be decided; where not, the absence of a step proves nothing.
    """

    steps: dict[str, str]
    known: bool
    reboot: bool


@dataclass(frozen=True)
class Event:
    """One line of a journal, as the callback plugin `journal` writes it.

    event: task_start, task_done, step_done, reboot_start, reboot_done, plan, failed, unreachable (others
    are of no host). time: seconds since the epoch, None where the line has none. step: ids without the
    host, several separated by commas. plan: where the host was observed, what is left to do.
    """

    time: float | None
    host: str
    event: str
    step: str = ""
    task: str = ""
    action: str = ""
    message: str = ""
    plan: Left | None = None


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
        return any(e.event in ("step_done", "reboot_done") for e in self.journal)


@dataclass(frozen=True)
class BenchData:
    """One benchmark run: a HostResults document per host."""

    id: str
    hosts: dict[str, HostResults]


@dataclass(frozen=True)
class Collected:
    """Everything that the report is made of.

    `later`: later runs that found nothing to change. `failovers`: documents of nearmetal.lab.failover.
    """

    run: RunData | None
    bench: BenchData | None
    later: list[RunData] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failovers: list[dict[str, Any]] = field(default_factory=list)

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

    Raises NearmetalError(BAD_INTENT) where a named run does not exist, with those that do.
    """
    notes: list[str] = []
    run, bench = (None if name in (None, "", LAST) else name for name in (run, bench))
    runs = _folders(state_dir / "runs", run, "run")
    benches = _folders(state_dir / "bench", bench, "benchmark run")
    known = [_load_run(folder, [], states=False) for folder in runs]
    best = _choose(known)
    chosen = _load_run(state_dir / "runs" / best.id, notes) if best else None
    later = [r for r in known if best and _start(r) > _start(best) and _same_rack(r, best) and not r.plan.get("steps")]
    return Collected(chosen, _load_benches(benches, notes), later, notes, _failovers(state_dir / "failover", notes))


def _failovers(folder: Path, notes: list[str]) -> list[dict[str, Any]]:
    """The latest measurement of each label (active-backup, 802.3ad, ...), oldest first."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        document = _object(path, notes)
        if isinstance(document.get("effects"), list):
            found.pop(str(document.get("label")), None)
            found[str(document.get("label"))] = document
    return list(found.values())


def _same_rack(one: RunData, other: RunData) -> bool:
    return all(one.info.get(name) == other.info.get(name) for name in ("inventory", "limit"))


def _folders(parent: Path, wanted: str | None, what: str) -> list[Path]:
    """Sub-folders of `parent`, or the one wanted."""
    found = sorted(p for p in parent.iterdir() if p.is_dir()) if parent.is_dir() else []
    if wanted is None:
        return found
    if match := [p for p in found if p.name == wanted]:
        return match
    known = ", ".join(p.name for p in found[-5:]) or "none yet"
    raise NearmetalError(f"there is no {what} {wanted!r} in {parent}; the latest are: {known}", BAD_INTENT)


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


def _load_run(folder: Path, notes: list[str], *, states: bool = True) -> RunData:
    """One run; without `states` only what is needed to choose among runs."""
    info = _object(folder / "run.json", notes)
    plan = _object(folder / "plan.json", notes)
    return RunData(
        id=folder.name,
        info=info,
        plan=plan,
        before=dict(_states(folder, "before", notes)) if states else {},
        after=dict(_states(folder, "after", notes)) if states else {},
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


def _first(error: ValidationError) -> str:
    return _told(error.errors())


def _faults(document: dict[str, Any]) -> str:
    """What keeps a document of `host_info` from being shown; "" for nothing."""
    try:
        STATE.validate_python(document)
    except ValidationError as error:
        wrong = [e for e in error.errors() if e["type"] != "missing" or e["loc"][-1] in USED]
        return _told(wrong) if wrong else ""
    return ""


def _told(found: list[Any]) -> str:
    """The first thing that is wrong, and how many more."""
    where = ".".join(map(str, found[0]["loc"]))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{where}: {found[0]['msg']}{more}"


def _states(folder: Path, when: str, notes: list[str]) -> Iterator[tuple[str, State]]:
    for path in sorted(folder.glob(f"states/*.{when}.json")):
        document = _object(path, notes)
        wrong = _faults(document) if document else ""
        if wrong:
            notes.append(f"states/{path.name} is no document of host_info: {wrong}")
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
    texts = {name: text(found.get(name)) for name in ("host", "event", "step", "task", "action", "message")}
    plan = found.get("plan")
    return Event(time=timestamp(found.get("time")), plan=_left(plan) if isinstance(plan, dict) else None, **texts)


def _left(plan: dict[str, Any]) -> Left:
    steps = {text(s.get("id")): text(s.get("before")) for s in plan.get("steps") or ()}
    return Left(steps, plan.get("status") in ("ok", "changes"), bool(plan.get("reboot")))


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
                why = _first(error) if isinstance(error, ValidationError) else _why(error)
                notes.append(f"bench/{folder.name}/{path.name} is no benchmark result: {why}")
        if hosts:
            return BenchData(folder.name, hosts)
    return None
