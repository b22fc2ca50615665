# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules sriov and vf_lag do around their operations: guard before, boot configuration after."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from ..fabric.running import Hooks
from ..fabric.shapes import Desired
from ..host import Host, HostError
from ..state import Fabric
from . import guard, persist
from . import main as program_main
from .look import look

CARRIED = (program_main,)
"""Every module carries what the boot program is built from."""

WORK_S = 300
"""Beside the controller's seconds: until the operations are done, with their waits for LAG and devices."""


def hooks(role: str) -> Hooks:
    """For the role "sriov" or "vf_lag"."""

    def arm(host: Host, fabric: Fabric, seconds: int, desired: Desired) -> Dict[str, Any]:
        work = WORK_S + 2 * desired.lag_timeout
        made = guard.arm(host, fabric, seconds + work, desired, purpose="nearmetal.rack.%s" % role)
        return dict(made, seconds=seconds)

    def finish(host: Host, armed: Dict[str, Any]) -> Dict[str, Any]:
        return guard.prolong(host, armed["token"], armed["seconds"])

    def keep(host: Host, desired: Desired, check: bool) -> Mapping[str, Optional[str]]:
        fabric = look(host)
        want = persist.wanted(role, desired, fabric)
        if not check:
            persist.write(host, want, fabric["managers"]["renderer"])
            if want and not want.absent and want.last:
                persist.start(host)
        return persist.shown(want)

    return Hooks(arm=arm, finish=finish, undo=undo, persist=keep)


def undo(host: Host) -> str:
    """The network as it was before; in words, what became of it. The timer stays where that fails: it tries again."""
    try:
        guard.restore(host, "the change failed")
    except HostError as err:
        return "The former network could not be restored whole: %s" % err.reason
    return "The former network was restored"
