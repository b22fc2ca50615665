# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""host_info: one round trip, parsed on the controller."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe
from ansible_collections.nearmetal.rack.plugins.plugin_utils.probe import ProbeError, probe


class ActionModule(ActionBase):
    """Runs the probe instead of the module of the same name: the same document at a quarter of the cost."""

    TRANSFERS_FILES = False
    _requires_connection = True
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Observe the host; the result has `state`."""
        super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec({"root": {"type": "path", "default": "/"}})
        try:
            host = probe(self, task_vars or {}, options["root"])
        except ProbeError as err:
            return {"unreachable" if err.kind == "unreachable" else "failed": True, "msg": err.message, "kind": err.kind}
        folder = (task_vars or {}).get("nearmetal_observe_dir")
        if not folder:
            return {"changed": False, "state": observe(host)}
        raw = (task_vars or {}).get("nearmetal_observe_raw")
        document: Mapping[str, Any] = {name: getattr(host, name) for name in RAW} if raw else observe(host)
        if (task_vars or {}).get("nearmetal_observe_bmc"):
            document = {**document, "bmc": self._bmc(task_vars or {})}
        _write(Path(folder) / ((task_vars or {})["inventory_hostname"] + ".json"), document)
        return {"changed": False}

    def _bmc(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Resources of the host's BMC as they are. Raises AnsibleActionFail."""
        from ansible_collections.nearmetal.rack.plugins.plugin_utils import bmcs
        from ansible_collections.nearmetal.rack.plugins.plugin_utils.redfish import capturing

        with bmcs.session(bmcs.options_of({}, variables, self._templar.template, ())) as bmc:
            return capturing.documents(bmc)


RAW = ("files", "links", "errors", "folders", "live", "commands")


def _write(path: Path, document: Mapping[str, Any]) -> None:
    """For the command line, which wants documents of many hosts: they stay out of Ansible's results."""
    path.write_text(json.dumps(document), encoding="utf-8", errors="surrogateescape")
