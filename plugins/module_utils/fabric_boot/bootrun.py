# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the two units run: the early operations before the network, the rest after it, and a status that others can read."""

from __future__ import annotations

import json
import time
from typing import Any, Callable, Dict, List, Optional

from ..fabric.apply import execute
from ..fabric.doer import Doer
from ..fabric.explain import lag_faults
from ..fabric.plan import LAG_TYPE, plan
from ..fabric.shapes import EARLY, EXTERNAL, LATE, PLAIN, Desired, DesiredBond, FabricError, Op
from ..host import Host, HostError, Missing
from ..state import Fabric
from . import bootfile, guard, units
from .bondview import IFUPDOWN, OUTSIDE
from .look import boot_id, look

ROUNDS = 5
PF_WAIT = 60
"""Seconds for the PFs' drivers to come up: cards load firmware first."""
MADE_BY_OWNER = frozenset(("bond_add", "bond_del", "enslave", "release", "release_dev"))
"""What makes a bond what it is: where a network manager owns it, that one does it."""

Say = Callable[[str], None]


class Stopped(Exception):
    """The fabric is not as wanted; the text says why and what to do."""


def run(host: Host, phase: str, say: Say, doer: Optional[Doer] = None) -> int:
    """Exit status of `fabric.pyz early|late`: 0, or 1 with the reason said and noted."""
    doer = doer or Doer(host, say)
    done: List[str] = []
    try:
        if phase == EARLY:
            restored = guard.after_restart(host)
            if restored:
                say(restored)
                done.append(restored)
        desired = wish(host)
        if desired is None:
            say("nothing is wanted at boot")
        elif phase == EARLY:
            done += early(host, desired, doer)
        else:
            done += late(host, desired, doer)
        _status(host, phase, "ok", done, "")
    except (Stopped, HostError, FabricError) as err:
        text = _explained(host, phase, str(err))
        say("FAILED: " + text)
        _status(host, phase, "failed", done, text)
        return 1
    if phase == LATE:
        host.write(units.READY, "%s\n" % boot_id(host), backup=False)
    return 0


def wish(host: Host) -> Optional[Desired]:
    """What is wanted at boot; None where nothing is."""
    try:
        text = host.read(bootfile.PATH)
    except Missing:
        return None
    return bootfile.merged(bootfile.parse(text))


def early(host: Host, desired: Desired, doer: Doer) -> List[str]:
    """VFs, eswitch modes, and whatever needs no bond."""
    doer.settle()
    _wait_for_pfs(host, desired, doer)
    return _until_done(host, desired, doer, lambda ops: [op for op in ops if op.phase == EARLY])


def _wait_for_pfs(host: Host, desired: Desired, doer: Doer) -> None:
    def missing() -> List[str]:
        there = {pf["address"]: pf for pf in look(host)["pfs"]}
        return [a for a in _addresses(desired) if a not in there or not there[a]["netdev"]]

    doer.until(lambda: not missing(), PF_WAIT)
    left = missing()
    if left:
        raise Stopped("%s: no such PF, or its driver did not bring up a network device in %d s. Was the card moved or taken "
                      "out? Apply again with the card's new address" % (", ".join(left), PF_WAIT))  # fmt: skip


def _addresses(desired: Desired) -> List[str]:
    return sorted({pf.address for pf in desired.pfs} | {a for bond in desired.bonds for a in bond.pfs})


def late(host: Host, desired: Desired, doer: Doer) -> List[str]:
    """The bond is there: gate on the LAG, drivers of the VFs, forwarding."""
    host.remove(units.READY, backup=False)
    _wait_for_bonds(host, desired, doer)

    def ours(ops: List[Op]) -> List[Op]:
        before = [op for op in ops if op.phase == EARLY]
        if before:
            raise Stopped("what has to be done before the network is missing: %s. See the journal of %s, and start it again" % (
                "; ".join(op.text for op in before[:3]), units.EARLY))  # fmt: skip
        owned = _owners_work(desired, ops)
        if owned:
            raise Stopped(owned)
        return [op for op in ops if op.phase == LATE]

    return _until_done(host, desired, doer, ours)


def _wait_for_bonds(host: Host, desired: Desired, doer: Doer) -> None:
    """The manager may still be at it when network-online.target is reached: that only means that one way is up."""
    if any(_by_manager(bond) for bond in desired.bonds):
        doer.until(lambda: not _owners_work(desired, plan(desired, look(host))), desired.lag_timeout)


def _by_manager(bond: DesiredBond) -> bool:
    """Ifupdown only makes the bond: its ports are our business, as it knows them by names alone."""
    return bond.owner not in ("", IFUPDOWN)


def _owners_work(desired: Desired, ops: List[Op]) -> str:
    """What a bond's owner has not done; "" where all is done."""
    said = []
    for bond in desired.bonds:
        mine = [op for op in ops if op.kind in MADE_BY_OWNER and (op.target in (bond.name, *bond.pfs) or op.value == bond.name)]
        if mine and _by_manager(bond):
            who = "its owner" if bond.owner in (OUTSIDE, EXTERNAL) else bond.owner
            said.append("%s has not made %s as wanted (%s): see its log" % (who, bond.name, "; ".join(op.text for op in mine)))
    return ". ".join(said)


def _until_done(host: Host, desired: Desired, doer: Doer, chosen: Callable[[List[Op]], List[Op]]) -> List[str]:
    done: List[str] = []
    former: List[Any] = []
    for _round in range(ROUNDS):
        ops = chosen(plan(desired, look(host)))
        essence = [(op.kind, op.target, op.value) for op in ops]
        if not ops:
            return done
        if essence == former:
            raise Stopped("was done and read back, and is still to be done: %s" % "; ".join(op.text for op in ops[:3]))
        execute(host, ops, doer=doer)
        done += [op.text for op in ops]
        former = essence
    raise Stopped("no end after %d rounds: something else changes it, too" % ROUNDS)


def _explained(host: Host, phase: str, text: str) -> str:
    """With why a LAG is not what it should be, as far as it shows."""
    if phase != LATE:
        return text
    try:
        desired = wish(host)
        fabric = look(host)
    except (HostError, FabricError):
        return text
    found = [fault for bond in (desired.bonds if desired else ()) for fault in _faults(bond, fabric)]
    return text + (". Now: " + "; ".join(found) if found else "")


def _faults(bond: DesiredBond, fabric: Fabric) -> List[str]:
    pfs = [pf for pf in fabric["pfs"] if pf["address"] in bond.pfs]
    return lag_faults(pfs, LAG_TYPE[bond.kind]) if bond.kind != PLAIN and pfs else []


def _status(host: Host, phase: str, state: str, done: List[str], error: str) -> None:
    """Others read /run/nearmetal/fabric-status.json; it must never be half of one."""
    now: Dict[str, Any] = {}
    try:
        now = json.loads(host.get(units.STATUS) or "{}")
    except ValueError:
        now = {}
    boot = boot_id(host)
    if not isinstance(now, dict) or now.get("boot_id") != boot:
        now = {"boot_id": boot}
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    now[phase] = {"state": state, "at": at, "done": done, "error": error}
    host.write(units.STATUS, json.dumps(now, indent=1, sort_keys=True) + "\n", backup=False)
