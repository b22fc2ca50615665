# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs for guests: which functions go together, who stands in the way, and what waits for the reboot.

An IOMMU group is handed over whole (Documentation/driver-api/vfio.rst). A GPU brings the other functions of its slot
along (audio, USB, USB-C), and the NVSwitches of its group; anything else in the group is a foreign function.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from .. import bios, passthrough
from .. import cmdline as line
from ..model import REBOOT, Call, CmdlineRequest, Decision, Problem, Step
from ..passthrough import Binding
from ..state import Function, State
from . import iommu

AFTER = ("iommu",)
READS = ("iommu", "bios")
OWNED: Tuple[str, ...] = ()
FILES = passthrough.FILES
PROBE = (*FILES, "/proc/modules", passthrough.DEVICES + "/*/boot_vga")

NAME = "gpu_passthrough"
MODULE = "nearmetal.rack.gpu_passthrough"
VARIABLE = "gpu_passthrough_devices"
TARGETS = ("03", "0b", "12")
"""Display, processors, accelerators."""
NVSWITCH = "0680"
_IDLE = ("nouveau", "nvidiafb")
"""Drivers that show a picture at most."""
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}\Z")


class Found(NamedTuple):
    """What is handed over. binding: for the module; why: address to the reason that it goes along, "" if asked for."""

    binding: Binding
    why: Dict[str, str]


def problems(options: Mapping[str, Any]) -> List[Problem]:
    """Cross-field checks, no host needed."""
    found = []
    for text in options["devices"]:
        if not _ADDRESS.match(text) and not _ID.match(text):
            fix = "write 0000:17:00.0, or 10de:2330 for all of a kind"
            found.append(Problem(VARIABLE, text, "%r is neither a PCI address nor an id" % text, fix))
    if len(set(options["devices"])) < len(options["devices"]):
        found.append(Problem(VARIABLE, options["devices"], "a device is given twice", "give it once"))
    return found


def cmdline(options: Mapping[str, Any], state: State) -> CmdlineRequest:
    """Where the initramfs belongs to the image (ostree), only the kernel's arguments keep a driver off early."""
    off = [name for driver in options["keep_off"] for name in passthrough.KEEP_OFF[driver]]
    if not off or not options["devices"] or state["boot"]["loader"] != "ostree":
        return CmdlineRequest()
    return CmdlineRequest(("modprobe.blacklist=" + ",".join(off),), (), "drivers of GPUs for guests are kept off")


def decide(options: Mapping[str, Any], state: State) -> Decision:
    """Steps, and the one module call."""
    wanted, found = select(options, state)
    needed, warnings = _needed_elsewhere(wanted, state)
    found += [*_console(options, wanted, state), *needed]
    requires, more = _translation(options, wanted, state)
    mixed = _foreign(wanted, state)
    if mixed and bios.turning_on(options.get("bios"), state.get("bmc"), "acs"):
        warnings += ["%s; ACS is switched on in the BIOS, so that groups are others after the reboot" % p.message for p in mixed]
        requires, mixed = ("bios/acs", REBOOT), []
    found += [*mixed, *more]
    if found:
        return Decision(problems=tuple(found))
    files = state.get("files", {})
    steps = [_file_step(wanted, files, requires)] if passthrough.file_changes(wanted.binding, files) else []
    later: List[str] = []
    for function in state["pci"] if state["live"] else ():
        driver = wanted.binding.drivers.get(function["address"])
        if driver is None or function["driver"] == driver:
            continue
        step = _bind_step(function, driver, wanted, files.get("/proc/modules", ""), requires)
        if step.disruption == "reboot":
            later.append(function["address"])
            if _in_vain(step, state):
                found.append(_still(step))
        steps.append(step)
    if found:
        return Decision(problems=tuple(found))
    if not any(step.disruption == "none" for step in steps):
        return Decision(tuple(steps), warnings=tuple(warnings))
    return Decision(tuple(steps), Call(MODULE, _args(wanted.binding, later)), (), tuple(warnings))


