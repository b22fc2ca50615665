"""One machine as its BMC knows it: BIOS values, what waits for the next boot, jobs, power. No input or output here."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from . import fixtures
from .traits import TRAITS, Traits


class Power(Protocol):
    """What turns the machine on and off. reports_boot: it says itself when the machine boots (Machine.boot_up)."""

    reports_boot: bool

    def on(self) -> None:
        """Start it."""

    def off(self, graceful: bool = False) -> None:
        """Stop it; graceful: ask the operating system."""

    def reset(self, graceful: bool = False) -> None:
        """Start it anew."""

    def state(self) -> str:
        """Either "On" or "Off"."""


class Switch:
    """Power of a machine that is only a model."""

    reports_boot = False

    def __init__(self) -> None:
        self._on = True

    def on(self) -> None:
        """Start it."""
        self._on = True

    def off(self, graceful: bool = False) -> None:
        """Stop it."""
        self._on = False

    def reset(self, graceful: bool = False) -> None:
        """Start it anew."""
        self._on = True

    def state(self) -> str:
        """Either "On" or "Off"."""
        return "On" if self._on else "Off"


class Refused(Exception):
    """A request that the BMC does not carry out: `errors` are (MessageId, arguments, attribute)."""

    def __init__(self, *errors: tuple[str, list[str], str], status: int = 400) -> None:
        super().__init__("; ".join(f"{e[0]} {e[1]}" for e in errors))
        self.errors, self.status = errors, status


@dataclass
class Job:
    """A configuration job, as Dell has them: it applies what waits, some seconds after the boot."""

    number: int
    state: str = "Scheduled"
    due: float = 0.0

    @property
    def id(self) -> str:
        """Its name."""
        return f"JID_{self.number:012d}"


@dataclass
class Machine:
    """BIOS, boot and power of one machine. Methods are safe to call from several threads."""

    vendor: str
    traits: Traits
    bios_path: str
    settings_path: str
    current: dict[str, Any]
    waiting: dict[str, Any] = field(default_factory=dict)
    registry: dict[str, Any] | None = None
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    power: Power = field(default_factory=Switch)
    job_seconds: float = 0.0
    jobs: list[Job] = field(default_factory=list)
    boot: dict[str, str] = field(default_factory=lambda: {"target": "None", "enabled": "Disabled"})
    boots: int = 0
    version: int = 1
    messages: list[str] = field(default_factory=list)
    defaults: dict[str, Any] = field(default_factory=dict)
    on_change: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    _guard: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def __post_init__(self) -> None:
        """What it begins with is what its factory gave it."""
        self.defaults = self.defaults or dict(self.current)

    @classmethod
    def made_up(cls, vendor: str, power: Power | None = None, **values: Any) -> Machine:
        """A machine with the small fixture of a vendor; values: attributes that differ from it."""
        traits = TRAITS[vendor]
        system = f"/redfish/v1/Systems/{traits.system}"
        bios = f"{system.lower()}/bios" if traits.any_case else f"{system}/Bios"
        entries = fixtures.registry(vendor) if traits.registry else None
        current = {**fixtures.values(vendor), **values}
        return cls(vendor, traits, bios, f"{bios}/{traits.settings}", current, registry=entries, power=power or Switch())

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let nobody else change the machine meanwhile."""
        with self._guard:
            yield

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the machine still, and tell who listens afterwards."""
        with self._guard:
            yield
            self.version += 1
        self.on_change()

    # -- what a client sees

    def shown(self) -> dict[str, Any]:
        """Attributes of the current resource."""
        with self._guard:
            self._run_due_jobs()
            return {**self.current, **(self.waiting if self.traits.shows_new_early else {})}

    def pending(self) -> dict[str, Any]:
        """Attributes of the settings resource."""
        with self._guard:
            self._run_due_jobs()
            return {**self.current, **self.waiting} if self.traits.repeats_all else dict(self.waiting)

    def unfinished(self) -> list[Job]:
        """Jobs that have not run yet."""
        with self._guard:
            self._run_due_jobs()
            return [job for job in self.jobs if job.state in ("Scheduled", "Running")]

    # -- what a client asks for

    def submit(self, attributes: dict[str, Any], apply_time: str | None = None) -> Job | None:
        """Let values wait for the next boot; returns the job that will apply them, where the vendor has jobs."""
        with self._guard:
            self._refuse_while_committed()
            if apply_time is not None and not self.traits.apply_times:
                raise Refused(("Base.1.12.PropertyUnknown", ["@Redfish.SettingsApplyTime"], ""))
            if apply_time is not None and apply_time not in self.traits.apply_times:
                raise Refused(("Base.1.12.PropertyValueNotInList", [str(apply_time), "ApplyTime"], ""))
            if errors := [e for name, value in attributes.items() if (e := self._objection(name, value, attributes))]:
                raise Refused(*errors)
            with self.changing():
                for name, value in attributes.items():
                    if self.current[name] == value:
                        self.waiting.pop(name, None)
                    else:
                        self.waiting[name] = value
                return self.schedule() if self.traits.jobs and apply_time else None

    def schedule(self) -> Job:
        """Make the job that applies what waits."""
        with self.changing():
            self._refuse_while_committed()
            job = Job(max((job.number for job in self.jobs), default=0) + 1)
            self.jobs.append(job)
            return job

    def drop_job(self, name: str) -> None:
        """Delete a job; what it should have applied goes on waiting."""
        with self.changing():
            self.jobs = [job for job in self.jobs if job.id != name]

    def clear(self) -> None:
        """Forget what waits."""
        with self.changing():
            self._refuse_while_committed()
            self.waiting.clear()

    def reset_bios(self) -> None:
        """Let the factory's values wait for the next boot (Bios.ResetBios)."""
        with self.changing():
            self._refuse_while_committed()
            self.waiting = {k: v for k, v in self.defaults.items() if self.current.get(k) != v}
            if self.traits.jobs and self.waiting:
                self.schedule()

    def _refuse_while_committed(self) -> None:
        if self.traits.jobs and self.unfinished():
            raise Refused(("IDRAC.2.8.SYS011", ["pending configuration values are already committed"], ""))

    def reset(self, kind: str) -> None:
        """Carry out a reset type."""
        if kind not in self.traits.reset_types:
            raise Refused(("Base.1.12.ActionParameterValueNotInList", [kind, "ResetType", "Reset"], ""))
        on = self.power.state() == "On"
        if kind in ("ForceOff", "GracefulShutdown"):
            self.power.off(kind == "GracefulShutdown")
        elif not on:
            self.boot_up()
            self.power.on()
        elif kind != "On":
            if not self.power.reports_boot:
                self.boot_up()
            self.power.reset(kind == "GracefulRestart")

    # -- what the machine does

    def boot_up(self) -> dict[str, Any]:
        """POST: what waits is in force afterwards (with jobs: once they have run). Returns what changed."""
        with self.changing():
            self.boots += 1
            if self.boot["enabled"] == "Once":
                self.boot.update(target="None", enabled="Disabled")
            if not self.traits.jobs:
                return self._apply()
            for job in self.unfinished():
                job.state, job.due = "Running", self.clock() + self.job_seconds
            before = dict(self.current)
            self._run_due_jobs()
            return {k: v for k, v in self.current.items() if before[k] != v}

    def _run_due_jobs(self) -> None:
        due = [job for job in self.jobs if job.state == "Running" and self.clock() >= job.due]
        for job in due:
            job.state = "Completed"
        if due:
            self._apply()
            self.version += 1
            self.on_change()

    def _apply(self) -> dict[str, Any]:
        changed, self.waiting = dict(self.waiting), {}
        self.current.update(changed)
        return changed

    def _objection(self, name: str, value: Any, asked: dict[str, Any]) -> tuple[str, list[str], str] | None:
        """Why a value cannot be submitted, by the registry or else by the value that is there."""
        if name not in self.current:
            return ("Base.1.12.PropertyUnknown", [name], name)
        entry = self.entry(name)
        if entry.get("ReadOnly") or entry.get("Immutable") or self._locked(name, asked):
            return ("Base.1.12.PropertyNotWritable", [name], name)
        kind = entry.get("Type", "")
        if not _fits(kind, value, self.current[name]):
            return ("Base.1.12.PropertyValueTypeError", [str(value), name], name)
        allowed = [v["ValueName"] for v in entry.get("Value") or ()]
        if allowed and value not in allowed:
            return ("Base.1.12.PropertyValueNotInList", [str(value), name], name)
        if kind == "Integer" and not entry.get("LowerBound", value) <= value <= entry.get("UpperBound", value):
            return ("Base.1.12.PropertyValueOutOfRange", [str(value), name], name)
        too_long = kind == "String" and len(value) > (entry.get("MaxLength") or len(value))
        return ("Base.1.12.StringValueTooLong", [value, str(entry["MaxLength"])], name) if too_long else None

    def entry(self, name: str) -> dict[str, Any]:
        """What the registry says of an attribute; {} where there is none."""
        entries = (self.registry or {}).get("Attributes") or ()
        return next((dict(e) for e in entries if e.get("AttributeName") == name), {})

    def _locked(self, name: str, asked: dict[str, Any]) -> bool:
        """Whether a dependency of the registry makes an attribute read-only, given what is asked beside it."""
        values = {**self.current, **self.waiting, **asked}
        for rule in (self.registry or {}).get("Dependencies") or ():
            to = rule.get("Dependency") or {}
            locks = to.get("MapToAttribute") == name and to.get("MapToProperty") == "ReadOnly" and to.get("MapToValue") is True
            if locks and all(_holds(term, values) for term in to.get("MapFrom") or ()):
                return True
        return False


def _holds(term: dict[str, Any], values: dict[str, Any]) -> bool:
    equal = values.get(term.get("MapFromAttribute", "")) == term.get("MapFromValue")
    return {"EQU": equal, "NEQ": not equal}.get(str(term.get("MapFromCondition")), False)


def _fits(kind: str, value: Any, present: Any) -> bool:
    """Whether a value has the type that the registry, or else the present value, asks for."""
    if kind in ("Enumeration", "String", "Password"):
        return isinstance(value, str)
    if kind == "Boolean" or not kind and isinstance(present, bool):
        return isinstance(value, bool)
    if kind == "Integer" or not kind and isinstance(present, int):
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str) or present is None or not isinstance(present, str)
