"""The collection's pure code, for the command line: the same modules that run inside Ansible."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nearmetal.runner import collections_path

if TYPE_CHECKING:
    from ansible_collections.nearmetal.rack.plugins.module_utils.host import Host

PLUGINS = "ansible_collections.nearmetal.rack.plugins"


def module(name: str) -> ModuleType:
    """A module of plugins/module_utils, such as "loop" or "observe.document"."""
    return plugin("module_utils." + name)


def plugin(name: str) -> ModuleType:
    """A module below plugins/, such as "plugin_utils.probe".

    In a checkout it is the checkout's own, also where an older copy lies in site-packages; an installed
    wheel carries the collection, which Python finds by itself.
    """
    path = collections_path()
    if path and path not in sys.path:
        sys.path.insert(0, path)
    return importlib.import_module(f"{PLUGINS}.{name}")


def loop() -> ModuleType:
    """What the loop decides with: module_utils/loop.py."""
    return module("loop")


def observe(host: Host) -> dict[str, Any]:
    """The state document of a host or tree."""
    state: dict[str, Any] = module("observe.document").observe(host)
    return state
