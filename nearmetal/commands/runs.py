"""runs: the history."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from nearmetal import history, plans
from nearmetal.commands import options
from nearmetal.runner import read_journal


def runs(
    run: Annotated[str | None, typer.Argument(help="Show one run and its journal.")] = None, json: options.Json = False
) -> None:
    """List what was applied, newest first, or show one run."""
    if run is not None:
        _show_one(history.read(run), json)
        return
    found = list(history.all_runs())
    if json:
        options.print_json([asdict(r) for r in found])
        return
    table = Table(box=None, pad_edge=False)
    for title in ("run", "status", "hosts", "inventory", "limit"):
        table.add_column(title, overflow="fold")
    for item in found:
        done = sum(1 for s in item.hosts.values() if s == "ok")
        table.add_row(item.id, item.status, f"{done}/{len(item.hosts)}", escape(item.inventory), escape(item.limit))
    options.console().print(table if found else "no runs yet")


def _show_one(run: history.Run, json: bool) -> None:
    journal = run.folder / "journal.jsonl"
    events = list(read_journal(journal)) if journal.exists() else []
    if json:
        options.print_json({**asdict(run), "journal": [e for e in events if e["event"] not in ("plan", "task_start")]})
        return
    console = options.console()
    console.print(f"[bold]{run.id}[/] {run.status}  {run.started} .. {run.ended or 'not ended'}")
    console.print(f"command: {escape(' '.join(run.command))}")
    for host, status in run.hosts.items():
        console.print(f"  {escape(host)}: {status}")
    for event in events:
        if event["event"] == "step_done":
            console.print(f"  {escape(event['host'])} {escape(event['step'])}: {escape(event['before'])} -> {escape(event['after'])}")
        elif event["event"] in ("failed", "unreachable"):
            console.print(f"  [red]{escape(event['host'])}[/] {escape(event['message'])}")
        elif event["event"] == "reboot_done":
            console.print(f"  {escape(event['host'])} rebooted in {event['seconds']} s")
    if (run.folder / "plan.json").exists():
        console.print(plans.summary_line(plans.load(run.folder / "plan.json")))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(runs)
