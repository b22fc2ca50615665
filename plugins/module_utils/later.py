# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capabilities that count CPUs or NUMA nodes, while the BIOS is about to change them: decided after the reboot.

What is computed from the CPUs of now would be wrong after it: with SMT on, CPU 1 is no core of its own any more. Pure.
"""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Dict, List, Mapping, Tuple

from .model import REBOOT, CmdlineRequest, Decision, Step

AFTER_REBOOT = "decided after the reboot"
_VERIFY = "decided again with the CPUs and NUMA nodes that the host then has, and read back"


def postpone(
    decisions: Mapping[str, Decision], requests: Mapping[str, CmdlineRequest], capabilities: Mapping[str, ModuleType]
) -> Tuple[Dict[str, Decision], Dict[str, CmdlineRequest]]:
    """Decisions and requests for kernel arguments, where what rests on a topology that moves waits for the reboot.

    Arguments that only go are no count, and go now. Where some are asked for, a second reboot is announced.
    """
    moved: Dict[str, str] = {}
    for decision in decisions.values():
        moved.update(decision.moves)
    done, asked = dict(decisions), dict(requests)
    for name, decision in decisions.items():
        why = [moved[kind] for kind in getattr(capabilities[name], "COUNTS", ()) if kind in moved]
        if not why:
            continue
        request = asked.get(name, CmdlineRequest())
        if request.args:
            del asked[name]
        done[name] = _later(name, decision, ", ".join(dict.fromkeys(why)), bool(request.args))
    return done, asked


def _later(name: str, decision: Decision, why: str, boots: bool) -> Decision:
    """A decision that says what differs now, and promises nothing else; what does not fit now may fit then."""
    reason = "%s: what this host needs is known when it has booted" % why
    steps: List[Step] = [
        replace(step, after=AFTER_REBOOT, reason=reason, verify=_VERIFY, requires=(REBOOT,), disruption="none")
        for step in decision.steps
    ]
    unfit = [p for p in decision.problems if p.kind == "intent"]
    if unfit:
        now = "; ".join(p.message for p in unfit)
        steps = [Step(name, "later", "now: " + now, AFTER_REBOOT, reason, "none", _VERIFY, (REBOOT,))]
    if boots:
        text = "its kernel arguments name what is known after the first reboot"
        steps.append(Step(name, SECOND, "booted once", "booted twice", text, "reboot", _VERIFY, (REBOOT,)))
    return Decision(tuple(steps), decision.call, tuple(p for p in decision.problems if p not in unfit))


SECOND = "second-reboot"
"""Key of the step that announces a second reboot: the loop makes no other than announced ones."""
