# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role iommu asks of PCI Express: ATS, ACS on the way from GPU to NIC, read requests, ordering. Pure.

ATSCtl reads Enable+ only while the function is attached to a domain that translates (a running VM, a group of type
DMA), so under iommu=pt only the firmware's setting and the capability count.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from . import acs, bios, mlxconfig, pcie_settings
from . import cmdline as line
from .model import Call, Decision, Problem, Step
from .state import Function, State

MODULE = "nearmetal.rack.pcie_settings"
SEALED = ("integrity", "confidentiality")
NOATS = "pci=noats"

_GRACE_ATS = "Grace has no ATS of its own for ConnectX cards: a ConnectX-8 there uses its Data Direct function"

_UNGROUPED = (
    "ACS redirection is switched off after the kernel made the IOMMU groups: they now promise an isolation that is not "
    "there, so pass none of these devices to guests (iommu_acs_method: kernel makes the groups right)"
)


class Ways(NamedTuple):
    """How ACS comes about on a host. masks: all bridges; named: those that must be set."""

    how: str
    masks: Dict[str, str]
    named: Dict[str, str]
    faults: List[acs.Fault]


def problems(options: Mapping[str, Any]) -> List[Problem]:
    """Cross-field checks, no host needed."""
    found = []
    if options.get("acs_paths") and options.get("acs", acs.VM) == acs.VM and options.get("mode") == "off":
        text = "the paths are to be set for VMs, but iommu_mode is off: nothing would translate"
        found.append(Problem("iommu_acs", acs.VM, text, "set iommu_acs: bare_metal, or iommu_mode: passthrough"))
    seen: Dict[str, Mapping[str, str]] = {}
    for path in options.get("acs_paths") or ():
        for kind in ("gpu", "nic"):
            if not acs_address(path[kind]):
                text = "%r is no PCI address" % path[kind]
                found.append(Problem("iommu_acs_paths", path[kind], text, "write 0000:17:00.0"))
        if path["gpu"] == path["nic"]:
            found.append(Problem("iommu_acs_paths", path["gpu"], "GPU and NIC are the same", "give both"))
        if seen.setdefault("%(gpu)s-%(nic)s" % path, path) is not path:
            found.append(Problem("iommu_acs_paths", path["nic"], "the path is given twice", "give it once"))
    return found


def acs_address(text: str) -> bool:
    """Whether it is an address with its domain."""
    head, _dot, function = text.partition(".")
    parts = head.split(":")
    return len(parts) == 3 and function in tuple("01234567") and all(p and set(p) <= set("0123456789abcdef") for p in parts)


def arguments(options: Mapping[str, Any], state: State) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    """(args, absent) of the kernel."""
    flags = []
    ways = _ways(options, state)
    if ways.how in (acs.KERNEL, acs.REDIR) and ways.named and not ways.faults:
        flags.append(acs.flag(ways.how, ways.named))
    if options.get("ats") is False:
        flags.append("noats")
    absent = (NOATS,) if options.get("ats") else ()
    return ("pci=" + ",".join(flags),) if flags else (), absent


def decide(options: Mapping[str, Any], state: State) -> Decision:
    """Steps, the one call, and what stands in the way."""
    found: List[Problem] = []
    warnings: List[str] = []
    steps: List[Step] = []
    ways = _ways(options, state)
    for fault in ways.faults:
        if state["live"]:
            found.append(Problem("iommu_acs_paths", fault.value, fault.message, fault.fix, "host"))
        else:
            warnings.append("ACS: %s" % fault.message)
    if ways.how == acs.RUNTIME and options.get("acs") == acs.BARE_METAL and ways.named and state["iommu"]["units"]:
        warnings.append(_UNGROUPED)
    ats = _ats(options, state)
    found += [*_platform(options, state), *_acs_missed(ways, state), *ats.problems]
    steps += ats.steps
    warnings += ats.warnings
    settings, more = _settings(options, ways, state)
    found += more
    files = state.get("files", {})
    if found or not settings and pcie_settings.RULES not in files:
        return Decision(tuple(steps), None, tuple(found), tuple(warnings))
    todo = pcie_settings.steps(settings, True, state.get("pcie", {}), files, state["live"])
    sealed = _sealed(todo, state)
    if sealed is not None:
        return Decision(tuple(steps), None, (sealed,) if todo else (), tuple(warnings))
    functions = [{"address": address, **one} for address, one in sorted(settings.items())]
    call = Call(MODULE, {"functions": functions, "persist": True}) if todo else None
    return Decision((*steps, *todo), call, (), tuple(warnings))


