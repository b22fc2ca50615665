# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe: one connection call that brings home all the files that observers read.

The collector travels on standard input, so that nothing is written on the host. Where become cannot
do that (su, sudo with requiretty) it is transferred, run and removed instead: a few calls, same result.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import pkgutil
import shlex
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.nearmetal.rack.plugins.module_utils import capabilities, collector
from ansible_collections.nearmetal.rack.plugins.module_utils.host import SnapshotHost

VERSIONS = tuple("python3.%d" % minor for minor in range(14, 8, -1))
CANDIDATES = (
    *("/usr/bin/" + name for name in VERSIONS),  # found without walking PATH, where shims may be slow
    *VERSIONS,
    "python3",
    "/usr/libexec/platform-python",
)
FLAGS = "-I -S"
"""Isolated and without site: half of the start of Python."""

UTILS = "ansible_collections.nearmetal.rack.plugins.module_utils."
NO_PYTHON = "NO-PYTHON"
NO_TTY = ("must have a tty", "no tty present")


class ProbeError(Exception):
    """The host could not be observed.

    kind: "unreachable" (no connection), "no_python" (none, or older than 3.9), "become" (privilege
    escalation refused), "failed" (the connection works, the collector did not).
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def probe(
    action: ActionBase, task_vars: Mapping[str, Any], root: str = "/", names: Iterable[str] | None = None
) -> SnapshotHost:
    """Everything the observers need from the task's host, in one round trip. Raises ProbeError.

    names: the capabilities whose commands are run as well; all where None.
    """
    known = probe_commands()
    commands = dict.fromkeys(c for name in (known if names is None else names) for c in known.get(name, ()))
    program = collector.program(root, probe_paths(), commands).encode()
    interpreter = _interpreter(action, task_vars)
    become = action._connection.become
    try:
        if not action._connection.has_pipelining or become is not None and not become.pipelining:
            result = _run_transferred(action, interpreter, program)
        else:
            with _piped(action._connection, become):
                result = action._low_level_execute_command(_command(interpreter, "-"), in_data=program)
            said = result["stderr"] + result["stdout"][:500]
            if result["rc"] and collector.MARK not in result["stdout"] and any(t in said for t in NO_TTY):
                result = _run_transferred(action, interpreter, program)
    except AnsibleConnectionFailure as err:
        kind = "become" if become is not None and "privilege escalation" in str(err) else "unreachable"
        raise ProbeError(kind, _words(str(err))) from err
    except AnsibleError as err:
        kind = "become" if become is not None else "failed"
        raise ProbeError(kind, "become (%s) refused: %s" % (_method(become), _words(str(err)))
                         if kind == "become" else _words(str(err))) from err  # fmt: skip
    return snapshot(result, root, interpreter, _method(become))


@functools.cache
def probe_paths() -> tuple[str, ...]:
    """What the observers of boot loader and fabric and the capabilities want read (their PROBE), sorted."""
    paths: set[str] = set()
    observers = (importlib.import_module(UTILS + name) for name in ("bootloader", "observe.fabric"))
    for module in (*observers, *_capabilities().values()):
        paths.update(getattr(module, "PROBE", ()))
    return tuple(sorted(paths))


@functools.cache
def probe_commands() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Capability to the commands that it wants run (COMMANDS), as templates; see collector.py."""
    return {name: module.COMMANDS for name, module in _capabilities().items() if hasattr(module, "COMMANDS")}


def _capabilities() -> dict[str, ModuleType]:
    names = [module.name for module in pkgutil.iter_modules(capabilities.__path__)]
    return {name: importlib.import_module(UTILS + "capabilities." + name) for name in names}


