# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reboot one host and wait for it."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.nearmetal.rack.plugins.plugin_utils import bmcs, rebooting
from ansible_collections.nearmetal.rack.plugins.plugin_utils.lifeline import end_with_parent


class ActionModule(ActionBase):
    """See the module of the same name for options and results."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False
    _VALID_ARGS = frozenset(("reason", "wanted", "power_cycle", "timeout", "root"))

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Note the reason on the host, reboot it, wait until another boot has settled."""
        end_with_parent()
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = dict(self._task.args)
        noted = self._execute_module(module_name="nearmetal.rack.reboot", module_args=args, task_vars=task_vars)
        if noted.get("failed") or self._task.check_mode:
            return {**result, **noted}
        bmc = bmcs.HostBmc(task_vars or {}, self._templar.template)
        problem = self._go_down(bool(args.get("power_cycle")), bmc)
        if problem:
            return {**result, "failed": True, "msg": problem, "note": noted["note"]}
        try:
            elapsed = rebooting.wait(
                noted["note"]["boot_id"], float(args.get("timeout") or 900), self._ask, time.monotonic, time.sleep
            )
        except rebooting.NotBack as err:
            said = ". ".join(filter(None, (str(err), bmc.power_words())))
            return {**result, "failed": True, "rebooted": False, "msg": f"reboot: {said}", "note": noted["note"]}
        with contextlib.suppress(AnsibleError):
            self._low_level_execute_command(rebooting.SETTLED)
        warnings = [*result.get("warnings", ()), *filter(None, (bmc.wait_for_jobs(),))]
        return {
            **result, "changed": True, "rebooted": True, "elapsed": round(elapsed, 1), "note": noted["note"], "warnings": warnings,
        }  # fmt: skip

    def _go_down(self, power_cycle: bool, bmc: bmcs.HostBmc) -> str:
        """Tell the host to; why it did not, or "". A connection that ends meanwhile is what is wanted."""
        if power_cycle and bmc:
            with contextlib.suppress(AnsibleError):
                self._low_level_execute_command(rebooting.SYNC)
            words = bmc.power_cycle()
            return f"the host's BMC did not take the power cycle: {words}" if words else ""
        try:
            said = self._low_level_execute_command(rebooting.POWER_CYCLE if power_cycle else rebooting.REBOOT)
        except AnsibleConnectionFailure:
            return ""
        if said["rc"] in (0, 255):  # 255: ssh lost the host
            return ""
        words = " ".join((said["stderr"] or said["stdout"]).split()) or f"exit status {said['rc']}"
        if power_cycle:
            return f"the host's BMC did not take the power cycle: {words}. Fix: power cycle it by hand, then apply again."
        return f"the host refused to reboot: {words}"

    def _ask(self) -> str:
        """The boot id, over a new connection: a kept one may belong to the boot that ended."""
        with contextlib.suppress(AnsibleError, AttributeError):
            self._connection.reset()
        try:
            said = self._low_level_execute_command(rebooting.BOOT_ID)
        except AnsibleError as err:
            raise ConnectionError(" ".join(str(err).split())[:300]) from err
        if said["rc"]:
            raise ConnectionError(" ".join((said["stderr"] or said["stdout"]).split())[:300])
        return str(said["stdout"]).strip()
