"""Where simulated hosts live: a JSON document and a lock each; contents of large files beside.

NEARMETAL_SIM_DIR/
    hosts/NAME.json   the state (shape: model/factory.py)
    hosts/NAME.lock   held while the state is read, changed and written
    blobs/DIGEST      contents of files on the simulated disks, shared by all hosts
    compiled/         what compiling Ansible's payloads gave
    tmp/              of programs that run for a simulated host
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

State = dict[str, Any]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
INLINE = 2048
"""Bytes of a file that stand in the document itself; larger ones are blobs."""
LOCK_PATIENCE_S = 120.0


class SimError(Exception):
    """The simulator cannot do what was asked; one sentence."""


def sim_dir() -> Path:
    """Folder of all simulated hosts: NEARMETAL_SIM_DIR, else .nearmetal/sim of the checkout."""
    if named := os.environ.get("NEARMETAL_SIM_DIR"):
        return Path(named).absolute()
    from nearmetal.paths import state_dir

    return state_dir().absolute() / "sim"


class Store:
    """The states of the hosts in one folder."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.hosts = top / "hosts"
        self.blobs = top / "blobs"
        self.tmp = top / "tmp"

    def names(self) -> list[str]:
        """Hosts that have a state."""
        return sorted(p.stem for p in self.hosts.glob("*.json")) if self.hosts.is_dir() else []

    def path(self, name: str) -> Path:
        """The document of a host; raises SimError for a name that is none."""
        if not NAME.fullmatch(name):
            raise SimError(f"{name!r} is no name of a host")
        return self.hosts / f"{name}.json"

    def load(self, name: str) -> State | None:
        """The state; None where the host was never made."""
        try:
            state: State = json.loads(self.path(name).read_bytes())
        except FileNotFoundError:
            return None
        return state

    def save(self, state: State) -> None:
        """Replace a host's document. Only to be called with its lock held."""
        path = self.path(state["name"])
        draft = path.with_suffix(f".{os.getpid()}.new")
        draft.write_text(json.dumps(state, separators=(",", ":")), encoding="utf-8")
        draft.replace(path)

    def stamp(self, name: str) -> tuple[int, int, int]:
        """Changes whenever the document was replaced."""
        try:
            found = os.stat(self.path(name))
        except FileNotFoundError:
            return (0, 0, 0)
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    @contextlib.contextmanager
    def lock(self, name: str, kind: str = "lock") -> Iterator[None]:
        """Only one at a time; `kind` names further locks of the same host. Raises SimError after two minutes."""
        self.hosts.mkdir(parents=True, exist_ok=True)
        with self.path(name).with_suffix(f".{kind}").open("a") as file:
            end = time.monotonic() + LOCK_PATIENCE_S
            pause = 0.002
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > end:
                        raise SimError(f"{name}: another program holds its {kind}") from None
                    time.sleep(pause)
                    pause = min(pause * 1.5, 0.05)
            yield

    def keep(self, data: bytes) -> Any:
        """What stands in the document for a file's content: text, or {"blob": digest}."""
        if len(data) <= INLINE:
            text = data.decode("utf-8", "surrogateescape")
            if text.isprintable() or text.isascii():
                return text
        digest = hashlib.sha256(data).hexdigest()
        path = self.blobs / digest
        if not path.exists():
            self.blobs.mkdir(parents=True, exist_ok=True)
            fd, draft = tempfile.mkstemp(dir=self.blobs)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            os.replace(draft, path)
        return {"blob": digest}

    def content(self, kept: Any) -> bytes:
        """What `keep` has kept."""
        if isinstance(kept, str):
            return kept.encode("utf-8", "surrogateescape")
        return (self.blobs / str(kept["blob"])).read_bytes()
