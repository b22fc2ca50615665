"""inspect: what a host is."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from nearmetal import archives, core
from nearmetal.commands import options
from nearmetal.errors import FAILED, OK, USAGE, NearmetalError
from nearmetal.hosts import observe_hosts
from nearmetal.views import show_state

Hosts = Annotated[list[str] | None, typer.Argument(help="Hosts: [user@]name as for ssh, or patterns of the inventory.")]
Sysroot = Annotated[Path | None, typer.Option("--sysroot", help="A captured tree: folder or tar archive with proc/ and sys/.")]
OptionalInventory = Annotated[str, typer.Option("-i", "--inventory", help="Inventory: file, folder, or 'host,'.")]
Become = Annotated[bool, typer.Option("-b", "--become", help="Read as root (sudo): PCI capabilities need it.")]


def documents(
    hosts: list[str] | None, sysroot: Path | None, inventory: str, become: bool, command: str
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """State documents by host ("" for a tree), and messages of the hosts that could not be observed."""
    if sysroot is not None:
        if hosts or inventory:
            raise NearmetalError("give hosts or --sysroot, not both", USAGE)
        return {"": core.observe(archives.tree_host(sysroot))}, {}
    if not hosts and not inventory:
        raise NearmetalError(f"nothing to {command}: give a host, an inventory (-i), or --sysroot PATH", USAGE)
    if inventory:
        options.check_inventory(inventory)
    observed = observe_hosts(hosts or [], inventory, become)
    return observed.documents, observed.failed


def report_failed(failed: Mapping[str, str]) -> int:
    """One line on stderr for each host that could not be observed; the exit code."""
    console = options.console(stderr=True)
    for host, message in failed.items():
        console.print(f"nearmetal: {host}: {message}", markup=False, soft_wrap=True)
    return FAILED if failed else OK


def inspect(
    hosts: Hosts = None, sysroot: Sysroot = None, inventory: OptionalInventory = "", json: options.Json = False,
    become: Become = False,
) -> None:  # fmt: skip
    """Say what a host is: processors, memory, huge pages, PCI, IOMMU, kernel arguments. Changes nothing."""
    found, failed = documents(hosts, sysroot, inventory, become, "inspect")
    console: Console = options.console()
    for host, state in found.items():
        if json:
            print(jsonlib.dumps({"host": host, **state} if host else state))
        else:
            show_state(console, host or str(sysroot), state)
    if json:
        for host, message in failed.items():
            print(jsonlib.dumps({"host": host, "schema": 1, "error": message}))
    raise typer.Exit(report_failed(failed))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(inspect)
