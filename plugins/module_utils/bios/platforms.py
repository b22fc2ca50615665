# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose BIOS it is: by what the BMC says of itself, else by the names of its attributes."""

from __future__ import annotations

import re
from typing import Any, Iterable, List, Mapping, Optional

SUFFIX = re.compile(r"_[0-9A-F]{4}\Z")
"""What Supermicro appends to names."""

GRACE_ACS = re.compile(r"Socket[0-9]+Pcie[0-9]+AdvertiseACS\Z")

_MAKERS = (
    ("dell", "dell"), ("hewlettpackard", "hpe"), ("hpe", "hpe"), ("lenovo", "lenovo"), ("supermicro", "supermicro"),
)  # fmt: skip
_MODELS = (
    ("bluefield", "bluefield"), ("dgx", "nvidia_dgx"), ("viking", "nvidia_dgx"), ("gb200", "nvidia_grace"),
    ("gb300", "nvidia_grace"), ("gh200", "nvidia_grace"), ("grace", "nvidia_grace"),
)  # fmt: skip

_SIGNS = (
    ("nvidia_dgx", ("ProcessorHyperThreadingDisable", "ProcessorVmxEnable")),
    ("dell", ("SysProfile", "LogicalProc")),
    ("lenovo", ("OperatingModes_ChooseOperatingMode",)),
    ("hpe", ("WorkloadProfile", "RestoreManufacturingDefaults")),
    ("hpe", ("WorkloadProfile", "ServerConfigLockStatus")),
    ("hpe", ("WorkloadProfile", "MinProcIdlePower")),
    ("hpe", ("WorkloadProfile", "Sriov")),
    ("bluefield", ("EnableSMMU",)),
    ("bluefield", ("Enable SMMU",)),
    ("bluefield", ("HostPrivilegeLevel", "InternalCPUModel")),
)
"""Attributes that only one vendor's BIOS has together."""


def platform(bmc: Optional[Mapping[str, Any]]) -> str:
    """"dell", "hpe", "lenovo", "supermicro", "nvidia_dgx", "nvidia_grace", "bluefield"; "" where nobody can tell."""
    if not bmc:
        return ""
    names = list((bmc.get("bios") or {}).get("current") or {})
    if any(GRACE_ACS.match(name) for name in names):
        return "nvidia_grace"  # boards of other makers, too
    said = "".join(str(bmc.get("manufacturer") or "").casefold().split())
    for sign, found in _MAKERS:
        if sign in said.replace(",", "").replace(".", ""):
            return found
    if "nvidia" in said:
        model = "%s %s" % (bmc.get("model") or "", bmc.get("system") or "")
        for sign, found in _MODELS:
            if sign in model.casefold():
                return found
    return _by_names(names)


def _by_names(names: List[str]) -> str:
    have = set(names)
    for found, signs in _SIGNS:
        if have.issuperset(signs):
            return found
    if sum(1 for name in names if name.startswith("Processors_")) > 2:
        return "lenovo"
    return "supermicro" if _suffixed(names) else ""


def _suffixed(names: Iterable[str]) -> bool:
    every = list(names)
    return len(every) > 2 and sum(1 for name in every if SUFFIX.search(name)) > len(every) / 2


def stem(name: str) -> str:
    """A Supermicro name without its suffix, in a form in which spellings are equal."""
    return "".join(c for c in SUFFIX.sub("", name).casefold() if c.isalnum())
