"""partition: which cores of a host stay with it, and which are for guests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from nearmetal import archives, core
from nearmetal.commands import options
from nearmetal.errors import BAD_INTENT, NearmetalError

OPTIONS = ("--reserve-cores-per-node", "--reserve-cores", "--reserve-cpus", "--near")


def partition(
    sysroot: Annotated[Path, typer.Option("--sysroot", help="A captured tree: folder or archive with proc/ and sys/.")],
    reserve_cores_per_node: Annotated[
        int | None, typer.Option("--reserve-cores-per-node", help="Cores that the host keeps on every NUMA node.")
    ] = None,
    reserve_cores: Annotated[
        int | None, typer.Option("--reserve-cores", help="Cores that the host keeps in all, on nodes that suit --near.")
    ] = None,
    near: Annotated[list[str] | None, typer.Option("--near", help="PCI address of a device; may be repeated.")] = None,
    near_policy: Annotated[
        Literal["guests", "interrupts"], typer.Option("--near-policy", help="Who gets the cores near to it.")
    ] = "guests",
    json: options.Json = False,
) -> None:
    """Divide the CPUs of a host into its own and those for guests. Whole cores, per NUMA node."""
    if (reserve_cores_per_node is None) == (reserve_cores is None):
        raise typer.BadParameter("give either --reserve-cores-per-node or --reserve-cores")
    if reserve_cores is not None and reserve_cores < 1:
        raise NearmetalError(f"--reserve-cores={reserve_cores}: the host needs one core or more", BAD_INTENT)
    state = core.observe(archives.tree_host(sysroot))
    code = core.module("partition")
    request = code.Request(
        cores_per_node=reserve_cores_per_node or 0, cores=reserve_cores or 0, near=tuple(near or ()),
        near_policy=near_policy, variables=OPTIONS,
    )  # fmt: skip
    try:
        found = code.partition(state, request)
    except core.module("model").IntentError as err:
        lines = [
            f"{f'{p.variable}={p.value}' if p.variable else sysroot}: {p.message}. Fix: {p.fix}." for p in err.found
        ]
        raise NearmetalError("\n".join(lines), BAD_INTENT) from err
    if json:
        options.print_json(found.as_dict())
    else:
        _show(found, state)


def _show(found: Any, state: dict[str, Any]) -> None:
    text = core.module("cpulist").format
    table = Table("node", "cores", box=None, header_style="bold")
    table.add_column("reserved", overflow="fold")
    table.add_column("isolated", overflow="fold")
    for node, part in sorted(found.nodes.items()):
        cores = sum((c["node"] or 0) == node for c in state["cpu"]["cores"])
        table.add_row(str(node), str(cores), text(part.reserved), text(part.isolated))
    table.add_row("all", str(len(state["cpu"]["cores"])), text(found.reserved), text(found.isolated))
    console = options.console()
    console.print(table)
    for address, cpus in found.near.items():
        if cpus:
            console.print(f"near {address}: isolated {text(cpus & found.isolated) or 'none'}")
        else:
            console.print(f"near {address}: the host does not say which NUMA node it is in")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(partition)
