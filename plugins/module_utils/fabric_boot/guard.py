# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network guard: a timer on the host that puts the former network back unless the controller says that it came back.

arm -> (changes) -> confirm over a new connection. Nobody confirms: the timer runs `fabric.pyz restore`. A restart while
it is armed takes the timer with it: then the early unit puts the former files back before any network is set up.
Callers hold the host's lock.
"""

from __future__ import annotations

import json
import secrets
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ..fabric.apply import converge, execute
from ..fabric.doer import Doer
from ..fabric.plan import plan
from ..fabric.restore import former
from ..fabric.shapes import Desired, FabricError, from_json, to_json
from ..host import Host, HostError
from ..state import Fabric
from . import links, persist, program, units
from .guardnote import NOTE, RESTORED, VERSION, guard_state, read_note, when
from .look import boot_id, look

UNIT = "nearmetal-guard"
TIMER = UNIT + ".timer"
WAYS_OUT = "Put the network back (python3 %s restore), or keep it as it is (nearmetal.rack.network_guard, state: absent)" % (
    program.PATH
)
LEAST_S = 10
TRIES, PAUSE_S = 3, 2.0
Clock = Callable[[], float]


class Confirmed(Exception):
    """Confirming came too late, or was not for this guard; the text says which."""


def arm(
    host: Host, fabric: Fabric, seconds: int, desired: Optional[Desired] = None, purpose: str = "", devices: Sequence[str] = (),
    clock: Clock = time.time,
) -> Dict[str, Any]:  # fmt: skip
    """Note the present state and start the timer; {"token", "seconds", "deadline"}.

    fabric: the present state. desired: what is about to be done; None: anything. devices: other network devices to
    put back. Raises HostError where a guard is already there, or the timer does not start: then nothing may be changed.
    """
    if seconds < LEAST_S:
        raise HostError(NOTE, "%d s are too short for a new connection: %d at least" % (seconds, LEAST_S))
    _refuse_second(host)
    persist.install_program(host)
    own = fabric["managers"]["own"]
    now = clock()
    note: Dict[str, Any] = {
        "version": VERSION, "token": secrets.token_hex(16), "state": "armed", "purpose": purpose, "armed_at": now,
        "deadline": now + seconds, "boot_id": boot_id(host), "former": json.loads(to_json(former(fabric, desired))),
        "links": links.snapshot(host, fabric, devices), "routes": links.routes(host),
        "files": {path: list(value) for path, value in persist.own_files(own).items()},
        "enabled": any(link in own for link in units.LINKS), "renderer": fabric["managers"]["renderer"], "error": "",
    }  # fmt: skip
    _keep(host, note)
    try:
        _start_timer(host, seconds)
    except HostError:
        host.remove(NOTE, backup=False)
        raise
    return {"token": note["token"], "seconds": seconds, "deadline": when(note["deadline"])}


def _keep(host: Host, note: Mapping[str, Any]) -> None:
    host.write(NOTE, json.dumps(note, indent=1, sort_keys=True) + "\n", mode=0o600, backup=False)


def _refuse_second(host: Host) -> None:
    note = read_note(host)
    if note is None:
        return
    state = guard_state(note, timer_runs(host), boot_id(host))
    words = " (%s)" % note["purpose"] if note.get("purpose") else ""
    if state["left"]:
        raise HostError(NOTE, "a guard of a former run is left over%s: %s. %s" % (words, state["left"], WAYS_OUT))
    raise HostError(NOTE, "another guard is armed%s until %s: wait for its run, or until it has restored the network" % (
        words, state["deadline"]))  # fmt: skip


def _start_timer(host: Host, seconds: int) -> None:
    argv = [
        "systemd-run", "--unit=" + UNIT, "--on-active=%d" % seconds, "--timer-property=AccuracySec=1s",
        *program.argv("restore", NOTE),
    ]  # fmt: skip
    said = host.run(argv)
    if said.rc != 0:
        # A timer or a failed service of the same name may be left from another run.
        for unit in (TIMER, UNIT + ".service"):
            host.run(["systemctl", "stop", unit])
            host.run(["systemctl", "reset-failed", unit])
        said = host.run(argv)
    if said.rc != 0:
        raise HostError("systemd-run", "the guard's timer does not start: %s" % " ".join((said.stderr or said.stdout).split()))


def prolong(host: Host, token: str, seconds: int, clock: Clock = time.time) -> Dict[str, Any]:
    """The guard's time starts anew; as `arm` returns it. Raises HostError where it is no longer armed."""
    note = read_note(host)
    if note is None or note["token"] != token or note["state"] != "armed":
        raise HostError(NOTE, "the guard is no longer armed: the network was restored meanwhile")
    note["deadline"] = clock() + seconds
    _keep(host, note)
    stop_timer(host)
    _start_timer(host, seconds)
    return {"token": token, "seconds": seconds, "deadline": when(note["deadline"])}


def timer_runs(host: Host) -> bool:
    """Whether the timer still runs."""
    try:
        return host.run(["systemctl", "is-active", TIMER]).stdout.strip() in ("active", "activating")
    except HostError:
        return False


def stop_timer(host: Host) -> None:
    """Whether or not it runs."""
    try:
        host.run(["systemctl", "stop", TIMER])
    except HostError:
        return


