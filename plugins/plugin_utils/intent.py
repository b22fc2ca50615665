# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side: capabilities, their argument specs, and a host's intent from its variables."""

from __future__ import annotations

import difflib
import gc
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.nearmetal.rack.plugins.module_utils import capabilities as _package
from ansible_collections.nearmetal.rack.plugins.module_utils.model import Problem

ROLES = Path(__file__).resolve().parents[2] / "roles"
GENERAL = "nearmetal"
"""Prefix of the variables that belong to no role: how hosts are treated, not what they become."""

GENERAL_VARIABLES = {
    "nearmetal_batch", "nearmetal_max_failures", "nearmetal_reboot_ok", "nearmetal_reboot_retry",
    "nearmetal_reboot_timeout", "nearmetal_root", "nearmetal_plan", "nearmetal_expected", "nearmetal_run_dir",
    "nearmetal_differs", "nearmetal_sim", "nearmetal_sim_dir",
}  # fmt: skip


def _capabilities() -> dict[str, ModuleType]:
    names = [m.name for m in pkgutil.iter_modules(_package.__path__) if not m.name.startswith("_")]
    return {n: importlib.import_module(f"{_package.__name__}.{n}") for n in sorted(names)}


def _specs() -> dict[str, dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = {}
    for path in sorted(ROLES.glob("*/meta/argument_specs.yml")):
        document = yaml.load(path.read_text(), Loader=loader)
        found[path.parent.parent.name] = document["argument_specs"]["main"].get("options", {})
    return found


# Read once in the parent: ansible's workers are forked from it for every host and task.
CAPABILITIES = _capabilities()
SPECS = _specs()
_VALIDATORS = {name: ArgumentSpecValidator(SPECS[name]) for name in CAPABILITIES}
_KNOWN = GENERAL_VARIABLES.union(*SPECS.values())
# What is loaded by now stays: forked workers then do not copy pages only to count references in collections.
gc.freeze()
_PREFIXES = tuple(f"{name}_" for name in (*SPECS, GENERAL))


def read_intent(
    variables: Mapping[str, Any], template: Callable[[Any], Any], only: Iterable[str] = ()
) -> tuple[dict[str, dict[str, Any]], list[Problem]]:
    """A host's intent and what is wrong with it in form.

    variables: all variables of the host, untemplated. template: turns a value into what it means.
    only: capabilities to look at; all where empty. A capability is managed on a host where at
    least one of its variables is set; those named in `only` always are.
    """
    wanted = set(only)
    values: dict[str, dict[str, Any]] = {name: {} for name in wanted}
    found: list[Problem] = []
    for name in variables:
        if not name.startswith(_PREFIXES):
            continue
        owner = _owner(name)
        if name not in _KNOWN:
            found.append(_misspelt(name, variables[name]))
        elif owner in CAPABILITIES and (not wanted or owner in wanted):
            values.setdefault(owner, {})[name] = _plain(template(variables[name]))
    intent = {}
    for owner, given in values.items():
        result = _VALIDATORS[owner].validate(given)
        found += [_malformed(owner, given, text) for text in result.error_messages]
        prefix = len(owner) + 1
        intent[owner] = {name[prefix:]: value for name, value in result.validated_parameters.items()}
    return intent, found


def _plain(value: Any) -> Any:
    """The same without ansible's tags on every string, which are slow to copy and do not travel."""
    if isinstance(value, str):
        return format(value)
    if isinstance(value, Mapping):
        return {_plain(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def _owner(variable: str) -> str:
    """The role (or GENERAL) whose prefix a variable carries; the longest where several fit."""
    return max((p for p in _PREFIXES if variable.startswith(p)), key=len)[:-1]


def _misspelt(name: str, value: Any) -> Problem:
    near = difflib.get_close_matches(name, _KNOWN, n=3, cutoff=0.5)
    owner = _owner(name)
    all_of_owner = f"variables of {owner}: {', '.join(sorted(SPECS.get(owner, GENERAL_VARIABLES)))}"
    fix = f"did you mean {' or '.join(near)}?" if near else all_of_owner
    return Problem(name, _short(value), "no such variable", fix)


def _malformed(owner: str, given: Mapping[str, Any], text: str) -> Problem:
    variable = next((n for n in sorted(given, key=len, reverse=True) if n in text), f"{owner}_*")
    return Problem(variable, _short(given.get(variable)), text, f"see: ansible-doc -t role nearmetal.rack.{owner}")


def _short(value: Any) -> Any:
    return value if isinstance(value, (int, float, bool, type(None))) else str(value)[:200]
