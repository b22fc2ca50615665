"""Rules of udev for PCI functions, as they are carried out when the devices are announced anew at boot.

Understood: ACTION, SUBSYSTEM, KERNEL and ATTR{vendor|device} with ==, ATTR{driver_override}=, RUN{builtin}+="kmod load",
and RUN+= of setpci and of a write to drivers_probe (udev(7); systemd-udev-trigger.service). What is assigned while the
rules are read comes before what is run, and both before the modules that the aliases of the devices name.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from . import setpci, sriov
from .errors import Refusal
from .hardware import Part, parts

State = dict[str, Any]
Files = Any

_ITEM = re.compile(r'(\w+)(?:\{(\w+)\})?\s*(==|!=|\+=|:=|=)\s*"((?:[^"\\]|\\.)*)"')
FOLDERS = ("/etc/udev/rules.d", "/usr/lib/udev/rules.d")


def rules(files: Files) -> list[list[tuple[str, ...]]]:
    """(key, attribute, operator, value) of each rule, in the order of the files' names; /etc hides /usr/lib."""
    places = {name: folder for folder in reversed(FOLDERS) for name in files.names(folder) if name.endswith(".rules")}
    found = []
    for name, folder in sorted(places.items()):
        for line in (files.read_text(f"{folder}/{name}") or "").replace("\\\n", " ").splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                found.append([match.groups(default="") for match in _ITEM.finditer(line)])
    return found


def announce(state: State, files: Files) -> None:
    """All PCI functions are found once more: drivers are named, modules loaded, commands run."""
    known = rules(files)
    for part in parts(state["variant"]["gpu"]):
        commands = []
        for rule in known:
            if not _matches(rule, part):
                continue
            for key, attribute, operator, value in rule:
                if (key, attribute) == ("ATTR", "driver_override") and operator == "=":
                    sriov.set_override(state, part.address, value)
                elif key == "RUN" and operator in ("+=", "=", ":="):
                    commands.append(value.replace("%k", part.address).replace("$kernel", part.address))
        for command in commands:
            _run(state, part.address, command)


def _matches(rule: list[tuple[str, ...]], part: Part) -> bool:
    facts = {
        ("ACTION", ""): "add",
        ("SUBSYSTEM", ""): "pci",
        ("KERNEL", ""): part.address,
        ("ATTR", "vendor"): f"0x{part.vendor:04x}",
        ("ATTR", "device"): f"0x{part.device:04x}",
    }
    tests = [item for item in rule if item[2] in ("==", "!=")]
    return bool(tests) and all((facts.get((k, a)) == value) == (op == "==") for k, a, op, value in tests)


def _run(state: State, address: str, command: str) -> None:
    load = re.fullmatch(r"kmod load ([\w-]+)", command)
    register = re.search(r"setpci (-s \S+(?: [\w+]+\.[bwl]=[0-9a-f:]+)+)", command)
    if load:
        name = load[1].replace("_", "-") if load[1].startswith("vfio") else load[1]
        state["modules"] = sorted({*state["modules"], name})
    elif register:
        said = setpci.run(state, ["setpci", *register[1].split()])
        if said is None or said[0]:
            state["dmesg"].append(f"udev-worker: {address}: {said[2].strip() if said else command}")
    elif "drivers_probe" in command:
        with suppress(Refusal):  # the kernel has said why in its log
            sriov.probe(state, address)
