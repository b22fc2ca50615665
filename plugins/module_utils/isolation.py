# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carrying out CPU isolation on one host: files, systemd, interrupts, and reading all of it back."""

from __future__ import annotations

import time
from typing import List, Sequence, Set, cast

from . import irq, slices
from .capabilities import cpu_isolation as capability
from .capabilities.cpu_isolation import Desired
from .host import Host, HostError
from .model import Step
from .observe.confinement import observe_confinement
from .observe.reader import Reader
from .state import State

PATIENCE_S = 10.0
"""systemd moves running processes after it has answered."""


def apply(host: Host, want: Desired, state: State) -> State:
    """Bring the host there; the state as read back. Raises HostError where it does not get there."""
    changed = capability.differing(want, state)
    keys = {step.key for step in capability.runtime_steps(want, state)}
    if host.live and not want.present and host.exists(irq.SCRIPT):
        _run(host, ["/bin/sh", irq.SCRIPT, "release"])
        host.run(["systemctl", "stop", irq.SERVICE])
    for path, text in changed.items():
        if text is None:
            host.remove(path)
        else:
            host.write(path, text)
    if host.live:
        _systemd(host, want, set(changed), keys, state)
    return _read_back(host, want, state)


def _systemd(host: Host, want: Desired, changed: Set[str], keys: Set[str], state: State) -> None:
    if changed or "slices" in keys:
        _run(host, ["systemctl", "daemon-reload"])
    if not want.present:
        _unconfine(host, state["cpu"]["online"])
    if changed & set(irq.BALANCE_FILES) and state["confinement"]["irqbalance"] == "active":
        _run(host, ["systemctl", "try-restart", "irqbalance.service"])
    if want.present and "irq-affinity" in keys:
        _run(host, ["systemctl", "restart", irq.SERVICE])


def _unconfine(host: Host, online: str) -> None:
    """Free what systemd leaves as it was, because another unit keeps the cpuset controller on.

    All CPUs, not none: the kernel refuses to empty the cpuset of a group that has processes.
    """
    for unit in slices.UNITS:
        path = "/sys/fs/cgroup/%s/cpuset.cpus" % unit
        if host.get(path) and not host.run(["systemctl", "show", "-p", "AllowedCPUs", "--value", unit]).stdout.strip():
            host.poke(path, online)


def _run(host: Host, argv: Sequence[str]) -> None:
    done = host.run(argv)
    if done.rc:
        why = done.stderr.strip() or done.stdout.strip() or "exit status %d" % done.rc
        raise HostError(" ".join(argv), why)


def _read_back(host: Host, want: Desired, state: State) -> State:
    end = time.monotonic() + PATIENCE_S
    while True:
        files = [*capability.FILES, irq.UNMOVABLE]
        seen = cast(State, {**state, "confinement": observe_confinement(Reader(host), files)})
        left = capability.runtime_steps(want, seen)
        if not left:
            return seen
        if not host.live or time.monotonic() > end:
            raise HostError("cpu_isolation", _not_there(left))
        time.sleep(0.2)


def _not_there(left: List[Step]) -> str:
    hints = {
        "slices": "another setting wins: see `systemctl cat %s`" % " ".join(slices.UNITS),
        "irq-affinity": "see `systemctl status %s`" % irq.SERVICE,
    }
    return "; ".join(
        "%s is still %r, not %s (%s)" % (s.key, s.before, s.after, hints.get(s.key, s.verify)) for s in left
    )