def _args(binding: Binding, later: Sequence[str]) -> Dict[str, Any]:
    functions = [
        {"address": address, "driver": driver, "now": address not in later}
        for address, driver in sorted(binding.drivers.items())
    ]
    ids = [{"id": one, "driver": driver} for one, driver in sorted(binding.ids.items())]
    return {"functions": functions, "ids": ids, "keep_off": list(binding.keep_off)}


def select(options: Mapping[str, Any], state: State) -> Tuple[Found, List[Problem]]:
    """The functions asked for with those that go along, and what is wrong with the devices asked for."""
    found: List[Problem] = []
    drivers: Dict[str, str] = {}
    why: Dict[str, str] = {}
    known = {f["address"]: f for f in state["pci"]}
    for text in options["devices"]:
        hits = [known[text]] if text in known else [f for f in state["pci"] if _id(f) == text]
        if not hits and (state["live"] or known):
            found.append(_absent(text, state))
        for function in hits:
            if not _is_target(function):
                message = "%s is no GPU or NVSwitch (class %s)" % (function["address"], function["class"])
                found.append(Problem(VARIABLE, text, message, "name a display controller or an accelerator"))
            why[function["address"]] = ""
            drivers[function["address"]] = options["driver"] if function["class"][2:4] != "06" else passthrough.VFIO
    for address in list(why):
        for function in state["pci"]:
            reason = _along(function, known[address])
            if reason and function["address"] not in why:
                why[function["address"]] = reason
                drivers[function["address"]] = passthrough.VFIO
    ids = {text: options["driver"] for text in options["devices"] if _ID.match(text)}
    keep_off = list(options["keep_off"]) if options["devices"] else []
    return Found(Binding(drivers, ids, keep_off), why), found


def _id(function: Function) -> str:
    return "%s:%s" % (function["vendor"][2:], function["device"][2:])


def _is_target(function: Function) -> bool:
    return function["class"][2:4] in TARGETS or function["class"][2:6] == NVSWITCH


def _absent(text: str, state: State) -> Problem:
    gpus = ["%s (%s)" % (f["address"], _id(f)) for f in state["pci"] if _is_target(f)]
    message = "there is no device %s on this host; it has %s" % (text, ", ".join(gpus) or "no GPU")
    return Problem(VARIABLE, text, message, "name one of these", "host")


def _along(function: Function, gpu: Function) -> str:
    """Why a function goes along with a GPU, "" if it does not."""
    if function["address"] == gpu["address"] or function["class"][2:6] == "0604":
        return ""
    if function["address"].rpartition(".")[0] == gpu["address"].rpartition(".")[0]:
        return "it is a function of the same card as %s" % gpu["address"]
    group = gpu["iommu_group"]
    if group is not None and function["iommu_group"] == group and function["class"][2:6] == NVSWITCH:
        return "it is an NVSwitch in the IOMMU group of %s" % gpu["address"]
    return ""


def _foreign(wanted: Found, state: State) -> List[Problem]:
    found = []
    known = {f["address"]: f for f in state["pci"]}
    groups = {known[a]["iommu_group"]: a for a in sorted(wanted.why, reverse=True)}
    for function in state["pci"]:
        group = function["iommu_group"]
        if group is None or group not in groups or function["address"] in wanted.why or function["class"][2:6] == "0604":
            continue
        text = "%s is in the IOMMU group %d together with %s (%s, class %s), which is nothing of it" % (
            groups[group], group, function["address"], function["driver"] or "no driver", function["class"])  # fmt: skip
        fix = "a group goes to a guest whole: use another slot, switch ACS on in the BIOS, or list that function too if it is a GPU"
        found.append(Problem(VARIABLE, function["address"], text, fix, "host"))
    return found


def _console(options: Mapping[str, Any], wanted: Found, state: State) -> List[Problem]:
    found = []
    for address in sorted(wanted.why):
        shown = state.get("files", {}).get("%s/%s/boot_vga" % (passthrough.DEVICES, address), "").strip()
        if shown == "1" and not options["accept_console"]:
            text = "%s is the console of this host (boot VGA): its screen would go dark" % address
            fix = "set gpu_passthrough_accept_console: true where there is another way in (BMC, serial console)"
            found.append(Problem(VARIABLE, address, text, fix))
    return found