def _sealed(todo: List[Step], state: State) -> Optional[Problem]:
    """Under lockdown the kernel refuses writes to configuration space, at boot as well."""
    lockdown = state["kernel"].get("lockdown", "")
    if lockdown not in SEALED or not any(step.key != "pcie-boot" for step in todo):
        return None
    text = "the kernel is locked down (%s), so that PCI registers cannot be written: %s" % (
        lockdown, "; ".join("%s %s" % (step.key[5:], step.after) for step in todo if step.key != "pcie-boot"))  # fmt: skip
    fix = "switch Secure Boot off for this host; ACS can also be set by the kernel: iommu_acs_method: kernel"
    return Problem("iommu", [step.after for step in todo], text, fix, "host")


def _platform(options: Mapping[str, Any], state: State) -> List[Problem]:
    """Grace is not x86."""
    if not acs.is_grace(state["pci"]):
        return []
    found = []
    gpus = [f["address"] for f in state["pci"] if f["vendor"] == "0x10de" and f["class"][2:4] == "03"]
    if options.get("mode") == "passthrough" and gpus:
        text = "on Grace with GPUs the host's devices must be translated: with iommu.passthrough=1 %s fails"
        fix = "set iommu_mode: translated on hosts of this platform (sriov-network-operator#864)"
        found.append(Problem("iommu_mode", "passthrough", text % ", ".join(gpus), fix))
    if options.get("ats"):
        found.append(Problem("iommu_ats", True, _GRACE_ATS, "remove iommu_ats from hosts of this platform"))
    known = {f["address"]: f for f in state["pci"]}
    for path in options.get("acs_paths") or () if options.get("acs", acs.VM) == acs.VM else ():
        nic = known.get(path["nic"])
        if nic is not None and nic["device"] not in acs.DIRECT_DEVICES:
            text = "%s is no Data Direct function (15b3:2100), and those are what reaches GPUs on Grace" % path["nic"]
            found.append(Problem("iommu_acs_paths", path["nic"], text, "name the card's Data Direct function as nic"))
    return found


def _ways(options: Mapping[str, Any], state: State) -> Ways:
    paths = options.get("acs_paths") or ()
    if not paths:
        return Ways("", {}, {}, [])
    policy = options.get("acs", acs.VM)
    masks, faults = acs.masks(paths, policy, state["pci"], state.get("pcie", {}))
    coming = bios.turning_on(options.get("bios"), state.get("bmc"), "iommu")
    on = options["mode"] != "off" if options.get("mode") else bool(state["iommu"]["units"]) or coming
    if policy == acs.VM and not on and state["live"]:
        fix = "set iommu_mode: passthrough; without translation there is nothing to redirect to"
        faults = [*faults, acs.Fault(policy, "iommu_acs is vm, but no IOMMU is in use", fix)]
    named = acs.needing(masks, on)
    sealed = state["kernel"].get("lockdown", "") in SEALED
    how = acs.means(options.get("acs_method", "auto"), policy, len(named), state["kernel"]["release"], sealed)
    if how == acs.REDIR:
        masks = dict.fromkeys(masks, acs.NOT_REDIRECTED)
    elif how == acs.RUNTIME:
        named = masks  # all, whatever is found now: what is kept for the boot must not depend on it
    return Ways(how, masks, named, faults)


def _acs_missed(ways: Ways, state: State) -> List[Problem]:
    """Bridges that are not as wanted although the kernel was booted for it."""
    running = state["kernel"]["cmdline"]
    if ways.how not in (acs.KERNEL, acs.REDIR) or ways.faults or running is None or not state["live"]:
        return []
    asked = ["pci=" + acs.flag(ways.how, ways.named)] if ways.named else []
    if not asked and not state["iommu"]["units"]:
        return []
    if asked and line.lacking(line.parse(running), line.request(asked, [])) != ([], []):
        return []  # not booted yet: nothing can be said
    found = []
    kernel = acs.version(state["kernel"]["release"])
    for bridge, (have, mask) in acs.unmet(ways.masks, state.get("pcie", {})).items():
        text = "booted with %s, but the bridge %s has ACS %s where %s is wanted"
        fix = "look in the kernel's log (dmesg) for ACS; iommu_acs_method: runtime sets the registers itself"
        if kernel < (6, 15) and ways.how == acs.KERNEL and len(ways.named) > 1:
            fix = "kernels from 6.11 to 6.14 take only the first of several bridges: set iommu_acs_method: runtime"
        what = " ".join(asked) or "an IOMMU"
        found.append(Problem("iommu_acs", bridge, text % (what, bridge, have, mask), fix, "host"))
    return found


def cards(options: Mapping[str, Any], state: State) -> List[Function]:
    """The NICs of the paths, and all mlx5 PFs."""
    named = [path["nic"] for path in options.get("acs_paths") or ()]
    return [
        f for f in state["pci"]
        if f["address"] in named or f["vendor"] == "0x15b3" and f["class"][2:4] == "02" and not f["physfn"]
    ]  # fmt: skip


