"""Command line of the virtual rack."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..errors import NearmetalError
from .inventory import DEFAULT_RACK
from .progress import Progress
from .rack import Rack

app = typer.Typer(no_args_is_help=True, help="Virtual rack: two servers in QEMU, to try everything on.")

Name = Annotated[str, typer.Option("--name", help="Name of the rack; several can run side by side.")]


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does, so that it cleans up."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    former = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@app.command()
def up(
    name: Name = DEFAULT_RACK,
    ssh_port: Annotated[
        int | None, typer.Option(help="Port of the first node's ssh, the next for the second. Default: free ones.")
    ] = None,
) -> None:
    """Start the rack; builds the node image the first time, goes on from a snapshot afterwards."""
    with _interruptible():
        Rack(name, Progress()).up(ssh_port)


@app.command()
def down(
    name: Name = DEFAULT_RACK,
    purge: Annotated[bool, typer.Option("--purge", help="Also delete its disks, snapshots and keys.")] = False,
) -> None:
    """Stop the rack; nothing of it is left running."""
    Rack(name, Progress()).down(purge)


@app.command()
def status(
    name: Name = DEFAULT_RACK, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """Show the nodes: state, ports, memory, snapshots."""
    found = Rack(name).status()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    table = Table("node", "state", "pid", "ssh port", "BMC port", "accel", "memory MiB (used)", "snapshots")
    for node in found["nodes"]:
        memory = f"{node['memory_mib']} ({node['rss_mib'] or 0})"
        snapshots = ", ".join(node["snapshots"])
        bmc = node["bmc"].rpartition(":")[2] if found["bmcs"]["pid"] else "-"
        row = (node["name"], node["state"], node["pid"] or "-", node["ssh_port"], bmc, node["accel"], memory, snapshots)
        table.add_row(*map(str, row))
    Console().print(table if found["nodes"] else f"Rack {name} was never up.")
    if found["inventory"]:
        typer.echo(f"inventory: {found['inventory']}")


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def ssh(
    node: Annotated[str, typer.Argument(help="Node, such as node1.")],
    command: Annotated[list[str] | None, typer.Argument(help="Command to run there, after --.")] = None,
    name: Name = DEFAULT_RACK,
) -> None:
    """Log in to a node as root, or run a command on it."""
    argv = Rack(name).ssh_argv(node, command or [])
    os.execvp(argv[0], argv)


@app.command()
def reset(
    nodes: Annotated[list[str] | None, typer.Argument(help="Nodes; all if none is named.")] = None,
    name: Name = DEFAULT_RACK,
) -> None:
    """Bring nodes back to the state after their first boot, in seconds."""
    with _interruptible():
        Rack(name, Progress()).reset(nodes or [])


@app.command()
def failover(
    address: Annotated[str, typer.Argument(help="Address of the receiver's bond.")],
    sender: Annotated[str, typer.Option("--from", help="Node that sends, and whose links are cut.")] = "node1",
    receiver: Annotated[str, typer.Option("--to", help="Node that has the address.")] = "node2",
    label: Annotated[str, typer.Option(help="What the report calls it.")] = "bond",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    name: Name = DEFAULT_RACK,
) -> None:
    """Send packets over a bond while its links are cut and restored one after the other; the report shows the losses."""
    from . import failover as measuring

    with _interruptible():
        result = measuring.measure(Rack(name, Progress()), sender, receiver, address, ("f0", "f1"))
    measuring.keep(result, label)
    if as_json:
        typer.echo(json.dumps(result, indent=2))
        return
    table = Table("link", "change", "sent", "lost", "outage ms")
    for effect in result["effects"]:
        change = effect["change"]
        outage = "did not end" if effect["outage_ms"] is None else f"{effect['outage_ms']:.0f}"
        table.add_row(f"{change['node']} {change['card']}", "restored" if change["up"] else "cut", str(effect["sent"]),
                      str(effect["lost"]), outage)  # fmt: skip
    Console().print(table)


@app.command()
def bmc(
    folder: Annotated[Path, typer.Option("--from", help="Folder of captured JSON, named PLATFORM-WHATEVER.json.")],
    platform: Annotated[str, typer.Option(help="Which platform of the folder: what its files' names begin with.")],
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.", min=1, max=65535)],
    username: Annotated[str, typer.Option(help="Login that is asked for.")] = "admin",
    password: Annotated[str, typer.Option(help="Its password.")] = "admin",
    http: Annotated[bool, typer.Option("--http", help="Without TLS.")] = False,
) -> None:
    """Serve captured BIOS settings as a BMC does (Redfish): values wait for a reset, bad ones are refused."""
    from ..bmc.captured import load
    from ..bmc.server import BmcServer

    machine = load(folder, platform)
    with _interruptible(), tempfile.TemporaryDirectory(prefix="nearmetal-bmc-") as scratch:
        try:
            server = BmcServer(machine, port=port, tls=not http, username=username, password=password, folder=Path(scratch))
        except OSError as err:
            raise NearmetalError(f"--port {port}: {err.strerror or err}; choose another") from None
        with server:
            vendor = machine.traits.manufacturer or "unknown vendor"
            typer.echo(f"{vendor}, {len(machine.current)} attributes: {server.url}{machine.bios_path}")
            if server.ca_path:
                typer.echo(f"certificate: {server.ca_path}")
            typer.echo("ready")
            with suppress(KeyboardInterrupt):
                signal.pause()
