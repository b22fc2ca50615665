"""audit: what keeps a host's VMs from the speed of bare metal."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nearmetal import core
from nearmetal.commands import options
from nearmetal.commands.inspect import Become, Hosts, OptionalInventory, Sysroot, documents, report_failed
from nearmetal.errors import USAGE, NearmetalError

COLOURS = {"high": "red bold", "medium": "yellow", "low": "cyan", "note": "dim"}


def show(console: Console, name: str, result: Mapping[str, Any]) -> None:
    """The findings, worst first, and what could not be checked."""
    if result["findings"]:
        table = Table(title=escape(name), title_justify="left", title_style="bold", width=min(console.width, 100))
        table.add_column("severity", no_wrap=True)
        table.add_column("finding")
        for finding in result["findings"]:
            text = f"[bold]{escape(finding['title'])}[/]\n{escape(finding['evidence'])}"
            if finding.get("cause"):
                text += f"\n[dim]cause:[/] {escape(finding['cause'])}"
            text += f"\n[dim]cost:[/] {escape(finding['cost'])} [dim]({escape(finding['source'])})[/]"
            text += f"\n[dim]fix:[/]  {escape(finding['fix'])}"
            table.add_row(f"[{COLOURS[finding['severity']]}]{finding['severity']}[/]", text)
            table.add_section()
        console.print(table)
    else:
        console.print(f"[bold]{escape(name)}[/]")
    for reason, titles in _by_reason(result["not_checked"]).items():
        what = titles[0] if len(titles) == 1 else f"{len(titles)} rules, such as {titles[0]}"
        console.print(f"[yellow]not checked:[/] {escape(what)}: {escape(reason)}")
    counts = f"{len(result['findings'])} finding(s), {len(result['passed'])} passed, {len(result['not_checked'])} not checked"
    console.print(f"{counts} (preset {result['preset']})")


def _by_reason(entries: list[dict[str, str]]) -> dict[str, list[str]]:
    """Titles of what was not checked, by reason."""
    out: dict[str, list[str]] = {}
    for entry in entries:
        out.setdefault(entry["reason"], []).append(entry["title"])
    return out


def audit(
    hosts: Hosts = None, sysroot: Sysroot = None, inventory: OptionalInventory = "", json: options.Json = False,
    preset: Annotated[str, typer.Option(help="What the host is to be good at.")] = "ai_storage_vm",
    become: Become = False,
) -> None:  # fmt: skip
    """Compare hosts with a preset: findings with evidence, expected cost and fix. Changes nothing."""
    auditor = core.module("audit")
    if preset not in auditor.PRESETS:
        raise NearmetalError(f"--preset {preset}: give one of {', '.join(auditor.PRESETS)}", USAGE)
    found, failed = documents(hosts, sysroot, inventory, become, "audit")
    console = options.console()
    for host, state in found.items():
        result = auditor.audit(state, preset)
        if json:
            print(jsonlib.dumps({"host": host, **result} if host else result))
        else:
            show(console, host or str(sysroot), result)
    if json:
        for host, message in failed.items():
            print(jsonlib.dumps({"host": host, "schema": auditor.SCHEMA, "error": message}))
    raise typer.Exit(report_failed(failed))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(audit)
