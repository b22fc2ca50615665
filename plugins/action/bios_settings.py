# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BIOS settings of one host over Redfish: read, compare, submit the difference, see that it is pending."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.nearmetal.rack.plugins.module_utils import bios
from ansible_collections.nearmetal.rack.plugins.plugin_utils import bmcs, settling
from ansible_collections.nearmetal.rack.plugins.plugin_utils.lifeline import end_with_parent

OPTIONS = ("job_timeout", "settings", "preset", "attributes", "strict", "foreign_pending")


class ActionModule(ActionBase):
    """See the module of the same name for options and results."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Never resets the host: `reset_required` says that it is due."""
        end_with_parent()
        result: dict[str, Any] = super().run(tmp, task_vars)
        options = bmcs.options_of(self._task.args, task_vars or {}, self._templar.template, OPTIONS)
        found = bios.intent_problems(options)
        if found:
            return {**result, "failed": True, "msg": settling.lines(found)}
        with bmcs.session(options) as bmc:
            return {**result, **settling.settle(bmc, options, bool(self._task.check_mode))}
