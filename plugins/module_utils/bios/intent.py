# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with BIOS options before any BMC is asked, and what they ask for."""

from __future__ import annotations

import difflib
from typing import Any, Dict, List, Mapping, Optional

from ..model import Problem
from .values import number, plain, truth
from .words import OTHER_NAMES, PRESETS, WORDS, Word

SETTINGS, PRESET, ATTRIBUTES = "bios_settings", "bios_preset", "bios_attributes"


def intent_problems(options: Mapping[str, Any]) -> List[Problem]:
    """Unknown words (with the closest ones) and presets, values that a word cannot have."""
    found = []
    preset = options.get("preset") or ""
    if preset and preset not in PRESETS:
        fix = _near(str(preset), PRESETS) or "choose one of %s" % ", ".join(sorted(PRESETS))
        found.append(Problem(PRESET, preset, "there is no preset %r" % preset, fix))
    for name, value in (options.get("settings") or {}).items():
        word = WORDS.get(name)
        if word is None:
            fix = _near(str(name), WORDS) or "take one of %s, or name the attribute in bios_attributes" % ", ".join(WORDS)
            found.append(Problem(SETTINGS, name, "there is no BIOS setting %r" % name, fix))
        elif understood(word, value) is None:
            text = "%s cannot be %r" % (name, value)
            found.append(Problem(SETTINGS, value, text, "write one of %s" % allowed(word)))
    for name, value in (options.get("attributes") or {}).items():
        if isinstance(value, (dict, list)) or value is None:
            text = "the attribute %s must be a word, a number, true or false" % name
            found.append(Problem(ATTRIBUTES, name, text, "write for example %s: Enabled" % name))
        elif "password" in str(name).casefold():
            text = "%s is a password: it cannot be read back, and would stand in plans and journals" % name
            found.append(Problem(ATTRIBUTES, name, text, "set it with the vendor's own tool"))
    return found


def allowed(word: Word) -> str:
    """The values, for people."""
    return ", ".join("true" if v is True else "false" if v is False else str(v) for v in word.values)


def _near(name: str, known: Mapping[str, Any]) -> str:
    by_form = {plain(k): k for k in known}
    near = [by_form[form] for form in difflib.get_close_matches(plain(name), list(by_form), n=3, cutoff=0.65)]
    other = OTHER_NAMES.get(plain(name))
    near = [other] if other is not None and other in known else near
    near += [k for k in known if plain(name) and plain(name) in plain(k) and k not in near]
    return "did you mean %s?" % " or ".join(near[:3]) if near else ""


def understood(word: Word, value: Any) -> Optional[Any]:
    """A value as the word has it ("off" is False); None where it is none."""
    if word.values == (True, False):
        return truth(value)
    if isinstance(word.values[0], int):
        count = number(value)
        return count if count in word.values else None
    text = str(value).strip().casefold()
    return text if text in word.values else None


def wishes(options: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
    """Word to value: the preset's, then those given one by one. Nothing that is not understood."""
    asked = {**PRESETS.get((options or {}).get("preset") or "", {}), **((options or {}).get("settings") or {})}
    values = {name: understood(WORDS[name], value) for name, value in asked.items() if name in WORDS}
    return {name: value for name, value in values.items() if value is not None}
