# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program: fabric.pyz early | late | restore [FILE] | confirm TOKEN | drop | status | enslave BOND.

early, late: run by the units at boot. restore, confirm: the network guard. enslave: ports of a bond by their PCI
address, for ifupdown. `--root DIR` in front works on a tree.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Iterator, List, Sequence

from ..fabric.doer import DEVICES, NET, Doer
from ..fabric.shapes import FabricError
from ..host import Host, HostError, tree
from . import bootrun, guard, units
from .guardnote import NOTE, guard_state, read_note
from .look import boot_id

TOO_LATE = 3
"""Exit status of `confirm` where there is nothing to confirm any more."""
LOCK_TRIES = 5


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 done, 1 failed, 3 too late to confirm, 64 bad usage."""
    words = list(argv)
    root = "/"
    if words[:1] == ["--root"] and len(words) > 1:
        root, words = words[1], words[2:]
    usage = {"early": 0, "late": 0, "restore": 1, "confirm": 1, "drop": 0, "status": 0, "enslave": 1}
    if not words or words[0] not in usage or len(words) - 1 > usage[words[0]] or words[0] in ("confirm", "enslave") and len(words) < 2:
        say((__doc__ or "").split("\n", maxsplit=1)[0])
        return 64
    try:
        return _run(tree(root), words)
    except (HostError, FabricError) as err:
        say("FAILED: %s" % err)
        return 1


def say(text: str) -> None:
    """To the journal, or to whom asked."""
    sys.stderr.write("nearmetal: %s\n" % text)
    sys.stderr.flush()


def _run(host: Host, words: List[str]) -> int:
    command = words[0]
    if command in ("early", "late"):
        return bootrun.run(host, command, say)
    if command == "enslave":
        return _enslave(host, words[1])
    if command == "status":
        return _status(host)
    with _lock(host, insist=command == "restore"):
        if command == "confirm":
            return _confirm(host, words[1])
        if command == "drop":
            say("the network stays as it is" if guard.drop(host) else "there is no guard")
            return 0
        why = "nobody confirmed the change in time"
        there = guard.restore(host, why, Doer(host, say), words[1] if len(words) > 1 else NOTE)
        say("the former network is back" if there else "there is no guard: nothing to restore")
        return 0


@contextlib.contextmanager
def _lock(host: Host, insist: bool) -> Iterator[None]:
    """The host's lock. insist: after some minutes without it, too: a module that hangs must not keep the host cut off."""
    with contextlib.ExitStack() as stack:
        for at in range(LOCK_TRIES):
            try:
                stack.enter_context(host.lock())
                break
            except HostError as err:
                if not insist:
                    raise
                say("%s (%d of %d)" % (err, at + 1, LOCK_TRIES))
        yield


def _confirm(host: Host, token: str) -> int:
    try:
        guard.confirm(host, token)
    except guard.Confirmed as err:
        say(str(err))
        return TOO_LATE
    say("confirmed")
    return 0


def _status(host: Host) -> int:
    note = read_note(host)
    shown = {
        "guard": guard_state(note, guard.timer_runs(host), boot_id(host)) if note is not None else None,
        "boot": json.loads(host.get(units.STATUS) or "{}"),
    }
    sys.stdout.write(json.dumps(shown, indent=1, sort_keys=True) + "\n")
    return 0


def _enslave(host: Host, name: str) -> int:
    """Put the PFs of a bond into it; those that are in it stay as they are."""
    desired = bootrun.wish(host)
    bond = next((b for b in (desired.bonds if desired else ()) if b.name == name), None)
    if bond is None:
        say("%s is no bond of nearmetal" % name)
        return 1
    doer = Doer(host, say)
    for address in bond.pfs:
        if not host.exists(DEVICES + address):
            say("%s: there is no PF %s" % (name, address))
            continue
        device = doer.device(address)
        if not host.exists("%s%s/lower_%s" % (NET, name, device)):
            for words in ((device, "down"), (device, "master", name), (device, "up")):
                doer.run("ip", "link", "set", *words)
    return 0
