"""Making simulated hosts: factory state, then a first boot."""

from __future__ import annotations

import time
from typing import Any

from .machine import Machine
from .model import factory
from .store import SimError, Store


def ensure(machine: Machine, variant: dict[str, Any] | None = None) -> None:
    """Make the host where it has no state. Its number, for MACs and serials, follows from its name."""
    if not machine.store.path(machine.name).exists():
        reset(machine, variant)


def reset(machine: Machine, variant: dict[str, Any] | None = None) -> None:
    """Factory state, booted. Raises SimError for a variant that does not exist."""
    store, name = machine.store, machine.name
    store.path(name)
    with store.lock(name):
        try:
            state = factory.make(name, factory.number_of(name), time.time(), variant)
        except ValueError as err:
            raise SimError(str(err)) from None
        store.save(state)
    machine.settle()
    with machine.session() as state:
        state["steps"] = 0
        state["boot"]["gone_until"] = 0.0


def former_variant(machine: Machine) -> dict[str, Any] | None:
    """What kind of server the host was; None where it was none."""
    state = machine.store.load(machine.name)
    return state["variant"] if state else None


def machines(store: Store, names: list[str]) -> list[Machine]:
    """The hosts of those names, all where none is given."""
    return [Machine(store, name) for name in names or store.names()]
