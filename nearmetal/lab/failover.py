"""What a cut cable costs: packets are sent from one node to another while links are cut and restored.

Request and reply both cross the wire, so a reply that comes proves both directions. On the virtual rack a
cut is QEMU's `set_link`: the card loses its carrier as with a real cable. Speeds of emulated hardware mean
nothing; that traffic goes on, and after how long, does.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nearmetal.errors import NearmetalError
from nearmetal.paths import state_dir

from .rack import Rack

PORT = 7907
INTERVAL_S = 0.01
SETTLE_S = 3.0
"""Undisturbed time before the first cut, and after each change."""

ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    data, sender = s.recvfrom(64)
    try:
        s.sendto(data, sender)
    except OSError:
        pass
"""

SEND = """
import json, select, socket, sys, time
to, port, seconds, interval = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setblocking(False)
print("start", flush=True)
zero = time.monotonic()
sent, back, now = [], {}, 0.0
while now < seconds + 1:
    if now < seconds and now >= len(sent) * interval:
        try:
            s.sendto(b"%d" % len(sent), (to, port))
        except OSError:
            pass
        sent.append(round(now, 4))
    if select.select([s], [], [], interval / 4)[0]:
        try:
            back[int(s.recv(64))] = round(time.monotonic() - zero, 4)
        except OSError:
            pass
    now = time.monotonic() - zero
print(json.dumps({"sent": sent, "back": [back.get(n) for n in range(len(sent))]}))
"""


@dataclass(frozen=True)
class Change:
    """A link that was cut or restored, so many seconds after the first packet."""

    at: float
    node: str
    card: str
    up: bool


@dataclass(frozen=True)
class Effect:
    """What happened from one change to the next.

    lost: packets sent in that time without a reply. outage_ms: from the first of them to the next packet
    that was answered; None where none was answered any more.
    """

    change: Change
    sent: int
    lost: int
    outage_ms: float | None


def effects(sent: Sequence[float], back: Sequence[float | None], changes: Sequence[Change]) -> list[Effect]:
    """Pure: attribute each packet to the last change before it was sent. Times in seconds, packets in order."""
    found = []
    for n, change in enumerate(changes):
        end = changes[n + 1].at if n + 1 < len(changes) else float("inf")
        mine = [i for i, t in enumerate(sent) if change.at <= t < end]
        lost = [i for i in mine if back[i] is None]
        outage: float | None = 0.0
        if lost:
            after = next((sent[i] for i in range(lost[-1] + 1, len(sent)) if back[i] is not None), None)
            outage = None if after is None else round((after - sent[lost[0]]) * 1000, 1)
        found.append(Effect(change, len(mine), len(lost), outage))
    return found


def keep(result: dict[str, Any], label: str, stand_in: str = "") -> Path:
    """Leave a result for the report: state_dir()/failover/TIME.json. stand_in: what it stands for, and is not."""
    folder = state_dir() / "failover"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%S.%fZ}.json"
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps({**result, "label": label, "stand_in": stand_in}, indent=1))
    draft.replace(path)
    return path


def measure(
    rack: Rack, sender: str, receiver: str, address: str, cards: Sequence[str], within: Sequence[str] = ()
) -> dict[str, Any]:
    """Cut and restore each card of the sender in turn, and say what it cost; a plain document.

    within: words before what is run on the nodes, such as those that enter a network namespace. Raises NearmetalError
    where nothing is answered even before the first cut.
    """
    seconds = SETTLE_S * (2 * len(cards) + 1)
    with _echo(rack, receiver, address, within):
        words = [*within, "python3", "-c", SEND, address, str(PORT), str(seconds), str(INTERVAL_S)]
        child = subprocess.Popen(rack.ssh_argv(sender, [shlex.join(words)]), stdin=subprocess.DEVNULL, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        try:
            changes = _cut_in_turn(rack, sender, cards, child)
            out, err = child.communicate(timeout=seconds + 60)
        finally:
            child.kill()
            child.wait()
            for card in cards:
                with contextlib.suppress(NearmetalError):
                    rack.node(sender).monitor(f"set_link {card} on")
    if child.returncode != 0:
        raise NearmetalError(f"sending from {sender} failed: {err.strip()[-300:]}")
    data = json.loads(out.splitlines()[-1])
    quiet = [b for t, b in zip(data["sent"], data["back"], strict=True) if t < changes[0].at]
    if not any(b is not None for b in quiet):
        raise NearmetalError(f"{address} on {receiver} does not answer {sender} even with all links up: is the bond there?")
    return document(sender, receiver, address, data, changes)


def document(
    sender: str, receiver: str, address: str, data: dict[str, Any], changes: Sequence[Change]
) -> dict[str, Any]:
    """The result as it is kept and shown: {schema, sender, receiver, address, interval_ms, sent, lost, effects}."""
    found = effects(data["sent"], data["back"], changes)
    return {
        "schema": 1, "sender": sender, "receiver": receiver, "address": address, "interval_ms": INTERVAL_S * 1000,
        "sent": len(data["sent"]), "lost": sum(1 for b in data["back"] if b is None),
        "effects": [asdict(effect) for effect in found],
    }  # fmt: skip


def _cut_in_turn(rack: Rack, node: str, cards: Sequence[str], child: subprocess.Popen[str]) -> list[Change]:
    if child.stdout is None or child.stdout.readline().strip() != "start":
        raise NearmetalError(f"the sender on {node} did not start: {child.communicate()[1].strip()[-300:]}")
    zero = time.monotonic()
    changes: list[Change] = []
    for card in cards:
        for up in (False, True):
            time.sleep(max(0.0, zero + SETTLE_S * (len(changes) + 1) - time.monotonic()))
            rack.node(node).monitor(f"set_link {card} {'on' if up else 'off'}")
            changes.append(Change(round(time.monotonic() - zero, 3), node, card, up))
    return changes


@contextlib.contextmanager
def _echo(rack: Rack, node: str, address: str, within: Sequence[str]) -> Iterator[None]:
    """Answer packets on a node for the while."""
    words = shlex.join([*within, "python3", "-c", ECHO, address, str(PORT)])
    child = subprocess.Popen(rack.ssh_argv(node, [f"timeout 120 {words}"]), stdin=subprocess.DEVNULL, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    try:
        if child.stdout is None or child.stdout.readline().strip() != "ready":
            raise NearmetalError(f"{node} cannot answer on {address}: {child.communicate()[1].strip()[-300:]}")
        yield
    finally:
        rack.node(node).run(f"pkill -f 'recvfrom.64' ; pkill -f '{address} {PORT}'; true")
        child.kill()
        child.wait()
