"""The probe of a simulated host: the collector's own program, run in this process on the simulated files.

Nothing of it is taken on trust: the text must be what this version of the collector would send, and the few variables
before it are read as literals. The program then gets a stand-in for `posix` and `subprocess`, so that it cannot reach
this machine, and its answer has the format of a real one because it is made by the same code.
"""

from __future__ import annotations

import ast
import builtins
import errno
import functools
import os
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

from . import commands, faults
from .files import Errno, Files
from .machine import Machine
from .model import osfiles


class NotTheProbe(Exception):
    """The text is not a program of the collector; one sentence."""


def is_probe(collector: Any, text: str) -> bool:
    """Whether a program starts as the collector's do."""
    return f"\nM = {collector.MARK!r}\n" in text[:200]


def answer(collector: Any, machine: Machine, text: str) -> str:
    """What the program prints. Raises NotTheProbe.

    collector: the module module_utils.collector.
    """
    header, source = _split(collector, text)
    machine.settle()
    with machine.session(changes=False):
        posix = _Posix(machine.files)
        modules = {
            "posix": posix,
            "_json": __import__("_json"),
            "subprocess": _subprocess(machine, header["T"]),
        }
        space = {
            **header,
            "__builtins__": {**vars(builtins), "__import__": lambda name, *_rest: modules[name]},
        }
        exec(compiled(source), space)
    return b"".join(posix.written).decode("utf-8", "surrogateescape")


def _split(collector: Any, text: str) -> tuple[dict[str, Any], str]:
    """(variables, source) of a program; raises NotTheProbe where it is not the collector's."""
    for source in (collector.COMMANDS + collector.SOURCE, collector.SOURCE):
        shrunk = source.replace("    ", " ")
        if text.endswith(shrunk):
            break
    else:
        raise NotTheProbe("the program is not the one that this version of nearmetal sends")
    known: dict[str, Any] = {}
    try:
        for node in ast.parse(text[: -len(shrunk)]).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                known[node.targets[0].id] = ast.literal_eval(node.value)
    except (SyntaxError, ValueError) as err:
        raise NotTheProbe(f"the head of the program is not readable: {err}") from None
    if set(known) != {"M", "R", "P", "X", "K", "T"}:
        raise NotTheProbe(
            f"the program has other variables than this version of nearmetal sends: {', '.join(sorted(known))}"
        )
    if known["R"]:
        raise NotTheProbe(f"root {known['R']}: a simulated host has no trees besides its own")
    return known, shrunk


@functools.cache
def compiled(source: str) -> CodeType:
    """The collector's source, once for a process and those forked from it."""
    return compile(source, "<collector>", "exec")


class _Posix:
    """What the collector uses of `posix`, on simulated files."""

    O_NOFOLLOW, O_CLOEXEC, O_NONBLOCK = os.O_NOFOLLOW, os.O_CLOEXEC, os.O_NONBLOCK
    environ: dict[bytes, bytes] = {}

    def __init__(self, files: Files) -> None:
        self.files = files
        self.layers = files.layers
        self.written: list[bytes] = []
        self._open: dict[int, tuple[str, bytes | None]] = {}
        self._next = 3
        self._at: dict[int, int] = {}

    def getpid(self) -> int:
        return osfiles.SHELL

    def readlink(self, path: str) -> str:
        for layer in self.layers:
            if path in layer.links:
                return layer.links[path]
        raise _os_error(errno.EINVAL)

    def open(self, path: str, flags: int) -> int:
        if flags & self.O_NOFOLLOW and any(path in layer.links for layer in self.layers):
            raise _os_error(errno.ELOOP)
        if not self.files.there(path):
            raise _os_error(errno.ENOENT)
        number = self._next
        self._next += 1
        self._open[number] = (path, None)
        self._at[number] = 0
        return number

    def _data(self, number: int) -> bytes:
        path, data = self._open[number]
        if data is None:
            try:
                data = self.files.read(path)
            except Errno as err:
                raise _os_error(err.number) from None
            self._open[number] = (path, data)
        return data

    def read(self, number: int, size: int) -> bytes:
        data, at = self._data(number), self._at[number]
        self._at[number] = at + size
        return data[at : at + size]

    def pread(self, number: int, size: int, at: int) -> bytes:
        return self._data(number)[at : at + size]

    def close(self, number: int) -> None:
        del self._open[number]

    def listdir(self, path: str) -> list[str]:
        try:
            return self.files.list(path)
        except Errno as err:
            raise _os_error(err.number) from None

    def stat(self, path: str) -> None:
        if not self.files.there(path):
            raise _os_error(errno.ENOENT)

    def write(self, number: int, data: bytes) -> int:
        self.written.append(data)
        return len(data)


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _subprocess(machine: Machine, patience: int) -> ModuleType | SimpleNamespace:
    """What the collector uses of `subprocess`: commands of the simulated host."""

    class TimeoutExpired(Exception):
        pass

    class Popen:
        def __init__(self, argv: list[str], **_rest: Any) -> None:
            self.argv = argv
            self.returncode = 0
            self.said = (0, "", "")
            if not commands.observes(argv):
                self.said = commands.not_simulated(argv)
            elif not faults.hangs(machine.state, argv):
                try:
                    self.said = commands.run(machine, argv)
                except commands.Unknown:
                    raise _os_error(errno.ENOENT) from None

        def communicate(self, timeout: float) -> tuple[bytes, bytes]:
            if faults.hangs(machine.state, self.argv):
                raise TimeoutExpired
            self.returncode = self.said[0]
            return self.said[1].encode("utf-8", "surrogateescape"), self.said[2].encode(
                "utf-8", "surrogateescape"
            )

        def kill(self) -> None:
            return

    return SimpleNamespace(Popen=Popen, TimeoutExpired=TimeoutExpired, DEVNULL=-3, PIPE=-1)
