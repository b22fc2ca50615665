"""One apply per inventory and per host at a time."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import getpass
import hashlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from nearmetal.errors import NearmetalError
from nearmetal.paths import state_dir


@contextlib.contextmanager
def held(kind: str, names: list[str], run: str) -> Iterator[None]:
    """Hold the locks of inventories or hosts; NearmetalError says who holds one that is taken.

    The kernel drops them with the process, however it ends.
    """
    with contextlib.ExitStack() as stack:
        for name in sorted(names):
            stack.enter_context(_one(kind, name, run))
        yield


@contextlib.contextmanager
def _one(kind: str, name: str, run: str) -> Iterator[None]:
    folder = state_dir() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    path: Path = folder / f"{kind}-{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise NearmetalError(f"{kind} {name} is being changed by {_holder(file.read())}; wait for it, or stop it") from None
        file.truncate(0)
        file.write(json.dumps(_me(name, run)))
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _me(name: str, run: str) -> dict[str, object]:
    since = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"of": name, "user": getpass.getuser(), "host": socket.gethostname(), "pid": os.getpid(), "since": since, "run": run}


def _holder(text: str) -> str:
    try:
        who = json.loads(text)
        return f"{who['user']} on {who['host']}, pid {who['pid']}, since {who['since']}, run {who['run']}"
    except (ValueError, KeyError):
        return "another process"
