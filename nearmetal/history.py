"""Runs on disk: what was asked, what was planned, what happened, what came of it."""

from __future__ import annotations

import datetime
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nearmetal.errors import BAD_INTENT, NearmetalError
from nearmetal.paths import state_dir

SCHEMA = 1


@dataclass
class Run:
    """One apply. status: running, ok, failed, interrupted, or died (the controller went away)."""

    id: str
    command: list[str]
    inventory: str
    limit: str
    started: str
    pid: int
    status: str = "running"
    ended: str = ""
    hosts: dict[str, str] = field(default_factory=dict)  # host -> "pending", "ok", "failed", "skipped"
    schema: int = SCHEMA

    @property
    def folder(self) -> Path:
        """Where its files lie."""
        return runs_dir() / self.id

    def save(self) -> None:
        """Write run.json, atomically and through to the disk."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self.folder / "run.json.new"
        with draft.open("w") as file:
            json.dump(asdict(self), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.folder / "run.json")

    def end(self, status: str) -> None:
        """Close the run."""
        self.status, self.ended = status, now()
        self.save()


def now() -> str:
    """UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def runs_dir() -> Path:
    """Folder of all runs."""
    return state_dir() / "runs"


def begin(command: list[str], inventory: str, limit: str) -> Run:
    """A new run with an id that sorts by time."""
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    return Run(f"{stamp}-{secrets.token_hex(2)}", command, inventory, limit, now(), os.getpid())


def read(run: str) -> Run:
    """A run by its id; exit 65 where there is none."""
    path = runs_dir() / run / "run.json"
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        found = Run(**data)
    except FileNotFoundError:
        raise NearmetalError(f"no run {run}; nearmetal runs lists them", BAD_INTENT) from None
    except (ValueError, TypeError) as err:
        raise NearmetalError(f"{path} is damaged: {err}") from None
    if found.status == "running" and not Path(f"/proc/{found.pid}").exists():
        found.status = "died"
    return found


def all_runs() -> Iterator[Run]:
    """Newest first. A damaged one is passed over."""
    folder = runs_dir()
    for path in sorted(folder.iterdir(), reverse=True) if folder.is_dir() else ():
        if (path / "run.json").is_file():
            try:
                yield read(path.name)
            except NearmetalError:
                continue
