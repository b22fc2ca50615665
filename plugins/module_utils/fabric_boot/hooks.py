# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules sriov and vf_lag do around their operations: guard before, boot configuration after."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from ..fabric.shapes import Desired
from ..host import Host
from ..state import Fabric
from . import guard, persist
from . import main as program_main  # noqa: F401  so that every module carries what the program is built from
from .look import look


def arm(role: str, host: Host, fabric: Fabric, seconds: int, desired: Optional[Desired] = None) -> Dict[str, Any]:
    """Arm the guard; the module's result takes what it returns as `guard`, and the controller confirms."""
    return guard.arm(host, fabric, seconds, desired, purpose="nearmetal.rack.%s" % role)


def keep(role: str, host: Host, desired: Desired, check: bool) -> Mapping[str, Optional[str]]:
    """Bring it back at boot: {path: new text, None removed} of what differs; written unless check."""
    fabric = look(host)
    want = persist.wanted(role, desired, fabric)
    if not check:
        persist.write(host, want, fabric["managers"]["renderer"])
        if want and not want.absent:
            persist.start(host)
    return persist.shown(want)
