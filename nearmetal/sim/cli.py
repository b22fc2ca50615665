"""Command line of the simulated rack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from nearmetal.errors import USAGE, NearmetalError
from nearmetal.paths import checkout

from . import faults as planted
from . import show as shown
from .machine import Machine
from .reset import former_variant, machines
from .reset import reset as make
from .store import SimError, Store, sim_dir

app = typer.Typer(
    no_args_is_help=True, help="Simulated rack: GPU servers with mlx5 cards as models, to try the fabric on."
)

Hosts = Annotated[
    list[str] | None,
    typer.Argument(help="Names; all that were made where none is given.", metavar="[HOST]..."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@contextmanager
def _plain() -> Iterator[None]:
    """What the simulator cannot do is bad usage, in one sentence."""
    try:
        yield
    except SimError as err:
        raise NearmetalError(str(err), USAGE) from None


def _value(text: str) -> Any:
    return {"true": True, "false": False}.get(text.lower(), int(text) if text.isdigit() else text)


def _variant(words: list[str]) -> dict[str, Any]:
    pairs = [word.partition("=") for word in words]
    if any(not equals for _key, equals, _value_ in pairs):
        raise SimError("--variant takes KEY=VALUE")
    return {key: _value(value) for key, _equals, value in pairs}


@app.command()
def reset(
    hosts: Hosts = None,
    inventory: Annotated[
        str, typer.Option("--inventory", "-i", help="Take the names from here as well.")
    ] = "",
    variant: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE: what differs from the usual server.")
    ] = None,
) -> None:
    """Set hosts to factory state; makes those that do not exist yet."""
    with _plain():
        store = Store(sim_dir())
        chosen = _variant(variant or [])
        known: dict[str, dict[str, Any]] = {name: {} for name in hosts or ()}
        if inventory or not known and not store.names():
            known.update(_named(inventory))
        names = list(known) or store.names()
        for name in names:
            machine = Machine(store, name)
            make(machine, {**known.get(name, {}), **chosen} or former_variant(machine))
        typer.echo(f"{len(names)} hosts in factory state in {store.top}")


def _named(inventory: str) -> dict[str, dict[str, Any]]:
    """Hosts of an inventory with their variant (nearmetal_sim); of the simulated rack where none is given."""
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader
    from ansible.vars.manager import VariableManager

    top = checkout()
    path = inventory or (str(top / "inventories" / "simulated_rack") if top else "")
    if not path:
        raise SimError("name the hosts, or an inventory with -i")
    loader = DataLoader()
    found = InventoryManager(loader=loader, sources=[path])
    variables = VariableManager(loader=loader, inventory=found)
    return {
        str(host): dict(variables.get_vars(host=host).get("nearmetal_sim") or {})
        for host in found.get_hosts()
    }


@app.command()
def show(hosts: Hosts = None, as_json: Json = False) -> None:
    """Show the true state of the model: PFs, VFs, bonds, LAG."""
    with _plain():
        found = []
        for machine in machines(Store(sim_dir()), list(hosts or [])):
            machine.settle()
            with machine.session(changes=False):
                found.append(shown.document(machine) if hosts else shown.brief(machine))
    if as_json:
        documents: Any = found[0] if hosts and len(hosts) == 1 else found
        typer.echo(json.dumps(documents, indent=1))
    elif hosts:
        for one in found:
            typer.echo("\n".join(shown.words(one)))
    else:
        table = Table("host", "reachable", "boots", "VFs", "LAG", "kubelet", "faults")
        for one in found:
            cells = (
                one["host"],
                "yes" if one["reachable"] else "no",
                one["boots"],
                one["vfs"],
                one["lag"],
                one["units"],
                one["faults"],
            )
            table.add_row(*map(str, cells))
        Console().print(table if found else "No simulated host was made yet: nearmetal sim reset")


@app.command()
def inject(
    host: str, fault: Annotated[str, typer.Argument(help="NAME or NAME=VALUE; see `sim faults`.")]
) -> None:
    """Plant a fault, or a change made by hand, at once."""
    with _plain():
        machine = Machine(Store(sim_dir()), host)
        machine.settle()
        with machine.session():
            planted.inject(machine, fault)
        machine.settle()


@app.command()
def faults(as_json: Json = False) -> None:
    """List the faults that can be planted."""
    if as_json:
        typer.echo(
            json.dumps(
                {name: {"about": f.about, "value": f.value} for name, f in planted.FAULTS.items()}, indent=1
            )
        )
        return
    table = Table("fault", "what it does")
    for name, fault in planted.FAULTS.items():
        table.add_row(f"{name}={fault.value}" if fault.value else name, fault.about)
    Console().print(table)


@app.command()
def rules(as_json: Json = False) -> None:
    """List the rules of hardware and kernel that the model keeps, with their sources."""
    from .rules import RULES

    if as_json:
        typer.echo(json.dumps([{"rule": r.text, "source": r.source, "key": r.key} for r in RULES], indent=1))
        return
    table = Table("rule", "source")
    for rule in RULES:
        table.add_row(rule.text, rule.source)
    Console().print(table)


def _restart(hosts: list[str] | None, cold: bool) -> None:
    with _plain():
        for machine in machines(Store(sim_dir()), list(hosts or [])):
            machine.settle()
            with machine.session() as state:
                state["boot"].update(pending="cold" if cold else "warm", gone_until=0.0)
            machine.settle()


@app.command()
def reboot(hosts: Hosts = None) -> None:
    """Reboot hosts, as somebody at the console would."""
    _restart(hosts, cold=False)


@app.command(name="power-cycle")
def power_cycle(hosts: Hosts = None) -> None:
    """Take the power away and give it back."""
    _restart(hosts, cold=True)


@app.command()
def advance(host: str, seconds: float) -> None:
    """Let time pass on a host: timers run out, slow drivers come up."""
    with _plain():
        machine = Machine(Store(sim_dir()), host)
        with machine.session() as state:
            state["clock"]["offset"] += seconds
        machine.settle()
