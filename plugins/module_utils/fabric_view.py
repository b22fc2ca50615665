# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`document["fabric"]` as the explanations look at it: PFs, the bonds over them, what was asked for. Pure.

What could not be read is None in the document and never speaks for or against anything here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

LAG_MODES = {"active-backup": "1", "balance-xor": "2", "802.3ad": "4"}
"""Bond modes that mlx5 offloads: active-backup or hash (Linux mlx5/core/lag/lag.c, the check of the bond's type)."""

Part = Mapping[str, Any]


@dataclass(frozen=True)
class Bond:
    """A bond over PFs. pfs: those of its slaves that are PFs; foreign: its other slaves."""

    name: str
    mode: str
    data: Part
    pfs: Tuple[Part, ...]
    foreign: Tuple[str, ...]
    wanted: Part  # the entry of Desired (fabric/shapes.py) as a dict, {} where none is known

    @property
    def capable(self) -> bool:
        """Whether VF LAG is wanted here: asked for, or mlx5 ports that have VFs or a switchdev eswitch."""
        if self.wanted:
            return bool(self.wanted.get("kind", "vf_lag") == "vf_lag" and not self.wanted.get("absent"))
        mlx5 = [pf for pf in self.pfs if pf.get("driver") == "mlx5_core"]
        return any(pf.get("sriov_vfs") or switchdev(pf) for pf in mlx5)


@dataclass(frozen=True)
class View:
    """What a check looks at. firmware, pci, lockdown, files: of the same host, empty where nobody gave them."""

    fabric: Part
    desired: Part
    bonds: Tuple[Bond, ...]
    firmware: Mapping[str, Any] = field(default_factory=dict)
    pci: Tuple[Part, ...] = ()
    lockdown: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    netdevs: Tuple[str, ...] = ()

    @property
    def pfs(self) -> List[Part]:
        """All PFs."""
        return list(self.fabric.get("pfs") or ())

    @property
    def lags(self) -> List[Bond]:
        """The bonds on which VF LAG is wanted."""
        return [bond for bond in self.bonds if bond.capable]


def view(fabric: Part, desired: Optional[Part], **more: Any) -> View:
    """Put together what belongs together. `desired`: a Desired (fabric/shapes.py) as a dict."""
    asked = desired or {}
    wanted = {b.get("name"): b for b in asked.get("bonds") or ()}
    pfs = list(fabric.get("pfs") or ())
    nameless = any(pf.get("netdev") is None for pf in pfs)  # then a slave of another name may be a port
    bonds = []
    for data in fabric.get("bonds") or ():
        slaves = data.get("slaves") or ()
        own = tuple(pf for pf in pfs if pf.get("bond") == data["name"] or pf.get("netdev") in slaves)
        names = {pf.get("netdev") for pf in own}
        foreign = () if nameless else tuple(name for name in slaves if name not in names)
        if own or data["name"] in wanted:
            bonds.append(
                Bond(data["name"], mode(data.get("mode")), data, own, foreign, wanted.get(data["name"], {}))
            )
    return View(fabric, asked, tuple(bonds), **more)


def mode(said: Optional[str]) -> str:
    """The name of a bond mode, as sysfs ("balance-rr 0") or `ip` ("balance-rr") writes it; "" where not known."""
    return said.split()[0] if said and said.split() else ""


def switchdev(pf: Part) -> bool:
    """Whether the eswitch is in switchdev mode (a value that was not read is not)."""
    return (pf.get("eswitch") or {}).get("mode") == "switchdev"


def lag_state(bond: Bond) -> Tuple[Optional[str], Optional[str]]:
    """(state, type) as the first port that says so has it; None where no port does. The ports share one LAG."""
    for pf in bond.pfs:
        lag = pf.get("lag")
        if lag and lag.get("state"):
            return lag["state"], lag.get("type")
    return None, None


def label(pf: Part) -> str:
    """Such as "0000:17:00.0 (ens3f0np0)"."""
    return "%s (%s)" % (pf["address"], pf["netdev"]) if pf.get("netdev") else str(pf["address"])


def indices(vfs: Iterable[Part]) -> str:
    """Such as "3 and 5", "0-7", "0-2, 5 and 7"."""
    runs: List[List[int]] = []
    for index in sorted({int(vf["index"]) for vf in vfs}):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    words = []
    for first, last in runs:
        words += (
            [str(first), str(last)]
            if last == first + 1
            else ["%d-%d" % (first, last) if last > first else str(first)]
        )
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""


def counted(vfs: List[Part]) -> str:
    """Such as "VF 3", "VFs 0-7"."""
    return "VF%s %s" % ("s" if len(vfs) > 1 else "", indices(vfs))


def number(value: Any) -> Optional[int]:
    """A firmware value as a number: 16, "16", "0x10", "True(1)"; None where it is none. 18 holds no 8."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    text = str(value).strip()
    if text.endswith(")") and "(" in text:
        text = text[text.rindex("(") + 1 : -1]
    try:
        return int(text, 0)
    except ValueError:
        return None


def ports_of(fabric: Part) -> Dict[str, str]:
    """Netdev -> the bridge whose port it is, of Linux bridges and Open vSwitch."""
    found: Dict[str, str] = {}
    for bridge in fabric.get("bridges") or ():
        found.update({port["name"]: bridge["name"] for port in bridge.get("ports") or ()})
    for bridge in (fabric.get("ovs") or {}).get("bridges") or ():
        found.update({port["name"]: bridge["name"] for port in bridge.get("ports") or ()})
    return found


def bridge_of_vf(vf: Part, ports: Mapping[str, str]) -> str:
    """The bridge that forwards for a VF; "" for none or not known. `ovs-system` is the datapath, not a bridge."""
    named = ports.get(vf.get("representor") or "")
    master = vf.get("representor_master") or ""
    return named or ("" if master == "ovs-system" else master)
