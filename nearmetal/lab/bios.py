"""The BIOS of a virtual node: its BMC's values on disk, and what they make of the board when it boots.

Nodes with an odd number speak Dell's words, the others Supermicro's, so that one vocabulary is seen over two vendors.
As they leave the factory SMT is off.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .. import core
from ..bmc.machine import Job, Machine, Power
from .qemu import Firmware

VENDORS = ("supermicro", "dell")
FACTORY: dict[str, dict[str, Any]] = {
    "dell": {"LogicalProc": "Disabled"},
    "supermicro": {"Hyper_Threading_ALL__F27F": "Disable"},
}


def machine(path: Path | None, number: int, power: Power | None = None) -> Machine:
    """The node's machine with the values that were kept; as from the factory where none were."""
    vendor = VENDORS[number % 2]
    made = Machine.made_up(vendor, power, **FACTORY[vendor])
    if path and path.exists():
        kept = json.loads(path.read_text())
        made.current.update(kept["current"])
        made.waiting.update(kept["waiting"])
        made.jobs += [Job(**job) for job in kept["jobs"]]
    return made


def keep(path: Path, made: Machine) -> None:
    """Write down what a BMC remembers over its own restart."""
    jobs = [{"number": job.number, "state": job.state} for job in made.jobs]
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(json.dumps({"current": made.current, "waiting": made.waiting, "jobs": jobs}, indent=1) + "\n")
    fresh.replace(path)


def firmware(path: Path | None, number: int) -> Firmware:
    """What the values in force make of the board, by the same vocabulary that roles use."""
    made = machine(path, number)
    document = {
        "error": "", "manufacturer": made.traits.manufacturer, "model": made.traits.model, "registry": None,
        "bios": {"current": made.current, "settings": {}, "jobs": []},
    }  # fmt: skip
    compare = core.module("bios").compare

    def holds(word: str, value: Any) -> bool:
        result = compare({"settings": {word: value}}, document)
        return not result.requested and not result.problems and not result.unsupported

    return Firmware(
        smt=holds("smt", True), nodes_per_socket=2 if holds("numa_per_socket", 2) else 1, iommu=holds("iommu", True),
        sriov=holds("sriov", True), virtualization=holds("virtualization", True),
    )  # fmt: skip