def _settings(options: Mapping[str, Any], ways: Ways, state: State) -> Tuple[pcie_settings.Settings, List[Problem]]:
    """Registers to be written, by address."""
    wanted: Dict[str, Dict[str, Any]] = {}
    found: List[Problem] = []
    size, ordering = options.get("max_read_request"), options.get("relaxed_ordering")
    known = {f["address"] for f in state["pci"]}
    if size is not None or ordering is not None:
        variable = "iommu_max_read_request" if size is not None else "iommu_relaxed_ordering"
        devices = options.get("pcie_devices") or [f["address"] for f in cards(options, state)]
        if not devices and state["live"]:
            text = "the host has no mlx5 card, and iommu_pcie_devices names no other"
            found.append(Problem(variable, size if size is not None else ordering, text, "name the functions there"))
        for address in devices:
            if state["live"] and address not in state.get("pcie", {}):
                text = "its PCI Express registers could not be read" if address in known else "there is no such function"
                fix = "run with become: true" if address in known else "look with lspci -D"
                found.append(Problem("iommu_pcie_devices", address, "%s: %s" % (address, text), fix, "host"))
            wanted[address] = {"max_read_request": size, "relaxed_ordering": ordering, "acs": None}
    if ways.how == acs.RUNTIME and not ways.faults:
        for bridge, mask in ways.named.items():
            none = {"max_read_request": None, "relaxed_ordering": None}
            wanted[bridge] = {**none, **wanted.get(bridge, {}), "acs": mask}
    return wanted, found


def _ats(options: Mapping[str, Any], state: State) -> Decision:
    if not options.get("ats") or not state["live"] or acs.is_grace(state["pci"]):
        return Decision()
    found: List[Problem] = []
    steps: List[Step] = []
    warnings: List[str] = []
    nics = cards(options, state)
    if not nics:
        fix = "remove iommu_ats from this host"
        found.append(Problem("iommu_ats", True, "the host has no mlx5 card and no path that names a NIC", fix, "host"))
    for nic in nics:
        told = state.get("pcie", {}).get(nic["address"])
        if told is None:
            text = "whether %s can do ATS could not be read" % nic["address"]
            found.append(Problem("iommu_ats", nic["address"], text, "run with become: true", "host"))
        elif not told["ats_capable"]:
            _not_capable(nic["address"], options, state, found, steps, warnings)
        elif not told["ats_enabled"] and _translated(options, state) and nic["driver"] == "mlx5_core":
            warnings.append(
                "%s can do ATS, but it is off (ATSCtl: Enable-) although its traffic is translated: is the slot listed "
                "for ATS in the BIOS (DMAR ATSR)?" % nic["address"]
            )
    running = line.parse(state["kernel"]["cmdline"] or "")
    flags = [flag for word in running if word.name == "pci" for flag in (word.value or "").split(",")]
    if "noats" in flags and NOATS not in [word.text for word in running]:
        fix = "take noats out of the pci= argument"
        found.append(Problem("iommu_ats", True, "the kernel was booted with ATS off (pci=...noats)", fix, "host"))
    return Decision(tuple(steps), None, tuple(found), tuple(warnings))


def _translated(options: Mapping[str, Any], state: State) -> bool:
    return options.get("mode") == "translated" and bool(state["iommu"]["units"]) and "identity" not in state["iommu"]["types"]


def _not_capable(
    address: str, options: Mapping[str, Any], state: State, found: List[Problem], steps: List[Step], warnings: List[str]
) -> None:
    """No ATS capability: the firmware hides it, or showed it only after the host was booted."""
    firmware: Any = state.get("firmware") or {}
    value = firmware.get(address, {}).get("values", {}).get("ATS_ENABLED", {})
    asked: Any = options.get("nic_firmware") or {}
    all_asked = [asked.get("settings") or {}, *(card["settings"] for card in asked.get("cards") or ())]
    if mlxconfig.same(True, value.get("current")):
        step = Step(
            "iommu", "ats-" + address, "no ATS capability", "ATS capability",
            "the firmware has ATS_ENABLED, which a host sees after a reboot", "reboot", "capabilities of %s" % address,
        )  # fmt: skip
        last = state["last_reboot"]
        if last and last["boot_id"] != state["kernel"]["boot_id"] and step.id + "=" + step.after in last["wanted"].splitlines():
            text = "the host was rebooted for it, but %s still shows no ATS capability" % address
            fix = "look whether ATS is off in the BIOS, or power cycle the host"
            found.append(Problem("iommu_ats", address, text, fix, "host"))
        else:
            steps.append(step)
    elif mlxconfig.same(True, value.get("next")) or any(one.get("ATS_ENABLED") in (True, 1, "1") for one in all_asked):
        warnings.append("%s will be able of ATS when its firmware settings are loaded" % address)
    else:
        fix = "set nic_firmware_settings: {ATS_ENABLED: true}"
        found.append(Problem("iommu_ats", address, "%s shows no ATS capability: it is off in its firmware" % address, fix, "host"))
