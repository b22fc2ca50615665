# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Observe one host and decide, both in the forked worker: one round trip, one compact result."""

from __future__ import annotations

import gc
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.nearmetal.rack.plugins.plugin_utils import planning


class ActionModule(ActionBase):
    """See the module of the same name for options and results."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False
    _VALID_ARGS = frozenset(("capabilities", "validate_only", "expect_converged", "expected", "bmcs_read"))

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return {changed: false, plan: document of loop.decide}; failed where there are problems."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = self._task.args
        gc.disable()  # this worker ends with this task: what it leaves is not worth looking for
        plan = planning.plan_host(
            self, task_vars or {}, tuple(args.get("capabilities") or ()), bool(args.get("validate_only")),
            tuple(args.get("expected") or ()), str(args.get("bmcs_read") or ""),
        )
        result.update(changed=False, plan=plan)
        message = planning.complaint(plan, bool(args.get("expect_converged")))
        if message:
            result.update(failed=True, msg=message)
        return result


def _bmcs(variables: dict[str, Any]) -> str:
    """The folder that bmc_read has left. Taken from the variable here: a template in the task would cost each worker more."""
    registered = variables.get("nearmetal_bmcs")
    return str(registered.get("folder") or "") if isinstance(registered, dict) else ""
