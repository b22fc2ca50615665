# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VF LAG: a bond of two ports of one card, offloaded, with the VFs below it and what forwards for them."""

from __future__ import annotations

from typing import Any, List, Mapping, Tuple

from ..fabric import intent
from ..fabric.intent_checks import BONDS, MOST_VFS
from ..model import CmdlineRequest, Decision, Problem
from ..observe import fabric as observer
from ..state import State
from .sriov import decided

AFTER: Tuple[str, ...] = ("sriov",)
READS = ("sriov", "nic_firmware", "iommu", "bios")
OWNED: Tuple[str, ...] = ()
COMMANDS = observer.COMMANDS

MODULE = "nearmetal.rack.vf_lag"


def problems(options: Mapping[str, Any]) -> List[Problem]:
    """Cross-field checks, no host needed."""
    found = intent.problems(None, options)
    firmware = options.get("nic_firmware") or {}
    count = str((firmware.get("settings") or {}).get("NUM_OF_VFS", ""))
    offloaded = [b["name"] for b in options["bonds"] if b.get("lag", True) and b.get("state") != "absent"]
    if offloaded and not firmware.get("cards") and count.isdecimal() and int(count) > MOST_VFS:
        text = "NUM_OF_VFS %s: with more than %d, counted by the firmware, the LAG of %s never becomes active" % (
            count, MOST_VFS, offloaded[0])  # fmt: skip
        found.append(Problem(BONDS, int(count), text, "set NUM_OF_VFS in nic_firmware_settings to %d or less" % MOST_VFS))
    return found


def cmdline(options: Mapping[str, Any], state: State) -> CmdlineRequest:
    """No kernel arguments."""
    return CmdlineRequest()


def decide(options: Mapping[str, Any], state: State) -> Decision:
    """Steps of the bonds and of their PFs."""
    return decided("vf_lag", MODULE, {"vf_lag": options, **{name: options.get(name) for name in READS}}, state)
