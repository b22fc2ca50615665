"""What a rack remembers between commands: one JSON file, replaced whole, and one lock."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .. import paths
from ..errors import USAGE, NearmetalError
from .process import Process

SCHEMA = 1
NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")


class NodeState(BaseModel):
    """One node. `snapshots` are valid only while `fingerprint` (of hardware, QEMU and image) stays the same."""

    model_config = ConfigDict(extra="forbid")

    uuid: str
    port: int = 0
    bmc_port: int = 0
    process: Process | None = None
    snapshots: list[str] = Field(default_factory=list)
    fingerprint: str = ""

    def running(self) -> bool:
        """Whether the recorded QEMU process is still there."""
        return self.process is not None and self.process.alive()


class RackState(BaseModel):
    """The whole rack. `runtime` is the short-lived folder of its sockets, "" while it is down."""

    model_config = ConfigDict(extra="forbid")

    schema_version: int = SCHEMA
    name: str
    runtime: str = ""
    accel: str = ""
    qemu: str = ""
    switch: Process | None = None
    bmcs: Process | None = None
    nodes: dict[str, NodeState] = Field(default_factory=dict)


class Store:
    """Folder of one rack: state file, lock, keys, nodes."""

    def __init__(self, name: str) -> None:
        if not NAME.fullmatch(name):
            raise NearmetalError(
                f"--name {name!r} is no name for a rack: small letters, digits and hyphens, a letter first, "
                "20 at most",
                USAGE,
            )
        self.name = name
        self.folder = paths.state_dir().absolute() / "lab" / name
        self._file = self.folder / "rack.json"
        self._guard = threading.RLock()

    @property
    def keys(self) -> Path:
        """Folder of keys and OpenSSH client files."""
        return self.folder / "ssh"

    def node_folder(self, node: str) -> Path:
        """Folder of one node's disk and logs."""
        return self.folder / node

    def load(self) -> RackState:
        """The remembered state; a fresh one for a new rack."""
        try:
            return RackState.model_validate_json(self._file.read_text())
        except FileNotFoundError:
            return RackState(name=self.name)
        except (OSError, ValidationError) as err:
            reason = str(err).splitlines()[0]
            raise NearmetalError(f"The state of rack {self.name} cannot be read: {self._file}: {reason}") from None

    def save(self, state: RackState) -> None:
        """Replace the state file, whole. Called from several threads."""
        with self._guard:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = self._file.with_name(f"rack.json.{secrets.token_hex(4)}")
            fresh.write_text(state.model_dump_json(indent=2) + "\n")
            fresh.replace(self._file)

    @contextlib.contextmanager
    def lock(self, wait_s: float = 5) -> Iterator[None]:
        """Keep other commands off this rack. Raises NearmetalError naming the process that holds it."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self.folder / "lock").open("a+") as f:
            end = time.monotonic() + wait_s
            while not _locked(f.fileno()):
                if time.monotonic() > end:
                    f.seek(0)
                    holder = f.read().strip() or "?"
                    raise NearmetalError(f"Rack {self.name} is in use by another command (process {holder}).")
                time.sleep(0.2)
            f.truncate(0)
            f.write(str(os.getpid()))
            f.flush()
            yield


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