def snapshot(result: Mapping[str, Any], root: str, interpreter: str, become: str) -> SnapshotHost:
    """The host in a command's output; raises ProbeError that tells why there is none."""
    _before, mark, rest = result["stdout"].partition(collector.MARK)
    error = _last_line(result["stderr"] or result["stdout"])
    if not mark:
        if become:
            raise ProbeError("become", "become (%s) refused: %s" % (become, error or "it said nothing"))
        if result["rc"] == 255:
            raise ProbeError("unreachable", error or "the connection ended")
        raise ProbeError("failed", "the probe did not start (exit status %s): %s" % (result["rc"], error))
    word, _newline, text = rest.lstrip(" ").partition("\n")
    word = word.strip()
    if word.startswith(NO_PYTHON):
        wanted = interpreter or "python3.9 or newer"
        raise ProbeError("no_python", "no Python on the host: %s is not there; install it, or set "
                         "ansible_python_interpreter" % wanted)  # fmt: skip
    if word.startswith("OLD"):
        raise ProbeError("no_python", "Python %s on the host is too old: 3.9 or newer is needed; install it "
                         "(RHEL 8: python39), or set ansible_python_interpreter" % word[4:])  # fmt: skip
    if word.startswith("ROOT"):
        raise ProbeError("failed", "root %s on the host: %s" % (root, word[5:]))
    try:
        data = json.loads(text)
        files = {f"{folder}/{name}": content for folder, found in data["files"].items()
                 for name, content in found.items()}  # fmt: skip
        return SnapshotHost(files, data["links"], data["errors"], data["folders"], live=root.rstrip("/") == "",
                            commands=data.get("commands"))
    except (ValueError, KeyError, AttributeError, TypeError):
        raise ProbeError("failed", "the probe failed on the host (exit status %s): %s"
                         % (result["rc"], error or "its output is cut off")) from None  # fmt: skip


def _interpreter(action: ActionBase, task_vars: Mapping[str, Any]) -> str:
    """What ansible_python_interpreter (or the configuration) asks for; "" where it is to be found."""
    value = C.config.get_config_value("INTERPRETER_PYTHON", variables=task_vars)
    if value and "{" in value:
        value = action._templar.template(value)
    return "" if not value or value.startswith("auto") else str(value)


def _command(interpreter: str, source: str) -> str:
    """One line of shell that runs the first Python found with `source` ("-": standard input)."""
    if interpreter:
        words = shlex.split(interpreter)
        start = "command -v %s >/dev/null 2>&1 && exec %s %s %s" % (
            shlex.quote(words[0]), shlex.join(words), FLAGS, source)  # fmt: skip
    else:
        start = "for p in %s; do command -v $p >/dev/null 2>&1 && exec $p %s %s; done" % (
            " ".join(CANDIDATES), FLAGS, source)  # fmt: skip
    rest = "cat >/dev/null; " if source == "-" else ""
    return "%s; %secho '%s %s'; exit 127" % (start, rest, collector.MARK, NO_PYTHON)


@contextlib.contextmanager
def _piped(connection: Any, become: Any) -> Iterator[None]:
    """The local connection opens a terminal for a password unless it is told that data is piped."""
    if become is None or not connection.has_option("pipelining"):
        yield
        return
    before = connection.get_option("pipelining")
    connection.set_option("pipelining", True)
    try:
        yield
    finally:
        connection.set_option("pipelining", before)


def _run_transferred(action: ActionBase, interpreter: str, program: bytes) -> Mapping[str, Any]:
    """The way for become methods that need a terminal, or keep standard input to themselves."""
    folder = action._make_tmp_path()
    try:
        path = action._connection._shell.join_path(folder, "nearmetal_probe.py")
        action._transfer_data(path, program)
        action._fixup_perms2((folder, path))
        result: Mapping[str, Any] = action._low_level_execute_command(_command(interpreter, shlex.quote(path)))
        return result
    finally:
        action._remove_tmp_path(folder)


def _method(become: Any) -> str:
    return str(become.name) if become is not None else ""


def _words(text: str) -> str:
    """A message on one line, short enough to be read."""
    line = " ".join(text.split())
    return line if len(line) <= 400 else line[:397] + "..."


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


# Ansible compiles a collection's modules anew in every process, and forks one for each host: import
# them here, where the strategy in the main process first meets the action plugin.
probe_paths()
probe_commands()
