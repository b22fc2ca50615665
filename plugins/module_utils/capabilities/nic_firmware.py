# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware settings of mlx5 cards: what is set for the next start of the card, and what brings it into force.

Settings are per card, not per port: two ports that ask for different numbers of VFs need the larger one, else each
port's turn takes away the other's (openshift/sriov-network-operator#218). A warm reboot may not load them
(k8snetworkplumbingwg/sriov-network-operator#449), so that only a reset of the card or a power cycle counts. Under
kernel lockdown the card cannot be asked (Mellanox/mstflint#1371).
"""

from __future__ import annotations

import difflib
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from .. import mlxconfig
from ..model import POWER_CYCLE, Call, CmdlineRequest, Decision, Problem, Step
from ..observe import firmware as observer
from ..state import State

AFTER: Tuple[str, ...] = ()
READS = ("sriov",)
OWNED: Tuple[str, ...] = ()
COMMANDS = observer.COMMANDS

MODULE = "nearmetal.rack.nic_firmware"
MAXIMUM = ("NUM_OF_VFS",)
"""Settings of which the largest that anybody asks for is right."""
SEALED = ("integrity", "confidentiality")


class Wanted(NamedTuple):
    """What one card shall have, and the PF that it is asked by."""

    card: str  # address without the function
    address: str
    settings: Dict[str, Any]


def problems(options: Mapping[str, Any]) -> List[Problem]:
    """Cross-field checks, no host needed."""
    found = []
    for variable, settings in _given(options):
        for name, value in settings.items():
            if name != name.upper() or not name.replace("_", "").isalnum():
                text = "%r is no name of a firmware setting" % name
                found.append(Problem(variable, name, text, "write it as mlxconfig prints it: NUM_OF_VFS"))
            elif isinstance(value, (dict, list)) or value is None:
                text = "%s must be a number, a word or true or false" % name
                found.append(Problem(variable, value, text, "write for example %s: 16" % name))
    for entry in options["cards"]:
        if not entry.get("address") and not entry.get("serial"):
            found.append(
                Problem("nic_firmware_cards", entry, "no card is named", "give address (0000:17:00.0) or serial")
            )
    return found


def _given(options: Mapping[str, Any]) -> List[Tuple[str, Mapping[str, Any]]]:
    return [("nic_firmware_settings", options["settings"])] + [
        ("nic_firmware_cards", entry["settings"]) for entry in options["cards"]
    ]


def cmdline(options: Mapping[str, Any], state: State) -> CmdlineRequest:
    """No kernel arguments."""
    return CmdlineRequest()


def decide(options: Mapping[str, Any], state: State) -> Decision:
    """Steps, and the one module call that sets what is not set yet."""
    if not state["live"]:
        return Decision(warnings=("firmware settings are not looked at in a tree",))
    wanted, found = wishes(options, state)
    if found:
        return Decision(problems=tuple(found))
    steps: List[Step] = []
    cards: List[Dict[str, Any]] = []
    for card in wanted:
        hindrance = _hindrance(card, state)
        if hindrance is not None:
            found.append(hindrance)
            continue
        values = values_of(state, card.address)
        unset, idle = differing(card.settings, values)
        if not unset and not idle:
            continue
        load = loading(options["load"], card, state)
        step = _step(card, values, unset, idle, load)
        if not unset and _in_vain(step, state):
            found.append(_not_loaded(step, card))
            continue
        steps.append(step)
        if unset or load == "fwreset":
            settings = {name: card.settings[name] for name in sorted({*unset, *idle})}
            cards.append({"address": card.address, "settings": settings, "reset": load == "fwreset"})
    call = Call(MODULE, {"cards": cards, "tool": options["tool"]}) if cards else None
    return Decision(tuple(steps), call, tuple(found))


def wishes(options: Mapping[str, Any], state: State) -> Tuple[List[Wanted], List[Problem]]:
    """What each card of the host shall have. Raises nothing; problems say which entries make no sense here."""
    found: List[Problem] = []
    addresses = observer.functions(state["pci"])
    cards = {_card(a): a for a in sorted(addresses, reverse=True)}  # the lowest function speaks for its card
    settings: Dict[str, Dict[str, Any]] = {card: dict(options["settings"]) for card in sorted(cards)}
    if options["settings"] and not cards:
        text = "the host has no mlx5 card that mlx5_core drives"
        found.append(Problem("nic_firmware_settings", options["settings"], text, "check lspci -d 15b3: -k", "host"))
    given: Dict[str, Dict[str, Any]] = {}
    for entry in options["cards"]:
        card = _selected(entry, state)
        if card not in cards:
            text = "no such card on this host; it has %s" % (", ".join(sorted(cards)) or "none")
            found.append(Problem("nic_firmware_cards", _name(entry), text, "give the address or serial of a card", "host"))
            continue
        found += _merge(given.setdefault(card, {}), entry["settings"], card)
    for card, more in given.items():
        settings[card].update(more)
    if options["fit_vfs"]:
        for card, count in _vfs_asked(options.get("sriov"), state).items():
            if card in settings and count:
                _fit(settings[card], count)
    return [Wanted(card, cards[card], asked) for card, asked in settings.items() if asked], found


def _merge(into: Dict[str, Any], more: Mapping[str, Any], card: str) -> List[Problem]:
    """Two entries for the ports of one card: the maximum where that is right, else they must agree."""
    found = []
    for name, value in more.items():
        if name in into and name in MAXIMUM:
            into[name] = max(into[name], value)
        elif name in into and into[name] != value:
            text = "%s is given as %s and as %s for the card %s" % (name, into[name], value, card)
            found.append(
                Problem("nic_firmware_cards", value, text, "firmware settings are per card: give it once")
            )
        else:
            into[name] = value
    return found


def _fit(settings: Dict[str, Any], count: int) -> None:
    """At least so many VFs for each port."""
    asked = settings.get("NUM_OF_VFS")
    settings["NUM_OF_VFS"] = max(count, asked if isinstance(asked, int) else 0)
    settings["SRIOV_EN"] = True


def _vfs_asked(sriov: Optional[Mapping[str, Any]], state: State) -> Dict[str, int]:
    """Card to the largest number of VFs that `sriov_pfs` asks of one of its ports."""
    found: Dict[str, int] = {}
    for entry in (sriov or {}).get("pfs") or ():
        card = _selected(entry.get("pf") or {}, state)
        if card:
            found[card] = max(found.get(card, 0), int(entry.get("vfs") or 0))
    return found


def _selected(entry: Mapping[str, Any], state: State) -> str:
    """The card that address, serial or MAC name; "" where they name none."""
    address = str(entry.get("address") or "").lower()
    if address:
        return _card(address if address.count(":") == 2 else "0000:" + address)
    fabric: Any = state.get("fabric") or {}
    pfs = fabric.get("pfs", [])
    for key in ("serial", "mac"):
        if entry.get(key):
            return next((_card(p["address"]) for p in pfs if p[key].lower() == str(entry[key]).lower()), "")
    return ""


def _card(address: str) -> str:
    return address.rpartition(".")[0] or address


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("address") or entry.get("serial") or "")


def values_of(state: State, address: str) -> Dict[str, mlxconfig.Value]:
    """What the card says."""
    firmware = state.get("firmware") or {}
    told = firmware[address]["values"] if address in firmware else {}
    return {name: mlxconfig.Value(v["default"], v["current"], v["next"]) for name, v in told.items()}


def differing(settings: Mapping[str, Any], values: Mapping[str, mlxconfig.Value]) -> Tuple[List[str], List[str]]:
    """(names that are not set for the next start, names that are set but not in force).

    A card that does not say what is in force (None) is believed once the next start is right.
    """
    unset, idle = [], []
    for name, asked in settings.items():
        value = values[name]
        if not mlxconfig.same(asked, value.next):
            unset.append(name)
        elif value.current is not None and not mlxconfig.same(asked, value.current):
            idle.append(name)
    return unset, idle


def _hindrance(card: Wanted, state: State) -> Optional[Problem]:
    """Why nothing can be done about a card: it cannot be asked, or has no such setting."""
    firmware = state.get("firmware") or {}
    told = firmware.get(card.address)
    if told is None:
        return Problem("nic_firmware_settings", card.address, "the card's firmware was not asked", "report this", "host")
    if not told["values"]:
        lockdown = state["kernel"]["lockdown"]
        if lockdown in SEALED:
            text = "the kernel is locked down (%s), so that firmware settings cannot be read: %s"
            fix = "switch Secure Boot off for this host, or set the firmware before it is switched on (mstflint#1371)"
            return Problem("nic_firmware_settings", card.address, text % (lockdown, told["error"]), fix, "host")
        fix = "install mstflint (mstconfig) or NVIDIA's MFT (mlxconfig) on the host" if not told["tool"] else (
            "run the query by hand: %s -d %s -e q" % (told["tool"], card.address))
        return Problem("nic_firmware_settings", card.address, "no answer from the card: %s" % told["error"], fix, "host")
    for name in card.settings:
        if name not in told["values"]:
            near = difflib.get_close_matches(name, told["values"], n=3)
            fix = "did you mean %s?" % " or ".join(near) if near else "remove it for this card"
            return Problem("nic_firmware_settings", name, "the card %s has no setting %s" % (card.card, name), fix)
    return None


def loading(asked: str, card: Wanted, state: State) -> str:
    """How settings come into force: "fwreset" (the card goes down for some seconds) or "power_cycle".

    `auto` resets the card only where nobody would notice: no network path of the host and no VF on it.
    """
    if asked != "auto":
        return asked
    fabric: Any = state.get("fabric")
    if not fabric:
        return POWER_CYCLE
    ports = [p for p in fabric["pfs"] if _card(p["address"]) == card.card]
    busy = any(p["netdev"] in fabric["management"] or p["master"] or p["addresses"] or p["vfs"] for p in ports)
    return POWER_CYCLE if busy or not ports or state["kernel"]["lockdown"] in SEALED else "fwreset"


def _step(
    card: Wanted, values: Mapping[str, mlxconfig.Value], unset: List[str], idle: List[str], load: str
) -> Step:
    names = sorted({*unset, *idle})
    before = []
    for name in names:
        value = values[name]
        pending = "" if name in unset else ", set but not loaded"
        before.append("%s=%s%s" % (name, value.current if value.current is not None else value.next, pending))
    return Step(
        "nic_firmware", card.card, " ".join(before), " ".join("%s=%s" % (n, mlxconfig.word(card.settings[n])) for n in names),
        "firmware settings are loaded when the card starts: %s"
        % ("it is reset, both ports go down for some seconds" if load == "fwreset" else "a warm reboot may not do"),
        "traffic" if load == "fwreset" else POWER_CYCLE,
        "the card's current values, read back, are these",
    )  # fmt: skip


def _in_vain(step: Step, state: State) -> bool:
    """Whether the host was already taken down for this, in an earlier boot."""
    last = state["last_reboot"]
    if step.disruption != POWER_CYCLE or last is None or last["boot_id"] == state["kernel"]["boot_id"]:
        return False
    return "%s=%s" % (step.id, step.after) in last["wanted"].splitlines()


def _not_loaded(step: Step, card: Wanted) -> Problem:
    return Problem(
        "nic_firmware_settings", step.after,
        "the host was power cycled for this, but the card %s still runs with %s" % (card.card, step.before),
        "no further one is made. Was the power really off (standby power keeps a card alive)? Try "
        "nic_firmware_load: fwreset, or pull the plug", "host",
    )  # fmt: skip
