# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring one capability of a host to its intent: what every role calls."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.nearmetal.rack.plugins.plugin_utils import guarding, planning
from ansible_collections.nearmetal.rack.plugins.plugin_utils.lifeline import end_with_parent


class ActionModule(ActionBase):
    """See the module of the same name for options and results."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False
    _VALID_ARGS = frozenset(("capability",))

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Plan (or take the loop's plan of this host), then make the module calls of it."""
        end_with_parent()
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        name = self._task.args["capability"]
        plan = self._given_plan(variables)
        if plan is None:
            plan = planning.plan_host(self, variables, (name,))
            message = planning.complaint(plan)
            if message:
                return {**result, "failed": True, "msg": message, "steps": plan["steps"]}
            calls = plan["calls"]
        else:
            calls = {name: plan["calls"][name]} if name in plan["calls"] else {}
        done = {**result, "changed": False, "steps": _steps(plan, calls), "reboot_required": plan["reboot"], "diff": []}
        for call in calls.values():
            answer = self._carry_out(call, variables)
            done["changed"] = done["changed"] or answer.get("changed", False)
            diff = answer.get("diff") or []
            done["diff"] += diff if isinstance(diff, list) else [diff]
            for key in ("warnings", "exception"):
                if answer.get(key):
                    done[key] = answer[key]
            if answer.get("failed"):
                return {**done, "failed": True, "msg": answer.get("msg") or answer.get("module_stderr") or "module failed"}
            if answer.get("guard"):
                done["guard"] = answer["guard"]
                problem = self._confirm(answer["guard"])
                if problem:
                    return {**done, "failed": True, "msg": f"{name}: {problem}"}
        return done

    def _carry_out(self, call: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Ship the module to the host; where it is an action of the controller (BIOS settings), run that here."""
        actions = self._shared_loader_obj.action_loader
        if not actions.has_plugin(call["module"]):
            args = dict(call["args"], root=planning.root(variables))
            answer: dict[str, Any] = self._execute_module(module_name=call["module"], module_args=args, task_vars=variables)
            return answer
        task = self._task.copy()
        task.args = dict(call["args"])
        action = actions.get(
            call["module"], task=task, connection=self._connection, play_context=self._play_context, loader=self._loader,
            templar=self._templar, shared_loader_obj=self._shared_loader_obj,
        )  # fmt: skip
        try:
            answer = action.run(task_vars=variables)
        except AnsibleActionFail as err:
            answer = {"failed": True, "msg": err.message}
        return answer

    def _confirm(self, guard: dict[str, Any]) -> str:
        """Tell the host over a new connection that it is reached; "" where the change stays."""
        words = guarding.command(str(guard["token"]))

        def ask() -> guarding.Answer:
            with contextlib.suppress(AnsibleError, AttributeError):
                self._connection.reset()
            try:
                said = self._low_level_execute_command(words)
            except AnsibleError as err:
                raise ConnectionError(" ".join(str(err).split())[:300]) from err
            text = " ".join((said["stderr"] or said["stdout"]).split())
            if said["rc"] == 255:  # of ssh
                raise ConnectionError(text[:300])
            return guarding.Answer(said["rc"], text.removeprefix("nearmetal: "))

        return guarding.confirm(float(guard["seconds"]), ask, time.monotonic, time.sleep)

    def _given_plan(self, variables: dict[str, Any]) -> dict[str, Any] | None:
        """The whole-rack loop has already observed this host: its plan stands in nearmetal_plan."""
        registered = variables.get("nearmetal_plan")
        return registered["plan"] if isinstance(registered, dict) and "plan" in registered else None


def _steps(plan: dict[str, Any], calls: dict[str, Any]) -> list[dict[str, Any]]:
    return [s for s in plan["steps"] if s["capability"] in calls]
