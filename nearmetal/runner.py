"""One playbook run through ansible-runner."""

from __future__ import annotations

import contextlib
import json
import os
import sysconfig
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ansible_runner

from nearmetal.paths import checkout

Event = dict[str, Any]
FORKS = 20
"""Hosts at work at once. Probing is bound by round trips, not by this machine."""

POLL_S = 0.2

ALIVE = "-o ServerAliveInterval=15 -o ServerAliveCountMax=4"
"""A host that lost power never closes its connection: after a minute without an answer ssh gives up. OpenSSH takes
the first value of an option, and ansible puts these arguments last, so that the operator's own settings win."""


@dataclass
class Outcome:
    """What a playbook run left: its exit status and its journal's events."""

    rc: int
    status: str  # "successful", "failed", "canceled", "error"
    events: list[Event] = field(default_factory=list)
    log: Path = Path()


def collections_path() -> str:
    """Where ansible finds nearmetal.rack: the checkout's link; "" for a wheel, which is found by itself."""
    top = checkout()
    if top is None:
        return ""
    link = top / ".cache" / "collections" / "ansible_collections" / "nearmetal" / "rack"
    if not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(top, link.parent))
    return str(top / ".cache" / "collections")


def environment(journal: Path) -> dict[str, str]:
    """Settings of ansible for our runs, above the caller's environment."""
    env = {
        # ansible-runner switches host key checking off where nobody says otherwise
        "ANSIBLE_HOST_KEY_CHECKING": os.environ.get("ANSIBLE_HOST_KEY_CHECKING", "True"),
        "ANSIBLE_CALLBACKS_ENABLED": "nearmetal.rack.journal",
        "NEARMETAL_JOURNAL": str(journal),
        "ANSIBLE_SSH_EXTRA_ARGS": f"{os.environ.get('ANSIBLE_SSH_EXTRA_ARGS', '')} {ALIVE}".strip(),
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_INJECT_FACT_VARS": "False",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_DEPRECATION_WARNINGS": "False",
        # this Python's own ansible-playbook, also where the environment is not activated
        "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)]),
    }
    if path := collections_path():
        others = os.environ.get("ANSIBLE_COLLECTIONS_PATH", "")
        env["ANSIBLE_COLLECTIONS_PATH"] = ":".join(filter(None, (path, others)))
    return env


def run_playbook(
    playbook: str, inventory: str, run_dir: Path, *, limit: str = "", variables: Mapping[str, Any] | None = None,
    options: Sequence[str] = (), forks: int = FORKS, on_event: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Outcome:  # fmt: skip
    """Run nearmetal.rack.PLAYBOOK; `on_event` is called (in a thread) for each journal line as it comes.

    run_dir receives `journal.jsonl` and `artifacts/`. Never raises for failed hosts: see Outcome.rc.
    """
    run_dir = run_dir.resolve()
    run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    journal = run_dir / "journal.jsonl"
    journal.touch()
    start = journal.stat().st_size
    with _following(journal, start, on_event):
        runner = ansible_runner.run(
            private_data_dir=str(run_dir), playbook=f"nearmetal.rack.{playbook}", ident=f"{playbook}-{uuid.uuid4().hex[:8]}",
            inventory=_inventory(inventory), limit=limit or None, extravars=dict(variables or {}) or None,
            cmdline=" ".join(options) or None, forks=forks, envvars=environment(journal), quiet=True,
            only_failed_event_data=True, suppress_env_files=True, settings={"pexpect_timeout": 1},
            cancel_callback=cancelled, status_handler=_forget_environment, event_handler=_only_failures,
        )  # fmt: skip
    log = Path(runner.config.artifact_dir) / "stdout"
    return Outcome(runner.rc if runner.rc is not None else 1, runner.status, list(read_journal(journal, start)), log)


def _inventory(given: str) -> str:
    """Absolute where it is a path: ansible-runner changes the working folder. "host," stays."""
    return given if "," in given and not os.path.exists(given) else os.path.abspath(given)


def _forget_environment(status: Mapping[str, Any], runner_config: Any) -> None:
    """ansible-runner writes the whole environment, secrets included, to artifacts/*/command: take it out."""
    if status["status"] == "running":
        path = Path(runner_config.artifact_dir) / "command"
        command = json.loads(path.read_text())
        path.write_text(json.dumps({k: v for k, v in command.items() if k != "env"}))


def _only_failures(event: Mapping[str, Any]) -> bool:
    """Whether ansible-runner keeps a file for the event; the journal has the rest."""
    return "failed" in event["event"] or "unreachable" in event["event"]


def read_journal(path: Path, start: int = 0) -> Iterator[Event]:
    """Events from a byte offset on; a last line that was cut off (power loss) is left out."""
    with path.open("rb") as file:
        file.seek(start)
        for line in file:
            if line.endswith(b"\n"):
                with contextlib.suppress(ValueError):
                    yield json.loads(line)


@contextlib.contextmanager
def _following(path: Path, start: int, on_event: Callable[[Event], None] | None) -> Iterator[None]:
    if on_event is None:
        yield
        return
    stop = threading.Event()

    def follow() -> None:
        with path.open("rb") as file:
            file.seek(start)
            rest = b""
            while True:
                last = stop.is_set()
                *lines, rest = (rest + file.read()).split(b"\n")
                for line in lines:
                    with contextlib.suppress(ValueError):
                        on_event(json.loads(line))
                if last:
                    return
                stop.wait(POLL_S)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
