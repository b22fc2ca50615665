# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may run where: cpusets of the systemd slices, affinity of the interrupts, irqbalance."""

from __future__ import annotations

from typing import Dict, List, Optional

from .. import cpulist
from ..state import Confinement, Irq
from .reader import Reader, numbered

CGROUP = "/sys/fs/cgroup"
UNITS = ("init.scope", "system.slice", "user.slice", "machine.slice")
IRQ = "/proc/irq"
UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")


def observe_confinement(reader: Reader, files: List[str]) -> Confinement:
    """The `confinement` section. `files`: the paths that cpu_isolation and hugepages own."""
    cgroup = _cgroup(reader)
    if cgroup not in ("v2", "v2-no-cpuset"):
        reader.note("confinement.slices", "no cgroup v2 hierarchy at %s" % CGROUP)
    return {
        "cgroup": cgroup,
        "slices": {unit: _cpuset(reader, unit, "cpuset.cpus", cgroup.startswith("v2")) for unit in UNITS},
        "effective": {unit: _cpuset(reader, unit, "cpuset.cpus.effective", False) for unit in UNITS},
        "default_irq_affinity": _default_affinity(reader),
        "irqs": _irqs(reader),
        "irqbalance": _irqbalance(reader),
        "files": contents(reader, files),
    }


def contents(reader: Reader, paths: List[str]) -> Dict[str, str]:
    """Files exactly as they are; missing ones are left out, and so are unreadable ones, noted as unread."""
    found = {}
    for path in paths:
        if reader.text(path, "files") is not None:
            found[path] = reader.host.read(path)
    return found


def _cgroup(reader: Reader) -> str:
    """Which hierarchy has the cpusets: see state.py. A hybrid one has them in version 1."""
    controllers = reader.text(CGROUP + "/cgroup.controllers", "confinement.cgroup")
    if controllers is not None:
        return "v2" if "cpuset" in controllers.split() else "v2-no-cpuset"
    return "v1" if any(reader.exists(CGROUP + "/" + name) for name in ("cpuset", "systemd", "unified")) else ""


def _cpuset(reader: Reader, unit: str, name: str, absent_is_free: bool) -> Optional[str]:
    """A cpuset of a top-level unit; None where it is not known or not there.

    systemd turns the cpuset controller on only for units that ask for it, so on a host with cgroup v2
    a unit without `cpuset.cpus` is not confined: "".
    """
    path = "%s/%s/%s" % (CGROUP, unit, name)
    text = reader.text(path, "confinement.slices")
    if text is None:
        return "" if absent_is_free and not reader.exists(path) else None
    try:
        return cpulist.format(cpulist.parse(text)) if text else ""
    except ValueError as err:
        reader.note("confinement.slices", "%s: %s" % (path, err))
        return None


def _default_affinity(reader: Reader) -> Optional[str]:
    path = IRQ + "/default_smp_affinity"
    text = reader.text(path, "confinement.irqs")
    if text is None:
        reader.note("confinement.irqs", "%s is missing" % path)
        return None
    try:
        return cpulist.format(cpulist.parse_map(text))
    except ValueError as err:
        reader.note("confinement.irqs", "%s: %s" % (path, err))
        return None


def _irqs(reader: Reader) -> List[Irq]:
    """Every interrupt with its affinity; where one CPU is allowed, that is where it goes."""
    names = _irq_names(reader)
    irqs: List[Irq] = []
    for number in numbered(reader.names(IRQ, "confinement.irqs"), ""):
        base = "%s/%d" % (IRQ, number)
        affinity = reader.text(base + "/smp_affinity_list", "confinement.irqs")
        if affinity is None:
            continue
        effective = affinity
        if not affinity.isdecimal():
            effective = reader.text(base + "/effective_affinity_list", "confinement.irqs") or ""
        name = names[number] if number in names else _action(reader, base)
        irqs.append({"irq": number, "name": name, "affinity": affinity, "effective": effective})
    return irqs


def _action(reader: Reader, base: str) -> str:
    """An interrupt's folders are named after its handlers."""
    return ", ".join(n for n in reader.names(base, "confinement.irqs") if not n.startswith(_IRQ_FILES))


_IRQ_FILES = ("smp_affinity", "effective_affinity", "affinity_hint", "node", "spurious")


def _irq_names(reader: Reader) -> Dict[int, str]:
    """Names from /proc/interrupts: "24:  0 0 IR-PCI-MSI 1048576-edge  mlx5_comp0@pci:0000:17:00.0".

    The collector has taken the counts out; then the first line, which names the CPUs, is empty.
    """
    text = reader.text("/proc/interrupts", "confinement.irqs") or ""
    names: Dict[int, str] = {}
    lines = text.splitlines()
    cpus = len(lines[0].split()) if lines and lines[0].lstrip().startswith("CPU") else 0
    for line in lines:
        head, colon, rest = line.partition(":")
        if not colon or not head.strip().isdecimal():
            continue
        words = rest.split()[cpus:]
        names[int(head)] = _irq_name(words)
    return names


def _irq_name(words: List[str]) -> str:
    """The handlers' names: what follows the chip and the hardware number (with its trigger)."""
    for at, word in enumerate(words[:5]):
        if word.endswith(("-edge", "-level", "-fasteoi")) or word in ("Edge", "Level"):
            return " ".join(words[at + 1 :])
    return " ".join(words[2:])


def _irqbalance(reader: Reader) -> str:
    """Whether it is "active", "inactive" or "absent"; "" where the tree does not say.

    A service that runs has a cgroup, whatever the version of the hierarchy.
    """
    service = "system.slice/irqbalance.service"
    for base in (CGROUP, CGROUP + "/systemd", CGROUP + "/unified"):
        if reader.exists("%s/%s" % (base, service)):
            return "active"
    running = reader.exists(CGROUP + "/system.slice") or reader.exists(CGROUP + "/systemd/system.slice")
    if any(reader.exists(folder + "/irqbalance.service") for folder in UNIT_FOLDERS):
        return "inactive" if running else ""
    return "absent" if any(reader.exists(folder) for folder in UNIT_FOLDERS) else ""
