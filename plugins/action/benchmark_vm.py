# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the benchmark of one host and keep its result on the controller."""

from __future__ import annotations

import json
import os
import secrets
import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible_collections.nearmetal.rack.plugins.plugin_utils.intent import SPECS
from ansible_collections.nearmetal.rack.plugins.plugin_utils.lifeline import end_with_parent

ROLE = "benchmark_vm"

# Made once in the parent, from which the workers of all hosts are forked: one run, one name.
RUN = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(2)}"


class ActionModule(ActionBase):
    """See the module of the same name for options and results."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False
    _VALID_ARGS: frozenset[str] = frozenset()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Take the role's variables, call the module, write RUN/HOST.json."""
        end_with_parent()
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        options = self._options(variables)
        folder, run = Path(options.pop("results")), options.pop("run") or RUN
        answer = self._execute_module(
            module_name="nearmetal.rack.benchmark_vm", module_args=options, task_vars=variables
        )
        document = answer.pop("results", None)
        result.update(answer)
        if document and not answer.get("failed") and not self._task.check_mode:
            host = variables["inventory_hostname"]
            document = {"run": run, "host": host, **document}
            result["file"] = str(_write(folder / run, host, document))
        return result

    def _options(self, variables: dict[str, Any]) -> dict[str, Any]:
        """The role's variables without prefix, defaults filled in. Raises AnsibleActionFail."""
        given = {name: self._templar.template(variables[name]) for name in SPECS[ROLE] if name in variables}
        checked = ArgumentSpecValidator(SPECS[ROLE]).validate(given)
        if checked.error_messages:
            raise AnsibleActionFail("; ".join(checked.error_messages))
        return {name[len(ROLE) + 1 :]: value for name, value in checked.validated_parameters.items()}


def _write(folder: Path, host: str, document: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{host}.json"
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
    return path
