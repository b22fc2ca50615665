# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules sriov and vf_lag do on a host: observe, choose as the planner does, act, read back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..diffs import diffs
from ..host import Host, HostError, Refused
from ..model import IntentError
from ..state import Fabric, State
from .apply import Do, converge, execute
from .decide import Choice, choose
from .doer import Doer
from .host_checks import held
from .shapes import Desired, Op


class Hooks(NamedTuple):
    """What happens around the operations. All may be left out.

    arm(host, fabric, seconds, desired): before the first operation that stops traffic; fabric is the state to go back to.
    Returns the guard that the controller confirms ({"token", "seconds", ...}).
    finish(host, guard): all is done: from now on the controller has its seconds.
    undo(host): something failed after the guard was armed; what became of the host, in words.
    persist(host, desired, check): what brings it back at boot; the files that differ, {path: new content, None removed}.
    more: operations of others, by kind.
    """

    arm: Optional[Callable[[Host, Fabric, int, Desired], Dict[str, Any]]] = None
    finish: Optional[Callable[[Host, Dict[str, Any]], Dict[str, Any]]] = None
    undo: Optional[Callable[[Host], str]] = None
    persist: Optional[Callable[[Host, Desired, bool], Mapping[str, Optional[str]]]] = None
    more: Mapping[str, Do] = {}


def carry_out(
    capability: str, host: Host, params: Mapping[str, Any], check: bool, observe: Callable[[Host], State],
    hooks: Optional[Hooks] = None, doer: Optional[Doer] = None,
) -> Dict[str, Any]:  # fmt: skip
    """The module's result. Raises IntentError (nothing was touched) or HostError (what failed, and what it means)."""
    if not host.live:
        raise Refused(capability, "VFs and bonds are of a running kernel: in a tree nothing can be done")
    hooks = hooks or Hooks()
    state = observe(host)
    chosen = _choose(capability, params, state)
    if chosen.problems:
        raise IntentError(list(chosen.problems))
    shown = diffs(_TITLE[capability], chosen.steps, {}, {})
    done: List[Op] = chosen.ops
    guards: List[Dict[str, Any]] = []
    changed: Mapping[str, Optional[str]] = {}
    try:
        if chosen.ops and not check:
            done, changed = _act(host, params, chosen, observe, hooks, doer, guards)
        if hooks.persist is not None and not chosen.waiting:
            changed = {**changed, **hooks.persist(host, chosen.desired, check)}
            if changed and not check:
                # An owner that has read its new files may have touched what they say.
                done = done + _act(host, params, chosen, observe, hooks, doer, guards)[0]
        state = state if check else observe(host)
    except HostError as err:
        if not guards or hooks.undo is None:
            raise
        raise HostError(err.path, "%s. %s" % (err.reason, hooks.undo(host))) from None
    shown += diffs("", [], {}, changed)
    addresses = [pf.address for pf in chosen.desired.pfs]
    armed = {"guard": hooks.finish(host, guards[0]) if hooks.finish is not None else guards[0]} if guards else {}
    return {
        **armed,
        "changed": bool(chosen.ops) or bool(changed) or hooks.persist is not None and bool(chosen.steps),
        "steps": [asdict(step) for step in chosen.steps],
        "operations": [op.as_dict() for op in done],
        "pfs": [pf for pf in state["fabric"]["pfs"] if pf["address"] in addresses],
        "warnings": chosen.warnings,
        "diff": shown,
    }


_TITLE = {"sriov": "SR-IOV", "vf_lag": "VF LAG"}


def _choose(capability: str, params: Mapping[str, Any], state: State) -> Choice:
    sriov = {"pfs": params["pfs"], "accept_management": params["accept_management"]}
    chosen = choose(capability, {"sriov": sriov, "vf_lag": params if capability == "vf_lag" else None}, state)
    return chosen._replace(problems=chosen.problems + held(chosen.ops, state["fabric"]))


def _act(
    host: Host, params: Mapping[str, Any], chosen: Choice, observe: Callable[[Host], State], hooks: Hooks,
    doer: Optional[Doer], guards: List[Dict[str, Any]],
) -> Tuple[List[Op], Dict[str, Optional[str]]]:  # fmt: skip
    """What was done, and the files that had to change first."""
    first: Dict[str, Optional[str]] = {}

    def before(fabric: Fabric, ops: List[Op]) -> None:
        """Arm the guard once, with the state before the first operation."""
        harmful = any(op.disruption != "none" for op in ops)
        if harmful and not guards and hooks.arm is not None and params["guard"]:
            guards.append(hooks.arm(host, fabric, params["guard"], chosen.desired))
        if hooks.persist is not None and not first and any(bond.absent for bond in chosen.desired.bonds):
            # An owner that still has a bond's files makes it again as soon as it is taken away; one that reads that they
            # are gone takes it away, and no VF may be bound then.
            execute(host, [op for op in ops if op.kind == "unbind"], doer=doer, more=hooks.more)
            first.update(hooks.persist(host, chosen.desired, False))

    return converge(host, chosen.desired, lambda h: observe(h)["fabric"], doer, before, hooks.more), first
