# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The attribute registry: which values an attribute takes, and what keeps it from being set.

Dependencies are those of DMTF's AttributeRegistry schema, type Map: while conditions on other attributes hold, a
property (ReadOnly, GrayOut, Hidden) of an attribute has a value. Later ones win.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from .values import alike, number

_BLOCKING = {"readonly": "read-only", "grayout": "greyed out", "hidden": "hidden"}


class Block(NamedTuple):
    """Why an attribute cannot be set. by: attributes that it depends on; none of them where it never can."""

    how: str  # "read-only"
    by: List[str]
    why: str  # "SysProfile is PerfOptimized"


def entry(registry: Optional[Mapping[str, Any]], name: str) -> Optional[Mapping[str, Any]]:
    """What the registry says of an attribute; None where it says nothing, or was not read."""
    if not registry or name.startswith("@"):
        return None
    return registry.get(name)


def blocked(registry: Optional[Mapping[str, Any]], name: str, values: Mapping[str, Any]) -> Optional[Block]:
    """What keeps an attribute from being set when all attributes have these values."""
    told = entry(registry, name)
    if told is None:
        return None
    standing: Dict[str, Optional[Block]] = {
        "readonly": Block(_BLOCKING["readonly"], [], "") if told.get("read_only") else None,
        "grayout": Block(_BLOCKING["grayout"], [], "") if told.get("gray_out") else None,
        "hidden": Block(_BLOCKING["hidden"], [], "") if told.get("hidden") else None,
    }
    for rule in _rules(registry, name):
        prop = str(rule.get("MapToProperty") or "").casefold()
        if prop not in standing or not _holds(rule.get("MapFrom") or (), registry, values):
            continue
        sources = [str(one.get("MapFromAttribute")) for one in rule.get("MapFrom") or ()]
        why = " and ".join("%s is %s" % (source, values.get(source)) for source in dict.fromkeys(sources))
        standing[prop] = Block(_BLOCKING[prop], sources, why) if rule.get("MapToValue") in (True, "true", "True") else None
    return next((block for block in standing.values() if block is not None), None)


def _rules(registry: Optional[Mapping[str, Any]], name: str) -> Iterator[Mapping[str, Any]]:
    for one in (registry or {}).get("@dependencies") or ():
        rule = one.get("Dependency") or {}
        if str(one.get("Type", "Map")) == "Map" and rule.get("MapToAttribute", one.get("DependencyFor")) == name:
            yield rule


def _holds(terms: Any, registry: Optional[Mapping[str, Any]], values: Mapping[str, Any]) -> bool:
    """The conditions, joined from left to right by MapTerms."""
    result: Optional[bool] = None
    for term in terms:
        one = _term(term, registry, values)
        if result is None:
            result = one
        elif str(term.get("MapTerms") or "AND").upper() == "OR":
            result = result or one
        else:
            result = result and one
    return bool(result)


def _term(term: Mapping[str, Any], registry: Optional[Mapping[str, Any]], values: Mapping[str, Any]) -> bool:
    name, prop = str(term.get("MapFromAttribute")), str(term.get("MapFromProperty") or "CurrentValue").casefold()
    told = entry(registry, name) or {}
    if prop == "currentvalue":
        have = values.get(name, told.get("default"))
    else:
        have = bool(told.get({"readonly": "read_only", "grayout": "gray_out"}.get(prop, prop)))
    asked, condition = term.get("MapFromValue"), str(term.get("MapFromCondition") or "EQU").upper()
    if condition in ("EQU", "NEQ"):
        return alike(have, asked) is (condition == "EQU")
    first, second = number(have), number(asked)
    if first is None or second is None:
        return False
    return {"GTR": first > second, "GEQ": first >= second, "LSS": first < second, "LEQ": first <= second}.get(condition, False)
