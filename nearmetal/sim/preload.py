"""Everything that the connection to a simulated host needs, loaded once.

Ansible forks a process for each host and task: what its main process has loaded is there in all of them.
"""

from __future__ import annotations

import importlib
from typing import Any

from . import commands, probe, remote, reset, store
from .model import factory, sysstatic

__all__ = ["everything", "remote", "reset", "store"]


def everything(collector: Any) -> None:
    """Load it. collector: the module module_utils.collector."""
    for name in sorted(set(commands.MODULES.values())):
        importlib.import_module(f"{commands.__name__}.{name}")
    for source in (collector.SOURCE, collector.COMMANDS + collector.SOURCE):
        probe.compiled(source.replace("    ", " "))
    usual = factory.VARIANT
    sysstatic.layer(2, usual["cores"], 2, usual["memory_gib"], usual["gpu"])
