# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware settings of the mlx5 cards, as their tool tells them.

A query takes a second for each function, so it is made only where somebody wants to know (the capability
`nic_firmware`, `host_info`).
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from .. import mlxconfig
from ..host import Host, HostError, Missing, Refused
from ..state import Firmware, Function

MELLANOX = "0x15b3"
COMMANDS = tuple((tool, "-d", "{mlx5}", "-e", "q") for tool in mlxconfig.TOOLS)


def functions(pci: Sequence[Function]) -> List[str]:
    """Addresses of the PFs that mlx5_core drives, or that a query could be made of."""
    return [
        f["address"] for f in pci
        if f["vendor"] == MELLANOX and f["class"].startswith("0x02") and not f["physfn"] and f["driver"] == "mlx5_core"
    ]  # fmt: skip


def observe_firmware(host: Host, pci: Sequence[Function], tools: Sequence[str] = mlxconfig.TOOLS) -> Optional[Firmware]:
    """{address of each PF: what its card's firmware says}; None where nobody asked (a tree, an older capture)."""
    found: Dict[str, Dict[str, object]] = {}
    for address in functions(pci):
        try:
            tool, values, error = _query(host, address, tools)
        except Refused:
            return None
        found[address] = {"tool": tool, "values": values, "error": error}
    return found  # type: ignore[return-value]


def _query(host: Host, address: str, tools: Sequence[str]) -> Tuple[str, Dict[str, Dict[str, Optional[str]]], str]:
    """(tool, values, why there are none) of one function."""
    reason = ""
    for tool in tools:
        try:
            said = host.run([tool, "-d", address, "-e", "q"])
        except Missing:
            continue
        except Refused:
            raise
        except HostError as err:
            return tool, {}, str(err)
        cards = mlxconfig.parse(said.stdout)
        if cards:
            return tool, {name: value._asdict() for name, value in cards[0].values.items()}, ""
        reason = "%s: %s" % (tool, mlxconfig.trouble(said.stdout + "\n" + said.stderr))
    return "", {}, reason or "neither of %s is on the host" % ", ".join(tools)
