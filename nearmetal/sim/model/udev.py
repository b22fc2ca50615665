"""udev rules for PCI functions at boot: what they set, and the commands that they run. Source: udev(7)."""

from __future__ import annotations

import re
import shlex
from typing import Any

from . import sriov
from .hardware import parts

State = dict[str, Any]
Files = Any

PAIR = re.compile(r'(\w+)(?:\{(\w+)\})?(==|\+=|=)"((?:[^"\\]|\\.)*)"')
SETPCI = re.compile(r"\b(setpci -s [^']*)")


def coldplug(state: State, files: Files) -> list[list[str]]:
    """What the rules do with each function when the host starts; returns the commands of setpci that they run."""
    rules = []
    for folder in ("/usr/lib/udev/rules.d", "/etc/udev/rules.d"):
        for file in files.names(folder):
            rules += [
                line
                for line in (files.read_text(f"{folder}/{file}") or "").splitlines()
                if line and line[0] != "#"
            ]
    commands = []
    for part in parts(state["variant"]["gpu"]):
        facts = {
            "ACTION": "add",
            "SUBSYSTEM": "pci",
            "KERNEL": part.address,
            "vendor": f"0x{part.vendor:04x}",
            "device": f"0x{part.device:04x}",
        }
        for rule in rules:
            pairs = PAIR.findall(rule)
            if all(
                facts.get(name if key == "ATTR" else key) == value
                for key, name, sign, value in pairs
                if sign == "=="
            ):
                commands += _do(state, part.address, pairs)
    return commands


def _do(state: State, address: str, pairs: list[tuple[str, str, str, str]]) -> list[list[str]]:
    commands = []
    for key, name, sign, value in pairs:
        if key == "ATTR" and name == "driver_override" and sign == "=":
            sriov.set_override(state, address, value)
        elif key == "RUN" and value.startswith("kmod load "):
            state["modules"] = sorted({*state["modules"], value.split()[-1]})
        elif key == "RUN" and SETPCI.search(value):
            commands.append(shlex.split(SETPCI.findall(value)[0]))
    return commands
