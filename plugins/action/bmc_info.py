# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a BMC says of a host: power, health, versions, boot source. Changes nothing."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.nearmetal.rack.plugins.plugin_utils import bmcs
from ansible_collections.nearmetal.rack.plugins.plugin_utils.redfish import inventory


class ActionModule(ActionBase):
    """See the module of the same name for options and results."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return {changed: false, bmc: ...}."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        options = bmcs.options_of(self._task.args, task_vars or {}, self._templar.template, ())
        with bmcs.session(options) as bmc:
            return {**result, "changed": False, "bmc": inventory.information(bmc)}
