"""In what the BMCs of the vendors differ, as far as BIOS settings are concerned.

Sources: the vendors' Redfish references (Dell iDRAC 9 "SYS" messages and Oem/Dell/Jobs; HPE iLO 5/6 "BIOS
configuration"; Lenovo XCC "Bios/Pending"; Supermicro Redfish guide "Bios/SD"; AMI MegaRAC as on DGX "Bios/SD";
OpenBMC on GB200) and captured resources of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ON_RESET = ("OnReset",)
RESET_TYPES = ("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle")


@dataclass(frozen=True)
class Traits:
    """Behaviour of one vendor's BMC, and what it calls itself."""

    manufacturer: str
    model: str
    system: str
    manager: str
    settings: str = "Settings"
    registry: str = "BiosAttributeRegistry.v1_0_0"
    #: the settings resource repeats every attribute, not only those that wait
    repeats_all: bool = False
    #: a PATCH without If-Match is refused (428)
    needs_if_match: bool = False
    #: a PATCH with an apply time makes a job, and only a job applies what waits
    jobs: bool = False
    #: the current resource shows new values as soon as they are submitted
    shows_new_early: bool = False
    apply_times: tuple[str, ...] = ()
    #: paths match whatever their case
    any_case: bool = False
    reset_types: tuple[str, ...] = RESET_TYPES
    bmc: str = ""

    def plain(self, path: str) -> str:
        """A path as this BMC compares it: a slash at the end never matters, the case not to all."""
        return path.rstrip("/").lower() if self.any_case else path.rstrip("/")

    def find(self, documents: Mapping[str, dict[str, Any]], path: str) -> dict[str, Any]:
        """The document at a path; {} where there is none."""
        return next((d for known, d in documents.items() if self.plain(known) == self.plain(path)), {})


TRAITS = {
    "dell": Traits(
        "Dell Inc.", "PowerEdge R7625", "System.Embedded.1", "iDRAC.Embedded.1", jobs=True, shows_new_early=True,
        apply_times=("OnReset", "AtMaintenanceWindowStart", "InMaintenanceWindowOnReset"), bmc="16G Monolithic",
        registry="BiosAttributeRegistry.v1_0_3",
    ),
    "hpe": Traits(
        "HPE", "ProLiant DL385 Gen10 Plus", "1", "1", settings="settings", repeats_all=True, any_case=True,
        registry="BiosAttributeRegistryA42.v1_2_60", bmc="iLO 5",
    ),
    "lenovo": Traits(
        "Lenovo", "ThinkSystem SR650 V2", "1", "1", settings="Pending", repeats_all=True, needs_if_match=True,
        apply_times=ON_RESET, bmc="Lenovo XClarity Controller",
    ),
    "supermicro": Traits(
        "Supermicro", "SYS-421GE-TNRT", "1", "1", settings="SD", repeats_all=True, bmc="ASPEED",
    ),
    "nvidia_dgx": Traits(
        "NVIDIA", "DGXH100", "DGX", "BMC", settings="SD", repeats_all=True, needs_if_match=True,
        registry="BiosAttributeRegistry113.1.1.3", bmc="MegaRAC",
    ),
    "nvidia_grace": Traits("NVIDIA", "GB200 NVL", "System_0", "BMC_0", registry="", bmc="OpenBMC"),
    "": Traits("", "Server", "1", "1", bmc="BMC"),
}  # fmt: skip


def vendor_of(name: str, bios_path: str, settings_path: str) -> str:
    """The vendor whose traits a captured platform has: by the name of its files, else by its paths."""
    words = name.lower().replace("-", "_")
    for vendor, marks in {
        "dell": ("dell", "idrac"), "hpe": ("hpe", "ilo"), "lenovo": ("lenovo", "xcc"), "supermicro": ("supermicro", "smc"),
        "nvidia_dgx": ("viking", "dgx"), "nvidia_grace": ("gb200", "gb300", "gh200", "grace"),
    }.items():  # fmt: skip
        if any(mark in words for mark in marks):
            return vendor
    if "/System.Embedded.1/" in bios_path:
        return "dell"
    if "/Systems/DGX/" in bios_path:
        return "nvidia_dgx"
    if "/System_0/" in bios_path:
        return "nvidia_grace"
    if bios_path.startswith("/redfish/v1/systems/"):
        return "hpe"
    return "lenovo" if settings_path.endswith("/Bios/Pending") else ""
