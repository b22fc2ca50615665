# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the network guard notes on the host, and what it means. The note is there as long as the guard is.

{"version": 1, "token": who may confirm, "state": "armed" or "failed", "purpose": for people, "armed_at" and "deadline":
seconds since 1970, "boot_id", "former": document of shapes.Desired, "links" and "routes": see links.py, "files":
{path: {"text", "mode"} or null}, "units": {unit: whether it was enabled}, "error": why restoring failed}
"""

from __future__ import annotations

import json
import time
from typing import Any, Dict, Mapping, Optional

from ..host import Host, HostError, Missing
from ..state import Guard

NOTE = "/var/lib/nearmetal/guard.json"
RESTORED = "/var/lib/nearmetal/guard-restored.json"
VERSION = 1


def read_note(host: Host, path: str = NOTE) -> Optional[Dict[str, Any]]:
    """The note; None where there is none. Raises HostError where it is no note: it must not read as absent."""
    try:
        text = host.read(path)
    except Missing:
        return None
    try:
        note = json.loads(text)
    except ValueError as err:
        raise HostError(path, "is no JSON: %s" % err) from None
    if not isinstance(note, dict) or note.get("version") != VERSION:
        raise HostError(path, "is no note of the guard of version %d" % VERSION)
    return note


def guard_state(note: Optional[Mapping[str, Any]], timer: bool, boot_id: str) -> Guard:
    """How the guard stands. timer: whether it runs."""
    if note is None:
        return {"armed": timer, "deadline": "", "left": "a timer without a note" if timer else ""}
    deadline = when(note["deadline"])
    left = ""
    if note["state"] == "failed":
        left = "it could not restore the network at %s: %s" % (deadline, note.get("error") or "no reason was kept")
    elif not timer and boot_id and boot_id != note["boot_id"]:
        left = "the host was restarted while it was armed (%s)" % when(note["armed_at"])
    elif not timer:
        left = "it was armed at %s, and its timer is gone" % when(note["armed_at"])
    return {"armed": timer, "deadline": deadline, "left": left}


def when(seconds: float) -> str:
    """"2026-01-31T12:00:00Z"."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
