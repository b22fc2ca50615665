# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power of a host by its BMC, and the source of its next boot."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.nearmetal.rack.plugins.plugin_utils import bmcs
from ansible_collections.nearmetal.rack.plugins.plugin_utils.lifeline import end_with_parent
from ansible_collections.nearmetal.rack.plugins.plugin_utils.redfish.power import Power

OWN = {
    "state": {"type": "str", "choices": ["on", "off", "restart", "cycle"]},
    "graceful": {"type": "bool", "default": False},
    "boot_once": {"type": "str", "default": ""},
    "wait_timeout": {"type": "int", "default": 300},
}


class ActionModule(ActionBase):
    """See the module of the same name for options and results."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The boot source first, so that the restart that was asked for uses it."""
        end_with_parent()
        result: dict[str, Any] = super().run(tmp, task_vars)
        options = bmcs.options_of(self._task.args, task_vars or {}, self._templar.template, (), OWN)
        wanted, source = options["state"], options["boot_once"]
        with bmcs.session(options) as bmc:
            power = Power(bmc)
            before = power.state
            boot = dict(power.document["boot"])
            if self._task.check_mode:
                again = bool(source) and (source, "Once") != (boot["override"], boot["enabled"])
                changed = again or bool(wanted) and wanted != before.lower()
            else:
                changed = power.boot_once(source) if source else False
                if wanted:
                    changed = power.set(wanted, options["graceful"], options["wait_timeout"]) or changed
            return {
                **result, "changed": changed, "power_state_before": before, "power_state": power.state,
                "reset_types": power.document["reset_types"], "boot": power.document["boot"],
            }  # fmt: skip
