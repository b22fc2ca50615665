# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the actions `plan` and `converge` share: intent, probe, decision, and what to say of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.nearmetal.rack.plugins.module_utils import loop
from ansible_collections.nearmetal.rack.plugins.module_utils.model import Problem
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe
from ansible_collections.nearmetal.rack.plugins.plugin_utils import bmcs as bmcs_
from ansible_collections.nearmetal.rack.plugins.plugin_utils.intent import CAPABILITIES, read_intent
from ansible_collections.nearmetal.rack.plugins.plugin_utils.probe import ProbeError, probe

if TYPE_CHECKING:
    from ansible_collections.nearmetal.rack.plugins.module_utils.state import Bmc

BMC = "bios"
"""The capability that is decided by what the host's BMC says."""


def root(variables: Mapping[str, Any]) -> str:
    """Where the host's files lie on the target: "/", or a tree (nearmetal_root)."""
    return str(variables.get("nearmetal_root") or "/")


def plan_host(
    action: ActionBase, variables: dict[str, Any], only: tuple[str, ...] = (), validate_only: bool = False,
    expected: Sequence[str] = (), bmcs: str = "",
) -> dict[str, Any]:
    """The plan of one host (document of loop.decide). Bad intent is found before the host is touched.

    expected: marks of the plan that was agreed to; a plan with any other is refused. bmcs: folder in which bmc_read has
    left what the BMCs say; a BMC that is not there is read here, while the host is observed.
    """
    unknown = sorted(set(only) - set(CAPABILITIES))
    if unknown:
        raise AnsibleActionFail(f"no such capability: {', '.join(unknown)}; there are: {', '.join(CAPABILITIES)}")
    intent, found = read_intent(variables, action._templar.template, only)
    peers, wrong = _peers(variables, action._templar.template, only)
    found += wrong
    if not found:
        found = loop.check(intent, CAPABILITIES, peers)
    if found or validate_only:
        return {**_EMPTY, "status": "problems" if found else "ok", "problems": [p.as_dict() for p in found]}
    options, host = intent.get(BMC) or peers.get(BMC), str(variables.get("inventory_hostname") or "")
    wanted = options if bmcs_.wanted(options, root(variables)) else None
    try:
        with bmcs_.Reading(wanted, bmcs, host) as reading:
            state = observe(probe(action, variables, root(variables), intent))
        state["bmc"] = cast("Bmc | None", reading.result())
    except ProbeError as err:
        if err.kind == "unreachable":
            raise AnsibleConnectionFailure(str(err)) from err
        raise AnsibleActionFail(str(err)) from err
    if variables.get("nearmetal_reboot_retry"):
        state["last_reboot"] = None
    plan = loop.decide(intent, state, CAPABILITIES, peers)
    _keep(variables, state)
    if expected and not set(plan["marks"]) <= set(expected):
        plan["problems"].append(_CHANGED_SINCE)
        plan.update(status="problems", calls={}, roles=[])
    return plan


def _peers(
    variables: Mapping[str, Any], template: Callable[[Any], Any], only: Sequence[str]
) -> tuple[dict[str, dict[str, Any]], list[Problem]]:
    """Options of what the chosen capabilities READ, where it is managed on the host: a role alone decides as the loop."""
    reads = {peer for name in only for peer in getattr(CAPABILITIES[name], "READS", ())} - set(only)
    names = tuple(p for p in sorted(reads & set(CAPABILITIES)) if any(v.startswith(p + "_") for v in variables))
    return read_intent(variables, template, names) if names else ({}, [])


_EMPTY: dict[str, Any] = {
    "reboot": False, "power_cycle": False, "second_reboot": False, "reboot_digest": "", "reboot_words": "", "steps": [],
    "calls": {}, "roles": [], "warnings": [], "marks": [],
}  # fmt: skip

_CHANGED_SINCE = {
    "variable": "", "value": None, "kind": "host",
    "message": "what would be done here is no longer what was agreed to: host or intent changed since the plan",
    "fix": "make a new plan and read it",
}  # fmt: skip


def _keep(variables: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Leave the observed document in the run's folder; too big to send to the main process."""
    folder = variables.get("nearmetal_run_dir")
    if not folder:
        return
    states = Path(folder) / "states"
    state = {**state, "bmc": bmcs_.kept(state.get("bmc"))}
    before = states / f"{variables['inventory_hostname']}.before.json"
    path = before.with_name(before.name.replace(".before.", ".after.")) if before.exists() else before
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(state, separators=(",", ":")), encoding="utf-8", errors="surrogateescape")
    draft.replace(path)


def complaint(plan: Mapping[str, Any], expect_converged: bool = False) -> str:
    """Why the task must fail; "" where it must not."""
    lines = [describe(p) for p in plan["problems"]]
    if not lines and expect_converged:
        lines = [
            f"{s['id']} is not in force: wanted {s['after']}, found {s['before']} ({s['verify']})" for s in plan["steps"]
        ]
    return "\n".join(lines)


def describe(problem: Mapping[str, Any]) -> str:
    """One line: variable, value, what is wrong, what to do."""
    head = f"{problem['variable']}={problem['value']!r}: " if problem["variable"] else ""
    return f"{head}{problem['message']}. Fix: {problem['fix']}."
