# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which PF is meant: by PCI address, serial, MAC, or a port of a card. Pure.

Never by the name of a network device alone: a new kernel may call ens3f0 ens3f0np0, and another port may get the name.
"""

from __future__ import annotations

import re
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from ..model import Problem
from ..state import Pf

KEYS = ("address", "serial", "mac", "port")
_FULL = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_CARD = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\Z")
_YAML = ": without, YAML takes digits and colons for a number"
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")


def given(selector: Mapping[str, Any]) -> Mapping[str, str]:
    """The keys that are set, in one spelling."""
    return {key: normal(key, str(selector[key])) for key in KEYS if selector.get(key)}


def normal(key: str, text: str) -> str:
    """Lower case; an address with its domain."""
    if key == "address":
        text = text.strip().lower()
        return text if text.count(":") == 2 else "0000:" + text
    return text.strip().lower().replace("-", ":") if key == "mac" else text.strip()


def said(selector: Mapping[str, Any]) -> str:
    """"address 0000:08:00, port p0"."""
    return ", ".join("%s %s" % item for item in given(selector).items()) or "nothing"


def malformed(selector: Mapping[str, Any], variable: str) -> Optional[Problem]:
    """What is wrong with a selector whatever the host."""
    keys = given(selector)
    if not keys:
        return Problem(variable, dict(selector), "no PF is named", "give address, serial or mac, or a port of a card")
    if set(keys) == {"port"}:
        text = "a port's name alone names no PF: kernels rename ports, and then it is another one"
        return Problem(variable, keys["port"], text, "add the address (0000:08:00) or the serial of its card")
    if "address" in keys and not _FULL.match(keys["address"]) and not _CARD.match(keys["address"]):
        return Problem(variable, selector["address"], "no PCI address", 'write it in quotes, "0000:08:00.0"%s' % _YAML)
    if "mac" in keys and not _MAC.match(keys["mac"]):
        return Problem(variable, selector["mac"], "no MAC address", 'write it in quotes, "02:00:00:00:00:01"%s' % _YAML)
    return None


def matches(selector: Mapping[str, Any], pf: Pf) -> bool:
    """Whether all keys agree with the PF."""
    return not _disagreeing(given(selector), pf)


def _disagreeing(keys: Mapping[str, str], pf: Pf) -> List[str]:
    found = []
    for key, text in keys.items():
        if key == "address":
            same = text in (pf["address"], pf["card"])
        elif key == "port":
            same = text in (pf["port_name"], pf["netdev"]) or text.isdecimal() and pf["port_name"] == "p" + text
        else:
            same = str(pf["serial"] if key == "serial" else pf["mac"]) == text
        if not same:
            found.append(key)
    return found


def find(selector: Mapping[str, Any], pfs: Sequence[Pf], variable: str) -> Tuple[Optional[Pf], Optional[Problem]]:
    """The PF, or why there is not exactly one."""
    problem = malformed(selector, variable)
    if problem is not None:
        return None, problem
    keys = given(selector)
    found = [pf for pf in pfs if not _disagreeing(keys, pf)]
    if len(found) == 1:
        return found[0], None
    if found:
        names = ", ".join(_name(pf) for pf in found)
        text = "%s names %d PFs: %s" % (said(selector), len(found), names)
        return None, Problem(variable, said(selector), text, "add a key, such as port, or give the whole address")
    return None, Problem(variable, said(selector), _none(keys, pfs), "this host has %s" % (
        ", ".join(_name(pf) for pf in pfs) or "no network function on PCI"))  # fmt: skip


def _none(keys: Mapping[str, str], pfs: Sequence[Pf]) -> str:
    for pf in pfs:
        wrong = _disagreeing(keys, pf)
        if wrong and len(wrong) < len(keys):
            have: Any = {"address": pf["address"], "serial": pf["serial"], "mac": pf["mac"], "port": pf["port_name"] or pf["netdev"]}
            words = ", ".join("%s %s" % (key, have[key] or "none") for key in wrong)
            return "no PF agrees with all of it: %s has %s" % (_name(pf), words)
    if "serial" in keys and pfs and not any(pf["serial"] for pf in pfs):
        return "no PF's serial could be read (vital product data)"
    return "there is no such PF"


def _name(pf: Pf) -> str:
    extra = [word for word in (pf["netdev"], pf["port_name"], pf["serial"]) if word]
    return "%s (%s)" % (pf["address"], ", ".join(extra)) if extra else pf["address"]