def _needed_elsewhere(wanted: Found, state: State) -> Tuple[List[Problem], List[str]]:
    """A driver that is to be kept off, but that has a GPU which stays with the host: refused where it may do real work."""
    found, warnings = [], []
    for function in state["pci"]:
        driver = function["driver"]
        if not driver or driver not in wanted.binding.keep_off or function["address"] in wanted.why:
            continue
        text = "%s stays with the host and has the driver %s, which is to be kept off" % (function["address"], driver)
        if driver in _IDLE:
            warnings.append(text)
        else:
            fix = "take %s out of gpu_passthrough_keep_off, or hand that device over too" % driver
            found.append(Problem("gpu_passthrough_keep_off", driver, text, fix))
    return found, warnings


def _translation(options: Mapping[str, Any], wanted: Found, state: State) -> Tuple[Tuple[str, ...], List[Problem]]:
    """(the steps to wait for where the IOMMU comes only with the reboot, what is wrong with it)."""
    known = {f["address"]: f for f in state["pci"]}
    bare = [a for a in sorted(wanted.why) if known[a]["iommu_group"] is None]
    running = state["kernel"]["cmdline"]
    if not bare or not state["live"] or running is None:
        return (), []
    asked = options.get("iommu")
    if asked and asked.get("mode") in ("passthrough", "translated"):
        request = iommu.cmdline(asked, state)
        if line.missing(line.parse(running), request.args, request.absent) != ([], []):
            return ("kernel_args/cmdline", REBOOT), []
    if bios.turning_on(options.get("bios"), state.get("bmc"), "iommu"):
        return ("bios/iommu", REBOOT), []
    text = "%s is in no IOMMU group: nothing would translate for a guest" % bare[0]
    return (), [Problem(VARIABLE, bare[0], text, "set iommu_mode: passthrough, and VT-d or AMD-Vi in the BIOS", "host")]


def _file_step(wanted: Found, files: Mapping[str, str], requires: Tuple[str, ...]) -> Step:
    binding = wanted.binding
    count = len(binding.drivers) or len(binding.ids)
    after = "%d to %s" % (count, passthrough.VFIO) if count else "nothing handed over"
    off = ", %s kept off" % ", ".join(binding.keep_off) if binding.keep_off else ""
    return Step(
        NAME, "boot", "otherwise" if any(path in files for path in FILES) else "nothing is kept for the boot", after + off,
        "drivers are chosen anew at every boot", "none", "content of " + ", ".join(FILES), requires,
    )  # fmt: skip


def _bind_step(function: Function, driver: str, wanted: Found, modules: str, requires: Tuple[str, ...]) -> Step:
    have = function["driver"]
    busy = passthrough.users(modules, have) if have and not requires else 0
    reason = wanted.why[function["address"]] or "it is for guests"
    if busy:
        reason += "; %s is in use (%d times), so that it is not taken away from it before the reboot" % (have, busy)
    return Step(
        NAME, function["address"], have or "no driver", driver, reason, "reboot" if busy else "none",
        "%s/%s/driver is %s" % (passthrough.DEVICES, function["address"], driver), requires,
    )  # fmt: skip


def _in_vain(step: Step, state: State) -> bool:
    last = state["last_reboot"]
    if last is None or last["boot_id"] == state["kernel"]["boot_id"]:
        return False
    return "%s=%s" % (step.id, step.after) in last["wanted"].splitlines()


def _still(step: Step) -> Problem:
    text = "the host was rebooted so that %s takes %s, but %s has it again" % (step.after, step.key, step.before)
    fix = "no further reboot is made. Is it in the initramfs (lsinitramfs, lsinitrd)? Add %s to gpu_passthrough_keep_off"
    return Problem(VARIABLE, step.key, text, fix % step.before, "host")
