# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side: capabilities, their argument specs, and a host's intent from its variables."""

from __future__ import annotations

import difflib
import gc
import importlib
import pkgutil
import re
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
    "nearmetal_batch", "nearmetal_max_failures", "nearmetal_reboot_ok", "nearmetal_reboot_retry", "nearmetal_reboot_again",
    "nearmetal_reboot_timeout", "nearmetal_root", "nearmetal_plan", "nearmetal_expected", "nearmetal_run_dir",
    "nearmetal_differs", "nearmetal_sim", "nearmetal_sim_dir", "nearmetal_bmcs", "nearmetal_bmc_connections",
}  # fmt: skip


HIDDEN = "***"
_SECRET_NAME = re.compile(r"(?i)pas+w|pwd|pas+phrase|secret|token|credential|api_?key")


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
            values.setdefault(owner, {})[name] = plain(template(variables[name]))
    intent = {}
    for owner, given in values.items():
        result = _VALIDATORS[owner].validate(given)
        found += [_malformed(owner, given, text) for text in result.error_messages]
        prefix = len(owner) + 1
        intent[owner] = {name[prefix:]: value for name, value in result.validated_parameters.items()}
    return intent, found


def plain(value: Any) -> Any:
    """A value as it is, without ansible's tags on every string, which are slow to copy and do not travel."""
    if isinstance(value, str):
        return format(value)
    if isinstance(value, Mapping):
        return {plain(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def _owner(variable: str) -> str:
    """The role (or GENERAL) whose prefix a variable carries; the longest where several fit."""
    return max((p for p in _PREFIXES if variable.startswith(p)), key=len)[:-1]


def _misspelt(name: str, value: Any) -> Problem:
    near = difflib.get_close_matches(name, _KNOWN, n=3, cutoff=0.5)
    owner = _owner(name)
    all_of_owner = f"variables of {owner}: {', '.join(sorted(SPECS.get(owner, GENERAL_VARIABLES)))}"
    fix = f"did you mean {' or '.join(near)}?" if near else all_of_owner
    hide = value is not None and any(_secret(n) for n in (name, *near))
    return Problem(name, HIDDEN if hide else _short(value), "no such variable", fix)


def _malformed(owner: str, given: Mapping[str, Any], text: str) -> Problem:
    variable = next((n for n in sorted(given, key=len, reverse=True) if n in text), f"{owner}_*")
    hidden = [value for name, value in given.items() if _secret(name)]
    return Problem(
        variable, _shown(variable, given.get(variable)), without_secrets(text, hidden),
        f"see: ansible-doc -t role nearmetal.rack.{owner}",
    )


def without_secrets(text: str, secrets: Iterable[Any]) -> str:
    """A message without the values that are nobody's business; it may quote them as they are or as Python writes them."""
    for value in secrets:
        for form in (repr(value), str(value)):
            if value not in (None, "") and len(form) > 1:
                text = text.replace(form, HIDDEN)
    return text


def _secret(name: str) -> bool:
    """Whether a variable's value must not be shown: by its argument spec, or by what it seems to mean."""
    options = SPECS.get(_owner(name), {}) if name.startswith(_PREFIXES) else {}
    return bool(options.get(name, {}).get("no_log")) or bool(_SECRET_NAME.search(name))


def _shown(name: str, value: Any) -> Any:
    return HIDDEN if value is not None and _secret(name) else _short(value)


def _short(value: Any) -> Any:
    return value if isinstance(value, (int, float, bool, type(None))) else str(value)[:200]
