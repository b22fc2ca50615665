# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the capabilities sriov and vf_lag decide, and what their modules do, from the same intent. Pure."""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Optional, Tuple

from ..fabric_boot import persist
from ..model import REBOOT, Problem, Step
from ..state import State
from . import host_checks, words
from .intent import BONDS, build, part
from .intent_checks import PFS, Options
from .plan import plan
from .shapes import Desired, Op
from .steps import steps

NOT_OBSERVED = "the fabric of this host was not observed"


class Choice(NamedTuple):
    """desired: the part that is carried out. waiting: only after the reboot that brings firmware settings or the IOMMU into force."""

    desired: Desired
    ops: List[Op]
    steps: List[Step]
    problems: List[Problem]
    warnings: List[str]
    waiting: bool


def choose(capability: str, options: Mapping[str, Optional[Options]], state: State) -> Choice:
    """options: of sriov, vf_lag, nic_firmware, iommu and bios, None where they are not managed. capability: "sriov" or "vf_lag"."""
    lag = capability == "vf_lag"
    fabric = state["fabric"]
    sriov = options.get("sriov")
    built = build(sriov, options.get("vf_lag"), fabric)
    mine = part(built.desired, lag)
    if built.problems:
        variable = BONDS if lag else PFS
        # A PF that cannot be found is told once, by the role whose variable names it.
        own = [p for p in built.problems if p.variable == variable] if sriov and options.get("vf_lag") else built.problems
        return Choice(mine, [], [], own, [], False)
    checked = host_checks.check(built, mine, options, state)
    ops = plan(mine, fabric)
    variable = BONDS if lag else PFS
    found = checked.problems + host_checks.owners(fabric, ops, variable)
    if not found and not checked.waiting:
        found = host_checks.management(mine, fabric, ops, (sriov or {}).get("accept_management") or ())
    waiting = bool(checked.waiting and ops)
    requires: Tuple[str, ...] = (REBOOT,) if waiting else ()
    boot = persist.wanted(capability, mine, fabric)
    found = found or boot.problems
    if lag or options.get("vf_lag") is None:
        found = found + host_checks.guard(fabric, ops)
    made = steps(capability, mine, fabric, ops, requires) if not found else []
    if not found and not waiting:
        made += persist.steps(capability, boot)
    return Choice(mine, ops, made, found, _warnings(mine, ops, state), waiting)


def _warnings(mine: Desired, ops: List[Op], state: State) -> List[str]:
    said: List[str] = []
    if any(op.kind == "ovs_offload" for op in ops):
        said.append("Open vSwitch takes hw-offload up when it is started: restart it where it was running before")
    for bond in mine.bonds:
        if bond.forwarding.type == "none" and not bond.absent and bond.kind != "plain":
            said.append("%s: nobody forwards for the VFs in switchdev mode (forwarding: none): they pass no traffic" % bond.name)
    fabric = state["fabric"]
    wanted = {(pf.address, vf.index): vf.mac for pf in mine.pfs for vf in pf.vf if vf.mac}
    for pf in fabric["pfs"]:
        for one in pf["vfs"]:
            mac = wanted.get((pf["address"], one["index"]))
            if mac and mac != one["mac"] and (one["in_use"] or "").startswith(words.GUESTS):
                said.append("VF %d of %s: %s sees its new MAC when it is started again" % (one["index"], pf["address"], one["in_use"]))
    return said


def call_arguments(capability: str, options: Mapping[str, Any], state: State) -> Mapping[str, Any]:
    """The module's options: the entries that it is to carry out, PFs by address."""
    lag = capability == "vf_lag"
    built = build(options.get("sriov"), options.get("vf_lag"), state["fabric"])
    mine = {pf.address for pf in part(built.desired, lag).pfs}
    sriov: Mapping[str, Any] = options.get("sriov") or {}
    own: Mapping[str, Any] = options.get(capability) or {}
    pfs = [dict(_bare(entry), pf={"address": a}) for a, entry in sorted(built.entries.items()) if a in mine]
    found = {"pfs": pfs, "accept_management": list(sriov.get("accept_management") or ()), "guard": own.get("guard", 0)}
    if lag:
        bonds = {bond.name: bond.pfs for bond in built.desired.bonds}
        found["bonds"] = [
            dict(_bare(b), pfs=[{"address": a} for a in bonds[b["name"]]]) for b in own["bonds"] if b["name"] in bonds
        ]
        found["timeout"] = own.get("timeout") or 60
    return found


def _bare(entry: Any) -> Any:
    """The same without what is not set."""
    if isinstance(entry, Mapping):
        return {key: _bare(value) for key, value in entry.items() if value is not None}
    return [_bare(item) for item in entry] if isinstance(entry, (list, tuple)) else entry
