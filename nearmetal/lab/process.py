"""Processes that outlive the command: started apart from it, known again by id and start time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process id together with its start time (clock ticks since boot): ids are used again, pairs are not."""

    pid: int
    started: int

    def alive(self) -> bool:
        """Whether exactly this process still runs; a zombie does not."""
        return start_time(self.pid) == self.started

    def as_dict(self) -> dict[str, int]:
        """For a state file."""
        return asdict(self)


def start_time(pid: int) -> int | None:
    """Start time of a running process from /proc/PID/stat (field 22); None if there is none, or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command in parentheses may hold blanks and parentheses: count from the last one.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def spawn(argv: Sequence[str], log: Path, fds: Sequence[int] = ()) -> tuple[Process, subprocess.Popen[bytes]]:
    """Start a process in a session of its own, output to `log`, input from nowhere.

    Raises OSError if it cannot be started at all. The caller writes the Process down at once.
    """
    with log.open("ab") as out:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, pass_fds=tuple(fds)
        )
    return Process(child.pid, start_time(child.pid) or 0), child


def wait_gone(process: Process, seconds: float) -> bool:
    """Wait until the process is gone; False if it is still there after so many seconds."""
    end = time.monotonic() + seconds
    while process.alive():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    with contextlib.suppress(OSError):
        os.waitpid(process.pid, os.WNOHANG)
    return True


def stop(process: Process, seconds: float = 5) -> None:
    """End a process if it is still the one that was written down: politely, then at once."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not process.alive():
            break
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
        if wait_gone(process, seconds):
            break
    wait_gone(process, 0)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Clean up undisturbed: Ctrl-C, SIGTERM and SIGHUP are passed over meanwhile (in the main thread)."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def stop_group(child: subprocess.Popen[bytes], seconds: float = 20) -> None:
    """End a child that leads a process group, with everything it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
            return
