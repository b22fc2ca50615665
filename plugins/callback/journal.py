# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Append one JSON line per event to a run's journal, as it happens."""

from __future__ import annotations

DOCUMENTATION = r"""
name: journal
type: notification
short_description: Journal of a run, one JSON object a line
version_added: 0.1.0
description:
  - Appends what happens on each host to a file, at once, so that nothing is lost when the controller dies.
  - Ends the playbook when the program that started it dies (Linux), so that no orphan goes on changing hosts.
options:
  path:
    description: The file to append to. Nothing is written where it is not set.
    type: path
    env:
      - name: NEARMETAL_JOURNAL
author:
  - nearmetal contributors (@nearmetal)
"""

import contextlib  # noqa: E402
import importlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from typing import Any  # noqa: E402

from ansible.plugins.callback import CallbackBase  # noqa: E402
from ansible_collections.nearmetal.rack.plugins.module_utils import collector  # noqa: E402
from ansible_collections.nearmetal.rack.plugins.plugin_utils.lifeline import end_with_parent  # noqa: E402

PLAN = "nearmetal.rack.plan"
CONVERGE = "nearmetal.rack.converge"
REBOOT = "nearmetal.rack.reboot"
PRELOAD = "nearmetal.sim.preload"
SILENT = ("ansible.builtin.include_role", "ansible.builtin.include_tasks", "ansible.builtin.group_by")


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """See DOCUMENTATION."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "nearmetal.rack.journal"
    CALLBACK_NEEDS_ENABLED = True

    def set_options(self, *args: Any, **kwargs: Any) -> None:
        """Open the journal."""
        super().set_options(*args, **kwargs)
        path = self.get_option("path")
        self._file = open(path, "a", buffering=1, encoding="utf-8", errors="surrogateescape") if path else None
        if self._file:
            end_with_parent()
            self._write(event="playbook", pid=os.getpid())

    def _preload(self, play: Any) -> None:
        """Load what simulated hosts need here, in the process from which the workers of all hosts are forked."""
        if PRELOAD in sys.modules or not self._file:
            return
        variables = play.get_variable_manager()
        inventory = getattr(variables, "_inventory", None)
        first = next(iter(inventory.get_hosts(play.hosts)), None) if inventory is not None else None
        if first and variables.get_vars(host=first).get("ansible_connection") == "nearmetal.rack.simulated":
            with contextlib.suppress(ImportError):
                importlib.import_module(PRELOAD).everything(collector)

    def _write(self, **event: Any) -> None:
        if self._file:
            self._file.write(json.dumps({"time": round(time.time(), 3), **event}, default=str) + "\n")

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """A play begins."""
        self._preload(play)
        self._write(event="play", name=play.get_name().strip())

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """A task begins on a host."""
        if task.resolved_action not in SILENT:
            event = "reboot_start" if task.resolved_action == REBOOT else "task_start"
            self._write(event=event, host=host.name, task=task.get_name(), action=task.resolved_action)

    def v2_runner_on_ok(self, result: Any) -> None:
        """A task is done on a host."""
        self._done(result, ok=True)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """A task failed on a host."""
        self._done(result, ok=False)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """A host cannot be reached."""
        self._write(event="unreachable", host=result.host.name, message=str(result.result.get("msg", "")))

    def _done(self, result: Any, ok: bool) -> None:
        task, host, data = result.task, result.host.name, result.result
        action = task.resolved_action
        if action in SILENT and ok:
            return
        if action == PLAN and "plan" in data:
            self._write(event="plan", host=host, plan=data["plan"], action=action, ok=ok)
        elif action == REBOOT and ok:
            self._write(event="reboot_done", host=host, action=action, seconds=data.get("elapsed"))
        elif ok:
            for step in data.get("steps", ()) if action == CONVERGE else ():
                self._write(event="step_done", host=host, step=step["id"], before=step["before"], after=step["after"])
            self._write(event="task_done", host=host, task=task.get_name(), action=action, changed=data.get("changed"))
        if not ok:
            self._write(
                event="failed", host=host, task=task.get_name(), action=action, message=_message(data),
                step=", ".join(s["id"] for s in data.get("steps") or ()),
            )


def _message(data: dict[str, Any]) -> str:
    return str(data.get("msg") or data.get("module_stderr") or data.get("reason") or "failed")
