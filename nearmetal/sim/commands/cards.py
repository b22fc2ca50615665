"""mstconfig, mstfwreset, mlxconfig, mlxfwreset."""

from __future__ import annotations

from ..model import firmware
from . import Answer, Machine, not_simulated


def run(machine: Machine, argv: list[str], stdin: str) -> Answer:
    """One of the four."""
    words = [word for word in argv[1:] if word not in ("-y", "--yes", "-e")]
    if words[:1] != ["-d"] or len(words) < 3:
        return not_simulated(argv)
    address, rest = words[1], words[2:]
    if argv[0].endswith("config"):
        if rest in (["q"], ["query"]) and "-e" in argv:
            return firmware.query(machine.state, address)
        if rest[:1] in (["set"], ["s"]) and len(rest) > 1 and "-y" in argv:
            return firmware.set_values(machine.state, address, rest[1:])
    elif rest == ["-l", "3", "reset"] and "-y" in argv:
        return firmware.reset(machine.state, address)
    return not_simulated(argv)
