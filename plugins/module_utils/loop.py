# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the decisions of all capabilities to the one plan of a host. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from types import ModuleType
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set

from . import later
from .capabilities import kernel_args
from .model import (
    AT_BOOT,
    DISRUPTIONS,
    POWER_CYCLE,
    REBOOT,
    CmdlineRequest,
    Decision,
    IntentError,
    Problem,
    Step,
    reboot_digest,
    reboot_words,
)
from .state import State

KERNEL_ARGS = "kernel_args"
"""The capability that writes the kernel arguments which all others ask for."""

Intent = Mapping[str, Mapping[str, Any]]
"""Capability name -> its options. A capability without an entry is not managed on this host."""


def in_order(capabilities: Mapping[str, ModuleType]) -> List[str]:
    """Names so that each stands behind everything in its AFTER, else alphabetically.

    Raises ValueError where the capabilities wait for each other.
    """
    done: List[str] = []
    waiting: Set[str] = set(capabilities)
    while waiting:
        ready = sorted(n for n in waiting if not set(capabilities[n].AFTER) & waiting)
        if not ready:
            raise ValueError("capabilities wait for each other: %s" % ", ".join(sorted(waiting)))
        done.append(ready[0])
        waiting.remove(ready[0])
    return done


def options_of(
    name: str, intent: Intent, capabilities: Mapping[str, ModuleType], peers: Optional[Intent] = None
) -> Mapping[str, Any]:
    """A capability's options, and those of the capabilities that it READS under their names (None: not managed).

    peers: options of capabilities that are managed on the host, but not now (a role alone).
    """
    reads = getattr(capabilities[name], "READS", ())
    known = {**(peers or {}), **intent}
    return {**intent[name], **{peer: known.get(peer) for peer in reads}} if reads else intent[name]


def check(
    intent: Intent, capabilities: Mapping[str, ModuleType], peers: Optional[Intent] = None
) -> List[Problem]:
    """What is wrong with a host's intent, as far as it can be said without asking the host."""
    found: List[Problem] = []
    for name in intent:
        found += capabilities[name].problems(options_of(name, intent, capabilities, peers))
    return found + _two_owners(intent, capabilities)


def _two_owners(intent: Intent, capabilities: Mapping[str, ModuleType]) -> List[Problem]:
    """Kernel arguments set by hand that belong to a role which is in use on the same host."""
    options = intent.get(KERNEL_ARGS, {})
    found = []
    for variable in ("present", "absent"):
        for word in options.get(variable) or ():
            name = str(word).split("=", 1)[0].replace("-", "_")
            for owner in intent:
                owned = [n.replace("-", "_") for n in getattr(capabilities[owner], "OWNED", ())]
                if owner != KERNEL_ARGS and name in owned:
                    found.append(
                        Problem(
                            "%s_%s" % (KERNEL_ARGS, variable),
                            word,
                            "%s is managed by the role %s on this host" % (name, owner),
                            "remove it from %s_%s and use the variables %s_*" % (KERNEL_ARGS, variable, owner),
                        )
                    )
    return found


def decide(
    intent: Intent, state: State, capabilities: Mapping[str, ModuleType], peers: Optional[Intent] = None
) -> Dict[str, Any]:
    """The plan of one host: a plain document, the same for plan, apply, drift and check mode.

    Keys: status ("ok", "changes", "problems"), reboot, second_reboot, steps, calls ({capability: {module, args}}),
    roles (the order in which calls are made), problems, warnings, marks (of what will be done).
    """
    requests: Dict[str, CmdlineRequest] = {}
    decisions: Dict[str, Decision] = {}
    for name in in_order({n: capabilities[n] for n in intent}):
        options = options_of(name, intent, capabilities, peers)
        try:
            requests[name] = capabilities[name].cmdline(options, state)
            if name != KERNEL_ARGS:
                decisions[name] = capabilities[name].decide(options, state)
        except IntentError as err:
            decisions[name] = Decision(problems=tuple(err.found))
    decisions, requests = later.postpone(decisions, requests, capabilities)
    asked = {n: r for n, r in requests.items() if r}
    # A host on which some intent cannot be met is left alone altogether, boot loader included.
    if asked and not any(d.problems for d in decisions.values()):
        decisions = {KERNEL_ARGS: kernel_args.decide_requests(asked, state), **decisions}
    return _document(decisions)


def _document(decisions: Mapping[str, Decision]) -> Dict[str, Any]:
    steps = [step for d in decisions.values() for step in d.steps]
    problems = [p.as_dict() for d in decisions.values() for p in d.problems]
    booting = [s for s in steps if s.disruption in AT_BOOT and s.key != later.SECOND]
    cycle = any(s.disruption == POWER_CYCLE for s in booting)
    if booting:
        steps.append(
            Step(
                REBOOT, REBOOT, "running", "power cycled" if cycle else "rebooted",
                "takes effect only at boot: " + ", ".join(s.id for s in booting),
                POWER_CYCLE if cycle else "reboot", "boot_id changed, then everything above is read back",
                tuple(s.id for s in booting if REBOOT not in s.requires),
            )
        )
    calls = {n: asdict(d.call) for n, d in decisions.items() if d.call is not None and not _must_wait(d, booting)}
    documents = [dict(asdict(s), id=s.id, requires=list(s.requires)) for s in steps]
    return {
        "status": "problems" if problems else "changes" if steps else "ok",
        "reboot": bool(booting),
        "power_cycle": cycle,
        "second_reboot": any(s.key == later.SECOND for s in steps),
        "reboot_digest": reboot_digest(booting) if booting else "",
        "reboot_words": reboot_words(booting) if booting else "",
        "steps": documents,
        "calls": {} if problems else calls,
        "roles": [] if problems else list(calls),
        "problems": problems,
        "warnings": [w for d in decisions.values() for w in d.warnings],
        "marks": marks(documents, calls),
    }


def _must_wait(decision: Decision, booting: Sequence[Step]) -> bool:
    """Whether all of a capability's steps can only be done after the reboot that is due."""
    return bool(booting) and all(REBOOT in s.requires for s in decision.steps)


def marks(steps: Sequence[Mapping[str, Any]], calls: Mapping[str, Any]) -> List[str]:
    """A short fingerprint of each thing to be done: an operator's consent is to these, or to fewer of them.

    Not of what was found before: interrupts wander and counters count while the operator reads. And a
    module of a run that was cut off may still finish a step that the new plan has.
    """
    essence = [[s["id"], s["after"], s["disruption"]] for s in steps] + [[name, call] for name, call in calls.items()]
    texts = [json.dumps(item, sort_keys=True).encode("utf-8", "surrogatepass") for item in essence]
    return sorted(hashlib.sha256(text).hexdigest()[:12] for text in texts)


def summary(plans: Mapping[str, Mapping[str, Any]]) -> Dict[str, Any]:
    """Counts over hosts: {hosts, changed_hosts, reboots, by_disruption}. `plans` as made by `decide`."""
    count = dict.fromkeys(DISRUPTIONS, 0)
    for plan in plans.values():
        for step in plan.get("steps", ()):
            if step["capability"] != REBOOT:
                count[step["disruption"]] += 1
    return {
        "hosts": len(plans),
        "changed_hosts": sum(1 for p in plans.values() if p.get("steps")),
        "reboots": sum(bool(p.get("reboot")) + bool(p.get("second_reboot")) for p in plans.values()),
        "by_disruption": count,
    }
