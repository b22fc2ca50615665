# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The BMCs of a whole play, read by threads of one worker: a worker for each would only wait."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from ansible import constants as C
from ansible.plugins.action import ActionBase
from ansible_collections.nearmetal.rack.plugins.module_utils import bios
from ansible_collections.nearmetal.rack.plugins.plugin_utils import bmcs
from ansible_collections.nearmetal.rack.plugins.plugin_utils.lifeline import end_with_parent
from ansible_collections.nearmetal.rack.plugins.plugin_utils.redfish import CONNECTIONS, read_many


class ActionModule(ActionBase):
    """See the module of the same name for options and results."""

    TRANSFERS_FILES = False
    BYPASS_HOST_LOOP = True
    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False
    _VALID_ARGS = frozenset(("connections",))

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Never fails for a BMC: the plan of its host says what is wrong."""
        end_with_parent()
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        result.update(changed=False, hosts={}, folder="")
        wanted = dict(self._options(variables))
        if not wanted:
            return result
        connections = int(self._task.args.get("connections") or CONNECTIONS)
        documents = read_many(wanted, connections, bios.needs_registry)
        result["folder"] = tempfile.mkdtemp(prefix="bmcs-", dir=C.DEFAULT_LOCAL_TMP)
        bmcs.save(result["folder"], documents)
        result["hosts"] = {host: {"error": d["error"], "power_state": d["power_state"]} for host, d in documents.items()}
        return result

    def _options(self, variables: Mapping[str, Any]) -> Iterator[tuple[str, bmcs.Options]]:
        """Hosts of the play with BIOS intent."""
        every = variables["hostvars"]
        for host in variables["ansible_play_hosts"]:
            found = every.raw_get(host)
            if bmcs.has_bmc(found):
                templar = self._templar.copy_with_new_env(available_variables=found)
                options = bmcs.host_options(found, templar.template)
                if options is not None:
                    yield host, options
