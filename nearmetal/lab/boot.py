"""Bringing a node to the state in which it answers: from a snapshot in seconds, else by a cold boot."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from ..errors import NearmetalError
from .node import Node, NotBooted

FACTORY = "factory"


@dataclass(frozen=True)
class Limits:
    """Seconds. A cold boot takes about a minute under TCG on an idle machine, several on a busy one."""

    boot: float = 480
    stall: float = 120
    load: float = 180
    settle: float = 240


def bring_up(node: Node, image: Path, fingerprint: str, limits: Limits) -> None:
    """Make sure that the node runs and answers; a node that does already is left as it is."""
    if node.running() and FACTORY in node.state.snapshots:
        node.say("is running")
        return
    node.stop()
    if node.state.fingerprint == fingerprint and FACTORY in node.state.snapshots and node.files.disk.exists():
        try:
            load(node, FACTORY, limits)
            return
        except NearmetalError as err:
            node.say(f"cannot go on from its snapshot, booting anew: {err.message}")
            node.stop()
    first_boot(node, image, limits)
    node.state.fingerprint = fingerprint
    node.snapshot(FACTORY)
    node.say(f"snapshot {FACTORY} kept")


def first_boot(node: Node, image: Path, limits: Limits) -> None:
    """Boot from an empty overlay, once more if it hangs: under TCG about one in ten does, early on."""
    for attempt in (1, 2):
        node.new_disk(image)
        began = time.monotonic()
        node.say(f"cold boot ({node.hardware.accel}{', about a minute' if node.hardware.accel == 'tcg' else ''})")
        node.start()
        try:
            node.wait_ready(limits.boot, limits.stall)
            settle(node, limits)
        except NotBooted as err:
            node.stop()
            if attempt == 2:
                raise
            node.say(f"trying once more: {err.message}")
        else:
            node.say(f"up after {time.monotonic() - began:.0f} s")
            return


def settle(node: Node, limits: Limits) -> None:
    """Wait until the node's start-up jobs are done, so that the snapshot is of a quiet system."""
    try:
        said = node.run("systemctl is-system-running --wait; systemctl --failed --plain --no-legend", limits.settle)
    except subprocess.TimeoutExpired:
        raise NotBooted(f"{node.name} does not finish its start-up jobs in {limits.settle:.0f} s") from None
    state, *failed = said.stdout.splitlines()[:4] or ["?"]
    if state != "running":
        node.say(f"start-up ended {state}: {'; '.join(failed)}")


def load(node: Node, tag: str, limits: Limits) -> None:
    """Go on from a snapshot, in a new QEMU process (one with VFs cannot load a snapshot made without)."""
    if tag not in node.state.snapshots:
        known = ", ".join(node.state.snapshots) or "none"
        raise NearmetalError(f"{node.name} has no snapshot {tag!r}; it has: {known}")
    node.stop()
    node.restore_bios(tag)
    began = time.monotonic()
    node.start(tag)
    node.wait_ready(limits.load, limits.load)
    node.say(f"back at snapshot {tag} after {time.monotonic() - began:.1f} s")
