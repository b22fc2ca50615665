# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The libvirt domain of one benchmark guest. Pure."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Tuple

from . import cpulist
from .bench_scenarios import Side

PREFIX = "nearmetal-bench-"
"""Every domain of ours has a name that starts like this, so that leftovers are known as ours."""

CMDLINE = (
    "console=%s quiet loglevel=1 panic=-1 rootfstype=ramfs no_timer_check tsc=reliable nowatchdog "
    "rcupdate.rcu_cpu_stall_suppress=1 mitigations=off nokaslr"
)
"""A guest that only computes, and is paused while others run: nothing to defend, no watchdog to wonder
at the pauses, and any panic ends it at once. A root of type tmpfs would take an initramfs of at most
half the guest's memory."""

_CONSOLES = {"x86_64": "ttyS0", "aarch64": "ttyAMA0"}


@dataclass(frozen=True)
class Files:
    """What the guest boots from and speaks through, as paths on the host."""

    kernel: str
    initrd: str
    console: str  # UNIX socket of the first serial port


@dataclass(frozen=True)
class Guest:
    """The parts of a domain that the host decides and the scenario does not."""

    arch: str  # "x86_64", "aarch64"
    memory_mb: int  # all cells together; the same number of whole MiB in each
    hugepages_kb: int  # 0: ordinary pages
    machine: str  # "pc", "q35", "virt"
    topoext: bool  # AMD: without it the guest does not believe in threads


def console_device(arch: str) -> str:
    """The serial port's name inside the guest. Raises ValueError for an architecture without a guest."""
    if arch not in _CONSOLES:
        raise ValueError(
            "no benchmark guest for architecture %r; there are: %s" % (arch, ", ".join(_CONSOLES))
        )
    return _CONSOLES[arch]


def domain_name(scenario: str) -> str:
    """Name of a scenario's domain."""
    return PREFIX + scenario


def domain_xml(side: Side, guest: Guest, files: Files) -> str:
    """The whole domain, indented, to be given to `virsh create`."""
    console = console_device(guest.arch)
    top = ET.Element("domain", type="kvm")
    _text(top, "name", domain_name(side.name))
    _text(top, "memory", guest.memory_mb // len(side.cells) * len(side.cells), unit="MiB")
    if guest.hugepages_kb:
        pages = ET.SubElement(ET.SubElement(top, "memoryBacking"), "hugepages")
        ET.SubElement(pages, "page", size=str(guest.hugepages_kb), unit="KiB")
    _text(top, "vcpu", len(side.pins), placement="static")
    _placement(top, side)
    boot = ET.SubElement(top, "os")
    _text(boot, "type", "hvm", arch=guest.arch, machine=guest.machine)
    _text(boot, "kernel", files.kernel)
    _text(boot, "initrd", files.initrd)
    _text(boot, "cmdline", CMDLINE % console)
    _features(top, guest)
    _cpu(top, side, guest)
    for event in ("on_poweroff", "on_reboot", "on_crash"):
        _text(top, event, "destroy")
    _devices(top, files)
    ET.indent(top)
    return ET.tostring(top, encoding="unicode") + "\n"


def _text(parent: ET.Element, tag: str, value: object, **attributes: str) -> ET.Element:
    child = ET.SubElement(parent, tag, attributes)
    child.text = str(value)
    return child


def _placement(top: ET.Element, side: Side) -> None:
    tune = ET.SubElement(top, "cputune")
    for vcpu, cpu in enumerate(side.pins):
        ET.SubElement(tune, "vcpupin", vcpu=str(vcpu), cpuset=str(cpu))
    if side.emulator:
        ET.SubElement(tune, "emulatorpin", cpuset=cpulist.format(side.emulator))
    numa = ET.SubElement(top, "numatune")
    ET.SubElement(numa, "memory", mode="strict", nodeset=cpulist.format(side.nodes))
    for index, (_vcpus, node) in enumerate(side.cells):
        ET.SubElement(numa, "memnode", cellid=str(index), mode="strict", nodeset=str(node))


def _features(top: ET.Element, guest: Guest) -> None:
    features = ET.SubElement(top, "features")
    ET.SubElement(features, "acpi")
    if guest.arch == "x86_64":
        ET.SubElement(features, "apic")
        ET.SubElement(ET.SubElement(features, "kvm"), "hint-dedicated", state="on")


def _cpu(top: ET.Element, side: Side, guest: Guest) -> None:
    sockets, cores, threads = side.topology
    cpu = ET.SubElement(top, "cpu", mode="host-passthrough", check="none")
    ET.SubElement(cpu, "topology", sockets=str(sockets), cores=str(cores), threads=str(threads))
    if guest.arch == "x86_64":
        cpu.set("migratable", "off")
        ET.SubElement(cpu, "cache", mode="passthrough")
        if guest.topoext and threads > 1:
            ET.SubElement(cpu, "feature", policy="require", name="topoext")
    numa = ET.SubElement(cpu, "numa")
    for index, (vcpus, _node) in enumerate(side.cells):
        ET.SubElement(
            numa, "cell", id=str(index), cpus=cpulist.format(vcpus),
            memory=str(guest.memory_mb // len(side.cells)), unit="MiB",
        )  # fmt: skip


def _devices(top: ET.Element, files: Files) -> None:
    devices = ET.SubElement(top, "devices")
    ET.SubElement(devices, "controller", type="usb", model="none")
    ET.SubElement(devices, "memballoon", model="none")
    serial = ET.SubElement(devices, "serial", type="unix")
    ET.SubElement(serial, "source", mode="bind", path=files.console)
    ET.SubElement(serial, "target", port="0")


def cell_memory(side: Side, memory_mb: int) -> Tuple[Tuple[int, int], ...]:
    """(host node, MiB) of each cell."""
    return tuple((node, memory_mb // len(side.cells)) for _vcpus, node in side.cells)
