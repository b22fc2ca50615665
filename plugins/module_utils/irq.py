# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep interrupts on the host's CPUs: a boot-time unit, and a list of banned CPUs for irqbalance.

Why a unit and not `irqaffinity=` alone: the argument needs a reboot, and drivers that spread their
queues (affinity hints) undo it when they start. The unit runs after the network drivers have started;
interrupts that are requested later follow the default affinity, which it sets too.

A target's drop-in pulls the unit in, instead of a link made by `systemctl enable`: then everything is
plain files, the same on a running host, in an image and in a support archive.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Mapping, Set

from . import cpulist
from .state import Confinement, Irq

SCRIPT = "/etc/nearmetal/irq-affinity"
SERVICE = "nearmetal-irq-affinity.service"
UNIT = "/etc/systemd/system/" + SERVICE
WANTED = "/etc/systemd/system/multi-user.target.d/50-nearmetal-irq-affinity.conf"
STEER_FILES = (SCRIPT, UNIT, WANTED)

BALANCE_ENV = "/etc/nearmetal/irqbalance"
BALANCE_DROPIN = "/etc/systemd/system/irqbalance.service.d/50-nearmetal.conf"
BALANCE_FILES = (BALANCE_ENV, BALANCE_DROPIN)

UNMOVABLE = "/run/nearmetal/unmovable-irqs"
"""Interrupts that the kernel did not let go in this boot, one "NUMBER ACTIONS" per line."""

_HEAD = "# Written by nearmetal (role cpu_isolation); changes are lost.\n"

_SCRIPT = (
    "#!/bin/sh\n"
    + _HEAD
    + """\
# steer: interrupts go to the host's CPUs, near to their device where that is known.
# release: they may go anywhere again.
case ${1:-steer} in
steer) mask=%(mask)s all='' ;;
release) mask=%(all_mask)s; read -r all < /sys/devices/system/cpu/online ;;
*) echo "usage: $0 steer|release" >&2; exit 64 ;;
esac
mkdir -p /run/nearmetal
echo "$mask" > /proc/irq/default_smp_affinity || exit 1
for dir in /proc/irq/[0-9]*; do
  irq=${dir##*/}
  name='' node=-1
  { read -r name < "/sys/kernel/irq/$irq/actions"; read -r node < "$dir/node"; } 2> /dev/null
  [ -n "$name" ] || continue
  case $node in
%(cases)s  *) want=%(reserved)s ;;
  esac
  # The kernel keeps per-CPU and managed interrupts where they are.
  { echo "${all:-$want}" > "$dir/smp_affinity_list"; } 2> /dev/null || echo "$irq $name"
done > %(unmovable)s.new
mv %(unmovable)s.new %(unmovable)s
"""
)

_UNIT = (
    _HEAD
    + """\
[Unit]
Description=Steer interrupts to the CPUs that are reserved for the host
After=network.target irqbalance.service
ConditionPathExists=%(script)s

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh %(script)s steer
"""
)

_WANTED = _HEAD + "[Unit]\nWants=%s\n" % SERVICE

# A later EnvironmentFile= wins over the distribution's own (/etc/default or /etc/sysconfig).
_BALANCE_DROPIN = _HEAD + "[Service]\nEnvironmentFile=%s\n" % BALANCE_ENV

# irqbalance before 1.8 knows the mask only; newer ones take the list and say that the mask is discarded.
_BALANCE_ENV = _HEAD + "IRQBALANCE_BANNED_CPUS=%s\nIRQBALANCE_BANNED_CPULIST=%s\n"


def steer_files(
    reserved: FrozenSet[int], nodes: Mapping[int, FrozenSet[int]], present: FrozenSet[int]
) -> Dict[str, str]:
    """Script, unit and drop-in, path to content. nodes: CPUs of each NUMA node."""
    cases = ""
    for node, cpus in sorted(nodes.items()):
        local = cpus & reserved
        if local and local != reserved:
            cases += "  %d) want=%s ;;\n" % (node, cpulist.format(local))
    script = _SCRIPT % {
        "mask": cpulist.format_map(reserved),
        "all_mask": cpulist.format_map(present),
        "reserved": cpulist.format(reserved),
        "cases": cases,
        "unmovable": UNMOVABLE,
    }
    return {SCRIPT: script, UNIT: _UNIT % {"script": SCRIPT}, WANTED: _WANTED}


def balance_files(isolated: FrozenSet[int]) -> Dict[str, str]:
    """Settings of irqbalance, path to content."""
    env = _BALANCE_ENV % (cpulist.format_map(isolated), cpulist.format(isolated))
    return {BALANCE_ENV: env, BALANCE_DROPIN: _BALANCE_DROPIN}


def unmovable(confinement: Confinement) -> Set[int]:
    """Numbers of the interrupts that the kernel did not let go in this boot."""
    lines = confinement["files"].get(UNMOVABLE, "").splitlines()
    return {int(line.split()[0]) for line in lines if line.split()[:1] and line.split()[0].isdecimal()}


def astray(confinement: Confinement, reserved: FrozenSet[int]) -> List[Irq]:
    """Interrupts in use that arrive on other CPUs.

    What counts is where they arrive (effective affinity). One that may only go to reserved CPUs, but
    has not come since it was told so, is right too: some interrupt controllers move it only then.
    """
    inside: Dict[str, bool] = {}

    def on_reserved(text: str) -> bool:
        known = inside.get(text)
        if known is None:
            cpus = cpulist.parse(text)
            known = inside[text] = bool(cpus) and cpus <= reserved
        return known

    return [
        irq
        for irq in confinement["irqs"]
        if irq["name"] and not on_reserved(irq["affinity"]) and not on_reserved(irq["effective"])
    ]


def brief(irqs: List[Irq], most: int = 4) -> str:
    """A few of them by name: "24 nvme0q1, 25 nvme0q2 and 17 more"."""
    words = ["%d %s" % (irq["irq"], irq["name"]) for irq in irqs[:most]]
    return ", ".join(words) + (" and %d more" % (len(irqs) - most) if len(irqs) > most else "")
