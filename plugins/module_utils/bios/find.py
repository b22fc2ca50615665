# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which attributes of a machine a word means, and how a value is spelled there."""

from __future__ import annotations

import difflib
import re
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from . import registry
from .maps import Setting
from .platforms import stem
from .values import alike, like, number, plain, truth

Told = Optional[Mapping[str, Any]]
"""What the registry says of one attribute."""


class Spelled(NamedTuple):
    """A value as it is to be sent. sure: the registry or the present value says so."""

    value: Any
    sure: bool


def names(setting: Setting, current: Mapping[str, Any], note: Told, suffixes: bool) -> List[str]:
    """The attributes of this machine that a setting is about; none where it has none."""
    if setting.every:
        return [name for name in current if re.fullmatch(setting.names[0], name)]
    for name in setting.names:
        if name in current:
            return [name]
    if suffixes:
        for name in setting.names:
            found = [have for have in current if stem(have) == stem(name)]
            if found:
                return found
        return _by_display(setting.displays, current, note)
    return []


def _by_display(displays: Sequence[str], current: Mapping[str, Any], note: Told) -> List[str]:
    wanted = [plain(text) for text in displays]
    for name in current:
        told = registry.entry(note, name)
        if told and plain(told.get("text") or "") in wanted:
            return [name]
    return []


def raw_names(given: str, current: Mapping[str, Any], note: Told, suffixes: bool) -> List[str]:
    """The attribute that was given by name, its suffix left out or another one (Supermicro); all that it may be."""
    if given in current or registry.entry(note, given) is not None:
        return [given]
    return [name for name in current if stem(name) == stem(given)] if suffixes else []


def closest(name: str, current: Mapping[str, Any]) -> List[str]:
    """Attributes that are called nearly so."""
    return difflib.get_close_matches(name, list(current), n=3, cutoff=0.75)


def known_as(settings: Sequence[Setting]) -> str:
    """The names that were looked for."""
    return ", ".join(name for setting in settings for name in setting.names)


def cannot(name: str, value: Any, told: Told) -> str:
    """Why a value cannot be had."""
    values = (told or {}).get("values") or []
    return "%s cannot be %s%s" % (name, value, ": it takes %s" % ", ".join(map(str, values)) if values else "")


def _candidates(setting: Setting, value: Any, told: Told) -> Tuple[Any, ...]:
    """Spellings of a word's value, best first."""
    shown = plain((told or {}).get("text") or "")
    inverted = setting.display_decides and "disable" in shown and shown not in map(plain, setting.names)
    return setting.values.get((not value) if inverted else value, ())


def _switch(candidates: Sequence[Any]) -> Optional[bool]:
    """What the spellings say, where they are those of a switch."""
    return truth(candidates[0]) if candidates else None


def fits(setting: Setting, value: Any, told: Told, have: Any) -> bool:
    """Whether a value that was read is what the word asks for."""
    candidates = _candidates(setting, value, told)
    if have is None or not candidates:
        return False
    shown = ((told or {}).get("display") or {}).get(have) if isinstance(have, str) else None
    if any(plain(have) == plain(c) or (shown and plain(shown) == plain(c)) for c in candidates):
        return True
    on = _switch(candidates)
    if on is not None and truth(have) is not None:
        return truth(have) is on
    return number(have) is not None and any(number(have) == number(c) for c in candidates)


def all_fit(settings: Sequence[Setting], value: Any, current: Mapping[str, Any], note: Told, suffixes: bool) -> bool:
    """Whether everything that a word sets has a value of the word now."""
    return all(
        fits(setting, value, registry.entry(note, name), current.get(name))
        for setting in settings
        for name in names(setting, current, note, suffixes)
    )


def spell(setting: Setting, value: Any, told: Told, present: Any) -> Optional[Spelled]:
    """How a value is spelled: as the registry has it, else in the style of the present value. None: not to be had."""
    candidates = _candidates(setting, value, told)
    if not candidates:
        return None
    if told and told.get("type") in ("Enumeration", "Boolean", "Integer"):
        found = _registered(candidates, told)
        return None if found is None else Spelled(found, True)
    if fits(setting, value, told, present):
        return Spelled(present, True)
    on = _switch(candidates)
    styled = like(present, on) if on is not None else None
    if styled is not None:
        return Spelled(styled, True)
    return Spelled(_parallel(setting, candidates, present), False)


def _registered(candidates: Sequence[Any], told: Mapping[str, Any]) -> Any:
    kind, on = told.get("type"), _switch(candidates)
    if kind == "Boolean":
        return on
    if kind == "Integer":
        counts = [number(c) for c in candidates] + ([int(on)] if on is not None else [])
        return next((n for n in counts if n is not None and _within(n, told)), None)
    values, display = told.get("values") or [], told.get("display") or {}
    for candidate in candidates:
        for one in values:
            if plain(candidate) in (plain(one), plain(display.get(one, one))):
                return one
    if on is not None:
        same = [one for one in values if truth(one) is on or truth(display.get(one)) is on]
        return same[0] if len(same) == 1 else None
    return None


def _parallel(setting: Setting, candidates: Sequence[Any], present: Any) -> Any:
    """The spelling that stands where the present one stands among its own."""
    for others in setting.values.values():
        for place, other in enumerate(others):
            if plain(other) == plain(present) and place < len(candidates):
                return candidates[place]
    return candidates[0]


def _within(count: int, told: Mapping[str, Any]) -> bool:
    low, high = told.get("min"), told.get("max")
    return (low is None or count >= low) and (high is None or count <= high)


def coerce(value: Any, present: Any, told: Told) -> Tuple[Any, str]:
    """(a raw value in the attribute's own type and spelling, what would be allowed where it is refused)."""
    kind = (told or {}).get("type")
    if kind == "Enumeration":
        return _enumerated(value, told or {})
    if kind == "Integer":
        return _integer(value, told or {})
    if kind == "Boolean" or (kind is None and isinstance(present, bool)):
        on = truth(value)
        return (value, "write true or false") if on is None else (on, "")
    if kind is None and isinstance(present, int) and number(value) is not None:
        return number(value), ""
    return _words(value, kind == "String" or isinstance(present, str), present)


def _integer(value: Any, told: Mapping[str, Any]) -> Tuple[Any, str]:
    count = number(value)
    if count is not None and _within(count, told):
        return count, ""
    low, high = told.get("min"), told.get("max")
    bounds = "" if low is None and high is None else " from %s to %s" % (low, high)
    return value, "write a whole number" + bounds


def _words(value: Any, is_text: bool, present: Any) -> Tuple[Any, str]:
    """YAML reads On, off, Yes and no as truth values."""
    if isinstance(value, bool):
        styled = like(present, value)
        return (styled, "") if styled is not None else (value, "put it in quotes: nobody knows which word is meant")
    return (str(value) if is_text else value), ""


def _enumerated(value: Any, told: Mapping[str, Any]) -> Tuple[Any, str]:
    values, display = told.get("values") or [], told.get("display") or {}
    for one in values:
        if one == value and type(one) is type(value):
            return one, ""
    same = [one for one in values if alike(one, value) or alike(display.get(one), value)]
    if not same and isinstance(value, bool):
        same = [one for one in values if truth(one) is value]
    if len(same) == 1:
        return same[0], ""
    return value, "it takes %s" % ", ".join(str(one) for one in values)


def same_raw(wanted: Any, have: Any, told: Told) -> bool:
    """Whether a value that was read is the raw one that is asked for."""
    if have is None:
        return False
    if (told or {}).get("type") == "Boolean" or isinstance(wanted, bool):
        return truth(have) is wanted
    return alike(wanted, have)
