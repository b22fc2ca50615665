"""Setpci: reading and writing the configuration space of simulated functions.

`setpci -s ADDRESS REGISTER[=VALUE[:MASK]]...` (setpci(8)); under lockdown writing is not permitted (Linux
drivers/pci/pci-sysfs.c, pci_write_config).
"""

from __future__ import annotations

import re
from typing import Any

from . import pciconfig, sysfs
from .hardware import by_address

State = dict[str, Any]
Answer = tuple[int, str, str]

REGISTER = re.compile(
    r"(?:(CAP_EXP|ECAP_ACS|ECAP_ATS)\+)?(0x)?([0-9a-fA-F]+)\.([bwl])(?:=([0-9a-fA-F]+)(?::([0-9a-fA-F]+))?)?"
)
BASES = {"CAP_EXP": pciconfig.PCIE, "ECAP_ACS": pciconfig.ACS, "ECAP_ATS": pciconfig.ATS, "": 0, None: 0}
WRITABLE = {pciconfig.ACS + 6: "acs", pciconfig.ATS + 6: "ats", pciconfig.PCIE + 8: "devctl"}


def run(state: State, argv: list[str]) -> Answer | None:
    """What the command says; None where that is not simulated. Registers are done one after the other."""
    words = [word for word in argv[1:] if word != "-v"]
    if words[:1] != ["-s"] or len(words) < 3:
        return None
    out = err = ""
    for word in words[2:]:
        said = _one(state, words[1] if words[1].count(":") == 2 else "0000:" + words[1], word)
        if said is None or said[0]:
            return said
        out, err = out + said[1], err + said[2]
    return 0, out, err


def _one(state: State, address: str, word: str) -> Answer | None:
    part = by_address(state["variant"]["gpu"]).get(address)
    match = REGISTER.fullmatch(word)
    if match is None:
        return None
    if part is None:
        return 1, "", f'setpci: Warning: No devices selected for "{word}".\n'
    size = {"b": 1, "w": 2, "l": 4}[match[4]]
    at = BASES[match[1]] + int(match[3], 16)
    data = sysfs.registers_of(state, part)
    no_acs = match[1] == "ECAP_ACS" and not pciconfig.has_acs(part)
    if no_acs or match[1] == "ECAP_ATS" and data[pciconfig.ATS] != 0x0F:
        text = f"setpci: {address}: Instance #0 of {match[1]} not found - there are no capabilities with that id.\n"
        return 1, "", text
    value = int.from_bytes(data[at : at + size], "little")
    if match[5] is None:
        return 0, f"{value:0{size * 2}x}\n", ""
    return _write(state, address, at, match) if size == 2 else None


def _write(state: State, address: str, at: int, match: re.Match[str]) -> Answer | None:
    """One of the registers that can be written, two bytes wide."""
    if state["boot"].get("lockdown", "none") != "none":
        return 0, "", "setpci: pcilib: sysfs_write: write failed: Operation not permitted\n"
    if at not in WRITABLE:
        return None
    registers, name = state["registers"][address], WRITABLE[at]
    mask = int(match[6], 16) if match[6] else 0xFFFF
    registers[name] = (registers[name] & ~mask | int(match[5], 16) & mask) & 0xFFFF
    return 0, "", ""
