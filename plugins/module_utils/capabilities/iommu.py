# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The IOMMU: which arguments each platform wants, whether it then translates, and PCI Express below it (pcie_policy).

Arguments: Documentation/admin-guide/kernel-parameters (intel_iommu, amd_iommu, iommu,
iommu.passthrough, iommu.strict). AMD-Vi is on by default; `amd_iommu=on` is no option of the kernel.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from .. import bios, pcie_policy, pcie_settings
from .. import cmdline as line
from ..model import CmdlineRequest, Decision, Problem
from ..state import State

AFTER: Tuple[str, ...] = ("nic_firmware",)
READS = ("nic_firmware", "bios")
FILES = pcie_settings.FILES
PROBE = FILES
OWNED = ("intel_iommu", "amd_iommu", "iommu", "iommu.passthrough", "iommu.strict")

_X86 = ("x86_64", "i686", "i386")


def problems(options: Mapping[str, Any]) -> List[Problem]:
    """`strict` only means something where the IOMMU translates; and what PCI Express asks."""
    found = pcie_policy.problems(options)
    if options.get("strict") is not None and options.get("mode") != "translated":
        found.append(
            Problem(
                "iommu_strict", options["strict"],
                "iommu_strict is about translation, and iommu_mode is %s" % (options.get("mode") or "not set"),
                "set iommu_mode: translated, or remove iommu_strict",
            )
        )
    return found


def cmdline(options: Mapping[str, Any], state: State) -> CmdlineRequest:
    """The words for this platform, and what PCI Express needs of the kernel."""
    args, absent = pcie_policy.arguments(options, state)
    own = _own(options, state)
    why = [own.why] if own else []
    why += ["PCI Express is set up for GPUs and NICs"] if args or absent else []
    return CmdlineRequest((*own.args, *args), (*own.absent, *absent), "; ".join(why))


def _own(options: Mapping[str, Any], state: State) -> CmdlineRequest:
    """The IOMMU's own words; nothing where no mode is set."""
    mode = options.get("mode")
    if not mode:
        return CmdlineRequest()
    args, absent = (_x86 if state["cpu"]["arch"] in _X86 else _other)(mode, state)
    if options.get("strict") is not None:
        args = (*args, "iommu.strict=%d" % bool(options["strict"]))
    return CmdlineRequest(args, absent, "iommu_mode is %s" % mode)


def _kind(state: State) -> str:
    """"intel" or "amd": by the firmware's tables or the units in use, else by the processor."""
    iommu = state["iommu"]
    tables, units = iommu.get("tables", []), iommu["units"]
    if "DMAR" in tables or any(unit.startswith("dmar") for unit in units):
        return "intel"
    if "IVRS" in tables or any(unit.startswith("ivhd") for unit in units):
        return "amd"
    return "amd" if state["cpu"]["vendor"] in ("AuthenticAMD", "HygonGenuine") else "intel"


def _x86(mode: str, state: State) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    intel = _kind(state) == "intel"
    if mode == "off":
        return ("intel_iommu=off" if intel else "amd_iommu=off",), ("iommu", "iommu.passthrough")
    iommu = "iommu=pt" if mode == "passthrough" else "iommu=nopt"
    if intel:
        return ("intel_iommu=on", iommu), ("iommu.passthrough",)
    return (iommu,), ("amd_iommu=off", "iommu.passthrough")


def _other(mode: str, state: State) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    """Arm SMMU and others: always on where firmware describes it, only the default domain is chosen."""
    return ("iommu.passthrough=%d" % (mode != "translated"),), ()


def decide(options: Mapping[str, Any], state: State) -> Decision:
    """Whether what was booted holds, and the registers. The arguments are decided with everybody's (kernel_args)."""
    one, two = _translation(options, state), pcie_policy.decide(options, state)
    return Decision(two.steps, two.call, one.problems + two.problems, one.warnings + two.warnings)


def _translation(options: Mapping[str, Any], state: State) -> Decision:
    mode = options.get("mode")
    running = state["kernel"]["cmdline"]
    request = _own(options, state)
    if not mode or running is None:
        return Decision()
    if line.missing(line.parse(running), request.args, request.absent) != ([], []):
        return Decision()  # not booted yet: nothing can be said
    unread = [note["reason"] for note in state["unread"] if note["section"].split(".")[0] == "iommu"]
    if unread:
        return Decision(warnings=("whether the IOMMU is in use could not be read: %s" % "; ".join(unread),))
    found = _units(mode, state)
    if found is not None and mode != "off" and bios.turning_on(options.get("bios"), state.get("bmc"), "iommu"):
        return Decision(warnings=("no IOMMU is in use yet: it is switched on in the BIOS, for the reboot",))
    if found is not None:
        return Decision(problems=(found,))
    return _types(mode, state)


def _units(mode: str, state: State) -> Optional[Problem]:
    """Groups are no evidence: the kernel makes them for devices that nothing translates, too."""
    units = state["iommu"]["units"]
    on_x86 = state["cpu"]["arch"] in _X86
    if mode == "off" and units and on_x86:
        return Problem(
            "iommu_mode", mode, "booted with the IOMMU off, but /sys/class/iommu still has %s" % ", ".join(units),
            "look in the kernel's log (dmesg) for what forced it on: DMA protection or a tboot launch", "host",
        )
    if mode == "off" or units:
        return None
    name = ("VT-d" if _kind(state) == "intel" else "AMD-Vi (IOMMU)") if on_x86 else "the SMMU"
    return Problem(
        "iommu_mode", mode,
        "booted with %s, but no IOMMU is in use: /sys/class/iommu is empty" % _words(state),
        "%s is most likely off in the BIOS: switch it on there, or with bios_settings: {iommu: true}" % name, "host",
    )


def _words(state: State) -> str:
    words = line.of_groups(line.parse(state["kernel"]["cmdline"] or ""), OWNED)
    return line.join(words) or "the IOMMU left on"


def _types(mode: str, state: State) -> Decision:
    """Under passthrough the groups' type is identity; a few may differ (untrusted ports, by hand)."""
    types: Dict[str, int] = state["iommu"]["types"]
    identity = types.get("identity", 0)
    rest = ", ".join("%d of type %s" % (count, kind) for kind, count in sorted(types.items()) if kind != "identity")
    if mode == "off" or not types:
        return Decision()
    if mode == "passthrough" and not identity:
        return Decision(problems=(_mismatch(mode, "no IOMMU group is of type identity: %s" % rest),))
    if mode == "translated" and not rest:
        return Decision(problems=(_mismatch(mode, "all %d IOMMU groups are of type identity" % identity),))
    if mode == "passthrough" and rest:
        text = "%d IOMMU groups are of type identity, but %s: external ports, or set by hand" % (identity, rest)
        return Decision(warnings=(text,))
    return Decision()


def _mismatch(mode: str, text: str) -> Problem:
    return Problem(
        "iommu_mode", mode, "booted for %s, but %s" % (mode, text),
        "look in the kernel's log (dmesg, \"iommu: Default domain type\") for what overrode it", "host",
    )
