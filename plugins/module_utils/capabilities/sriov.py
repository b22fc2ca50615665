# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SR-IOV: VFs of PFs, their drivers and settings. PFs of a LAG are carried out by vf_lag, in one ordered list."""

from __future__ import annotations

from typing import Any, List, Mapping, Tuple

from .. import cmdline as line
from ..fabric import decide as fabric
from ..fabric import intent
from ..model import Call, CmdlineRequest, Decision, Problem
from ..observe import fabric as observer
from ..state import State

AFTER: Tuple[str, ...] = ("iommu", "nic_firmware")
READS = ("vf_lag", "nic_firmware", "iommu", "bios")
OWNED: Tuple[str, ...] = ()
COMMANDS = observer.COMMANDS

MODULE = "nearmetal.rack.sriov"
REALLOC = "realloc"


def problems(options: Mapping[str, Any]) -> List[Problem]:
    """Cross-field checks, no host needed."""
    return intent.problems(options, None)


def cmdline(options: Mapping[str, Any], state: State) -> CmdlineRequest:
    """`pci=realloc`, only where asked: the kernel then makes room for VFs that the firmware left none for.

    Documentation/admin-guide/kernel-parameters, pci=. Other flags of pci= stay.
    """
    if not options.get("pci_realloc"):
        return CmdlineRequest()
    configured = state["boot"]["configured"]
    words = line.of_groups(line.parse(configured if configured is not None else state["kernel"]["cmdline"] or ""), ("pci",))
    have = [word.raw for word in words]
    flags = [flag for word in words for flag in (word.value or "").split(",")]
    if REALLOC in flags or "realloc=on" in flags:
        return CmdlineRequest()
    return CmdlineRequest((*have, "pci=" + REALLOC), (), "sriov_pci_realloc is set")


def decide(options: Mapping[str, Any], state: State) -> Decision:
    """Steps of the PFs that are in no LAG."""
    return decided("sriov", MODULE, {"sriov": options, **{name: options.get(name) for name in READS}}, state)


def decided(capability: str, module: str, options: Mapping[str, Any], state: State) -> Decision:
    """A decision from the fabric's own (also for vf_lag)."""
    if not state["live"]:
        return Decision(warnings=("VFs and bonds are not looked at in a tree",))
    if "fabric" not in state:
        return Decision(warnings=(fabric.NOT_OBSERVED,))
    choice = fabric.choose(capability, options, state)
    call = None
    if choice.steps and not choice.problems:
        call = Call(module, dict(fabric.call_arguments(capability, options, state)))
    return Decision(tuple(choice.steps), call, tuple(choice.problems), tuple(choice.warnings))
