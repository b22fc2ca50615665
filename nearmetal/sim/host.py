"""A simulated host as a Host: what modules and programs are given in place of the machine that they run on.

`module_utils/host.py` asks for it by name where NEARMETAL_SIMULATED (FOLDER:HOST) is set. The class is made for the
module that asks, because that may come from an Ansible payload or a zipapp: its errors must be the caller's own.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from . import commands, faults
from .files import Errno, Files
from .machine import VARIABLE, Machine
from .model import kernel
from .model.errors import Refusal
from .store import SimError, Store

BACKUP_DIR = "/var/lib/nearmetal/backup"


class Simulated:
    """The Host interface over a Machine. `words` is the module whose errors are raised."""

    live = True
    words: Any

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.root = "/"
        self._inside = VARIABLE in os.environ

    def _files(self) -> Files:
        """The files, after everything that is due has happened."""
        self._settle()
        return self.machine.look()

    def _settle(self) -> None:
        if not self._inside:
            self.machine.settle()

    def _error(self, path: str, number: int) -> Exception:
        kind = self.words.Missing if number in (errno.ENOENT, errno.ENOTDIR) else self.words.Unreadable
        return kind(path, os.strerror(number))  # type: ignore[no-any-return]

    def read_bytes(self, path: str) -> bytes:
        """See Host."""
        try:
            return self._files().read(path)
        except Errno as err:
            raise self._error(path, err.number) from None

    def list(self, path: str) -> list[str]:
        """See Host."""
        try:
            return self._files().list(path)
        except Errno as err:
            raise self._error(path, err.number) from None

    def readlink(self, path: str) -> str:
        """See Host."""
        try:
            return self._files().readlink(path)
        except Errno as err:
            if err.number == errno.EINVAL:
                raise self.words.Missing(path, "is no symbolic link") from None
            raise self._error(path, err.number) from None

    def exists(self, path: str) -> bool:
        """See Host."""
        return self._files().there(path)

    def write(
        self, path: str, text: str, mode: int | None = None, in_place: bool = False, backup: bool = True
    ) -> None:
        """See Host."""
        self._settle()
        with self.machine.session() as state:
            self.machine.step(f"write {path}")
            try:
                if backup:
                    self._backup(path)
                self.machine.files.write(path, text)
            except Errno as err:
                raise self.words.HostError(path, f"cannot write: {os.strerror(err.number)}") from None
            if mode is not None:
                state["modes"][path] = mode

    def _backup(self, path: str) -> None:
        former = self.machine.files.read_text(path)
        if former is not None:
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.machine.state["now"]))
            self.machine.files.write(f"{BACKUP_DIR}/{stamp}-{self.machine.state['steps']:09d}{path}", former)

    def remove(self, path: str, backup: bool = True) -> None:
        """See Host."""
        self._settle()
        with self.machine.session():
            self.machine.step(f"remove {path}")
            try:
                if backup:
                    self._backup(path)
                self.machine.files.unlink(path)
            except Errno as err:
                if err.number != errno.ENOENT:
                    raise self.words.HostError(path, f"cannot remove: {os.strerror(err.number)}") from None

    def poke(self, path: str, text: str) -> None:
        """See Host."""
        self._settle()
        with self.machine.session() as state:
            self.machine.step(f"poke {path} {text}")
            try:
                real = self.machine.files.canonical(path)
                if not self.machine.files.there(real):
                    raise Refusal(errno.ENOENT)
                kernel.poke(state, real, text)
            except Refusal as err:
                raise self.words.HostError(path, f"the kernel refused {text!r}: {err.reason}") from None
            finally:
                self.machine.files.changed(disk=False)

    def run(self, argv: Sequence[str], timeout: float = 300, stdin: str = "") -> Any:
        """See Host."""
        self._settle()
        looks = commands.observes(list(argv))
        with self.machine.session(changes=not looks) as state:
            if not looks:
                self.machine.step(" ".join(argv))
            if faults.hangs(state, list(argv)):
                raise self.words.HostError(argv[0], f"no end after {timeout:.0f} s")
            try:
                answer = commands.run(self.machine, list(argv), stdin)
            except commands.Unknown:
                raise self.words.Missing(argv[0], "command not found") from None
            finally:
                if not looks:
                    self.machine.files.changed(disk=False)
        return self.words.Result(*answer)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """See Host. Nothing that is due happens meanwhile: what it starts may want this lock, too."""
        with self.machine.store.lock(self.machine.name, "module"):
            before, self._inside = self._inside, True
            try:
                yield
            finally:
                self._inside = before


_kinds: dict[int, type] = {}


def host_for(module: ModuleType, machine: Machine) -> Any:
    """A Host of that module_utils.host (there may be several in one process) over the machine."""
    kind = _kinds.get(id(module))
    if kind is None:
        kind = type("SimHost", (Simulated, module.Host), {"words": module, "__doc__": Simulated.__doc__})
        kind.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
        _kinds[id(module)] = kind
    return kind(machine)


def open_host(module: ModuleType, name: str, folder: str | Path = "") -> Any:
    """A host by its name. folder: of all simulated hosts."""
    from .store import sim_dir

    return host_for(module, Machine(Store(Path(folder) if folder else sim_dir()), name))


def from_environment(module: ModuleType, root: str) -> Any:
    """For module_utils.host.tree. Raises its errors: a tree beside the simulated one would be this machine's own."""
    if root != "/":
        raise module.Missing("root", f"{root}: a simulated host has no trees besides its own")
    folder, _colon, name = os.environ[VARIABLE].rpartition(":")
    try:
        host = open_host(module, name, folder)
        with host.machine.session(changes=False):
            return host
    except SimError as err:
        raise module.HostError("simulator", str(err)) from None