def confirm(host: Host, token: str) -> None:
    """The change stays. Raises Confirmed where it is too late, or the guard is another one."""
    note = read_note(host)
    if note is not None and note["token"] == token and note["state"] == "armed":
        stop_timer(host)
        host.remove(NOTE, backup=False)
        return
    if note is not None and note["token"] == token:
        raise Confirmed("the guard was not confirmed in time, and could not restore all: %s" % note["error"])
    done = _restored(host)
    if done and done.get("token") == token:
        raise Confirmed("the network was restored at %s: %s" % (when(done["at"]), done["why"]))
    raise Confirmed("there is no guard with this token" + (": another one is armed" if note is not None else ""))


def _restored(host: Host) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(host.get(RESTORED) or "{}")
    except ValueError:
        return {}
    return found


def drop(host: Host) -> bool:
    """Keep the network as it is, whoever armed the guard; whether there was one."""
    there = read_note(host) is not None
    if there or timer_runs(host):
        stop_timer(host)
        host.remove(NOTE, backup=False)
        return True
    return False


def restore(host: Host, why: str, doer: Optional[Doer] = None, path: str = NOTE, clock: Clock = time.time) -> bool:
    """Put the former state back; whether there was a guard. Raises HostError with all that could not be put back.

    One thing that fails does not keep the others from being tried: the way to the host matters most.
    """
    note = read_note(host, path)
    if note is None:
        return False
    failed: List[str] = []

    def tried(what: Callable[[], Any]) -> Any:
        try:
            return what()
        except (HostError, FabricError) as err:
            failed.append(str(err))
            return None

    wish: Optional[Desired] = tried(lambda: from_json(json.dumps(note["former"])))
    # The owners first: one that still has a profile of a bond makes it again as soon as it is taken away. But before
    # that the VFs are unbound: a LAG that ends with bound VFs does not come back.
    if wish is not None:
        tried(lambda: _unbind(host, wish, doer or Doer(host)))
    touched = tried(lambda: put_files_back(host, note)) or []
    tried(lambda: persist.load(host, touched, note.get("renderer") or ""))
    if wish is not None:
        tried(lambda: _fabric_back(host, wish, doer or Doer(host)))
    for _round in range(2):  # what a device loses when it goes down, such as IPv6 addresses, shows only afterwards
        tried(lambda: _links_back(host, note))
    tried(lambda: _check(host, wish, note))
    if failed:
        note.update(state="failed", error="; ".join(dict.fromkeys(failed)))
        _keep(host, note)
        raise HostError(NOTE, note["error"])
    host.write(RESTORED, json.dumps({"token": note["token"], "at": clock(), "why": why}) + "\n", mode=0o600, backup=False)
    stop_timer(host)
    host.remove(path, backup=False)
    return True


def _unbind(host: Host, wish: Desired, doer: Doer) -> None:
    execute(host, [op for op in plan(wish, look(host)) if op.kind == "unbind"], doer=doer)


def _fabric_back(host: Host, wish: Desired, doer: Doer) -> None:
    """By the planner. An owner that reads its files anew may be at the same devices for a moment: so more than once."""
    for left in range(TRIES - 1, -1, -1):
        try:
            converge(host, wish, look, doer)
            return
        except HostError:
            if not left:
                raise
            doer.sleep(PAUSE_S)


def put_files_back(host: Host, note: Mapping[str, Any]) -> List[str]:
    """Files and units as they were; the owners whose files that changed."""
    files = {str(path): (str(value[0]), int(value[1])) for path, value in note["files"].items()}
    return persist.put_back(host, files, look(host)["managers"]["own"], bool(note["enabled"]))


def _links_back(host: Host, note: Mapping[str, Any]) -> None:
    failed = []
    for argv in links.back(note["links"], links.current(host)):
        failed += _try(host, argv)
    for argv in links.lost_routes(note["routes"], links.routes(host)):
        failed += _try(host, argv)
    if failed and links.back(note["links"], links.current(host)):
        raise HostError("links", "; ".join(failed))


def _try(host: Host, argv: List[str]) -> List[str]:
    said = host.run(argv)
    return [] if said.rc == 0 else ["%s: %s" % (" ".join(argv), " ".join((said.stderr or said.stdout).split()))]


def _check(host: Host, wish: Optional[Desired], note: Mapping[str, Any]) -> None:
    """Read back: nothing of the former state may be missing."""
    left = [op.text for op in plan(wish, look(host))] if wish is not None else []
    left += [" ".join(argv) for argv in links.back(note["links"], links.current(host))]
    left += [" ".join(argv) for argv in links.lost_routes(note["routes"], links.routes(host))]
    if left:
        raise HostError("network", "still to be done: %s" % "; ".join(left[:6]))


def after_restart(host: Host, clock: Clock = time.time) -> str:
    """At boot, before the network: a guard that was armed in another boot puts its files back. What was done, or ""."""
    note = read_note(host)
    if note is None or note["state"] != "armed" or note["boot_id"] == boot_id(host):
        return ""
    touched = put_files_back(host, note)
    for argv in persist.generators(touched):
        host.run(argv)
    why = "the host was restarted while the guard was armed: the former files were put back before the network came up"
    host.write(RESTORED, json.dumps({"token": note["token"], "at": clock(), "why": why}) + "\n", mode=0o600, backup=False)
    host.remove(NOTE, backup=False)
    return why
