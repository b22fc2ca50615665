"""What is happening now: a live view on a terminal, one line per fact elsewhere."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

SHOWN = 12
"""Hosts shown at work at once; the rest is counted."""

QUIET = ("nearmetal.rack.plan",)


class View:
    """Follows journal events; used as a context manager around a playbook run.

    expected_s: how long a host took in the last run, for the estimate; None where not known.
    """

    def __init__(self, console: Console, title: str, hosts: int, expected_s: float | None = None) -> None:
        self.console = console
        self.expected_s = expected_s
        self.started = time.monotonic()
        self.busy: dict[str, tuple[str, float]] = {}
        self.modules: dict[str, int] = {}
        self._bar = Progress(
            TextColumn("[bold]{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(),
            TimeElapsedColumn(), TextColumn("{task.fields[left]}"), console=console,
        )  # fmt: skip
        self._task = self._bar.add_task(title, total=hosts or None, left="")
        self._live = Live(console=console, refresh_per_second=4, transient=True, get_renderable=self._render)
        if not console.is_terminal:
            console.print(f"{title}: {f'{hosts} host(s)' if hosts else 'looking at the inventory'}{self._estimate()}")

    def __enter__(self) -> View:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def done(self, host: str) -> None:
        """One host is through."""
        self.busy.pop(host, None)
        self._bar.advance(self._task)
        self._bar.update(self._task, left=self._estimate())

    def _estimate(self) -> str:
        if self.expected_s is None:
            return ""
        left = self.expected_s - (time.monotonic() - self.started)
        return f" about {max(left, 0) / 60:.0f} min {max(left, 0) % 60:.0f} s left" if left > 0 else " longer than last time"

    def event(self, event: dict[str, Any]) -> None:
        """Take one line of the journal."""
        kind, host = event["event"], event.get("host", "")
        if kind in ("task_start", "reboot_start"):
            self.busy[host] = (event["task"], time.monotonic())
        if kind in ("plan", "task_done", "reboot_done", "failed"):
            self.modules[event["action"]] = self.modules.get(event["action"], 0) + 1
            self.busy.pop(host, None)
        if (line := self.line(event)) is not None:
            self.console.print(line, highlight=False)

    def line(self, event: dict[str, Any]) -> str | None:
        """The line worth keeping for an event, if any."""
        kind, host = event["event"], escape(event.get("host", ""))
        elapsed = f"[dim]{time.monotonic() - self.started:6.1f} s[/]"
        if kind == "step_done":
            return f"{elapsed} [green]done[/]    {host} {escape(event['step'])}"
        if kind == "reboot_start":
            return f"{elapsed} [magenta]reboot[/]  {host} going down"
        if kind == "reboot_done":
            return f"{elapsed} [magenta]reboot[/]  {host} is back after {event.get('seconds', '?')} s"
        if kind == "unreachable":
            return f"{elapsed} [red]lost[/]    {host} {escape(event['message'])}"
        if kind == "failed" and event["action"] not in QUIET:
            return f"{elapsed} [red]failed[/]  {host} {escape(event['task'])}: {escape(event['message'])}"
        return None

    def _render(self) -> Group:
        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        at_work = sorted(self.busy.items(), key=lambda item: item[1][1])
        for host, (task, since) in at_work[:SHOWN]:
            table.add_row(f"  {escape(host)}", escape(task), f"{now - since:.0f} s")
        if len(at_work) > SHOWN:
            table.add_row(f"  and {len(at_work) - SHOWN} more", "", "")
        return Group(self._bar, table)


@contextmanager
def stoppable(words: str) -> Iterator[list[bool]]:
    """Ctrl-C and SIGTERM say `words` and set the flag instead of killing: hosts end what is at work."""
    stopped = [False]

    def stop(number: int, frame: Any) -> None:
        stopped[0] = True
        print(words, file=sys.stderr)

    former = {n: signal.signal(n, stop) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
