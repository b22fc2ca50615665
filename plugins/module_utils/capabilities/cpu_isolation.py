# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUs for guests: the host's daemons and interrupts stay on a few reserved cores.

Both modes confine daemons and logins by cpusets and steer interrupts. Mode `kernel` adds the boot
arguments isolcpus, nohz_full, rcu_nocbs and irqaffinity: the scheduler's domains, ticks and RCU
callbacks leave the isolated CPUs as well, at the price of a reboot and of load balancing there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from .. import cpulist, irq, slices
from ..model import REBOOT, Call, CmdlineRequest, Decision, IntentError, Problem, Step
from ..partition import Request, cores_per_node, partition
from ..state import State

AFTER: Tuple[str, ...] = ()
COUNTS = ("cpus", "nodes")
OWNED = ("isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity")
FILES = slices.FILES + irq.STEER_FILES + irq.BALANCE_FILES
PROBE = (*FILES, irq.UNMOVABLE)

_PREFIX = "cpu_isolation_"
_BDF = re.compile(r"([0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_REQUEST = ("reserved_cores_per_node", "reserved_cores", "reserved_cpus", "near")


@dataclass(frozen=True)
class Desired:
    """What the module is told: everything is resolved to CPUs of this host."""

    present: bool
    mode: str = "cpusets"
    reserved: FrozenSet[int] = frozenset()
    isolated: FrozenSet[int] = frozenset()
    unplaced: Tuple[str, ...] = ()  # devices to be near to, of which the host does not say where they are

    def args(self) -> Dict[str, Any]:
        """The module's options."""
        if not self.present:
            return {"state": "absent"}
        return {"state": "present", "mode": self.mode, "reserved": cpulist.format(self.reserved)}


def problems(options: Mapping[str, Any]) -> List[Problem]:
    """Cross-field checks, no host needed."""
    if options["state"] == "absent":
        return []
    found = _numbers(options)
    try:
        cpulist.parse(options["reserved_cpus"])
    except ValueError as err:
        found.append(_problem("reserved_cpus", options["reserved_cpus"], str(err), "write a list such as 0-1,40-41"))
    for address in options["near"]:
        if not _BDF.fullmatch(address.strip().lower()):
            found.append(
                _problem("near", address, "%r is no PCI address" % address, "write it as 0000:17:00.0")
            )  # fmt: skip
    flags = options["isolcpus_flags"]
    if options["mode"] == "kernel" and flags and "domain" not in flags:
        text = "isolcpus with the flags %s alone isolates no CPU from the scheduler" % ",".join(flags)
        found.append(_problem("isolcpus_flags", flags, text, "add domain, or use cpu_isolation_mode: cpusets"))
    return found


def _numbers(options: Mapping[str, Any]) -> List[Problem]:
    found = []
    asked = cores_per_node(options["reserved_cores_per_node"])
    counts = list(asked.values()) if isinstance(asked, dict) else [asked]
    if asked is None or any(c is None or c < 0 for c in counts):
        value = options["reserved_cores_per_node"]
        text = "%r is neither a number of cores nor a list of them by NUMA node" % (value,)
        found.append(_problem("reserved_cores_per_node", value, text, "write 2, or {0: 2, 1: 1}"))
    if options["reserved_cores"] < 0:
        value = options["reserved_cores"]
        found.append(_problem("reserved_cores", value, "%d cores cannot be reserved" % value, "write 1 or more"))
    if options["reserved_cores"] and options["reserved_cpus"].strip():
        text = "the host's CPUs are given twice, as a number of cores and as a list"
        found.append(_problem("reserved_cpus", options["reserved_cpus"], text, "keep one of the two"))
    return found


def _problem(option: str, value: Any, message: str, fix: str, kind: str = "intent") -> Problem:
    return Problem(_PREFIX + option, value, message, fix, kind)


def desired(options: Mapping[str, Any], state: State) -> Desired:
    """The intent as CPUs of this host; raises IntentError where it does not fit."""
    if options["state"] == "absent":
        return Desired(False)
    asked = cores_per_node(options["reserved_cores_per_node"])
    if asked is None:
        raise IntentError(_numbers(options))
    names = [_PREFIX + name for name in _REQUEST]
    request = Request(
        asked, options["reserved_cores"], options["reserved_cpus"], tuple(options["near"]),
        options["near_policy"], (names[0], names[1], names[2], names[3]),
    )  # fmt: skip
    result = partition(state, request)
    unplaced = tuple(address for address, cpus in result.near.items() if not cpus)
    return Desired(True, options["mode"], result.reserved, result.isolated, unplaced)


def cmdline(options: Mapping[str, Any], state: State) -> CmdlineRequest:
    """Kernel arguments of mode `kernel`; every other mode wants none of them.

    Only those that stand somewhere are asked to go: a host whose arguments cannot be changed is fine
    as long as nothing needs to be changed.
    """
    want = desired(options, state)
    if not want.present:
        return CmdlineRequest(absent=_standing(OWNED, state), why="CPU isolation is removed")
    if want.mode != "kernel":
        why = "CPUs are isolated by cpusets, not by the kernel"
        return CmdlineRequest(absent=_standing(OWNED, state), why=why)
    isolated = cpulist.format(want.isolated)
    values = {"isolcpus": ",".join([*options["isolcpus_flags"], isolated])}
    if options["nohz_full"]:
        values["nohz_full"] = isolated
    if options["rcu_nocbs"]:
        values["rcu_nocbs"] = isolated
    values["irqaffinity"] = cpulist.format(want.reserved)
    return CmdlineRequest(
        args=tuple("%s=%s" % item for item in values.items()),
        absent=_standing([name for name in OWNED if name not in values], state),
        why="CPUs %s are isolated for guests" % isolated,
    )


def _standing(names: Sequence[str], state: State) -> Tuple[str, ...]:
    """Those of the names that a running or configured command line has."""
    lines = [state["kernel"]["cmdline"] or "", state["boot"]["configured"] or "", *state["boot"].get("others", [])]
    words = {word.partition("=")[0].replace("-", "_") for line in lines for word in line.split()}
    return tuple(name for name in names if name in words)


def decide(options: Mapping[str, Any], state: State) -> Decision:
    """Steps, and the one module call that does them."""
    want = desired(options, state)
    found = hindrances(want, state)
    steps = runtime_steps(want, state)
    call = Call("nearmetal.rack.cpu_isolation", want.args()) if steps else None
    if want.present and want.mode == "kernel" and state["live"]:
        later, more = _booted(options, want, state)
        steps, found = steps + later, found + more
    return Decision(tuple(steps), call, tuple(found), tuple(_warnings(want, state)))


def hindrances(want: Desired, state: State) -> List[Problem]:
    """Why this host cannot be brought there."""
    if not want.present or not state["live"]:
        return []
    found = []
    if not state["os"]["systemd"]:
        found.append(_problem("mode", want.mode, "the host does not run systemd", "use a host with systemd", "host"))
    elif want.mode == "cpusets" and not _cpusets(state):
        text = "the host has no cpuset controller in a unified control group hierarchy (found: %s)"
        fix = "boot with systemd.unified_cgroup_hierarchy=1 (kernel_args_present), or use cpu_isolation_mode: kernel"
        found.append(_problem("mode", want.mode, text % (state["confinement"]["cgroup"] or "unknown"), fix, "host"))
    return found


def _cpusets(state: State) -> bool:
    return state["confinement"]["cgroup"] == "v2"


def files(want: Desired, state: State) -> Dict[str, Optional[str]]:
    """What each of FILES must hold; None: it must not be there."""
    content: Dict[str, Optional[str]] = dict.fromkeys(FILES)
    if not want.present:
        return content
    if _cpusets(state) or not state["live"]:
        content.update(slices.files(want.reserved))
    nodes = {n["id"]: cpulist.parse(n["cpus"]) for n in state["cpu"]["nodes"]}
    content.update(irq.steer_files(want.reserved, nodes, cpulist.parse(state["cpu"]["present"])))
    content.update(irq.balance_files(want.isolated))  # also where it may be installed one day
    return content


def differing(want: Desired, state: State) -> Dict[str, Optional[str]]:
    """Those of `files` that are not as they must be."""
    have = state["confinement"]["files"]
    return {path: text for path, text in files(want, state).items() if have.get(path) != text}


def runtime_steps(want: Desired, state: State) -> List[Step]:
    """What the module can do now: files, cpusets, interrupts."""
    wrong = set(differing(want, state))
    if not want.present:
        return _undo_steps(wrong)
    steps = [_slices(want, state, wrong), _interrupts(want, state, wrong), _irqbalance(want, state, wrong)]
    return [step for step in steps if step is not None]


def _step(key: str, before: str, after: str, reason: str, verify: str) -> Step:
    return Step("cpu_isolation", key, before, after, reason, "none", verify)


def _slices(want: Desired, state: State, wrong: "set[str]") -> Optional[Step]:
    now = slices.loose(state["confinement"], want.reserved) if state["live"] and _cpusets(state) else []
    if not now and not wrong & set(slices.FILES):
        return None
    before = slices.found(state["confinement"], now) if now else "confined, but not after the next boot"
    return _step(
        "slices", before, cpulist.format(want.reserved),
        "daemons and logins stay off the CPUs of guests (%s)" % cpulist.format(want.isolated),
        "cpuset.cpus.effective of %s is %s" % (", ".join(slices.UNITS), cpulist.format(want.reserved)),
    )  # fmt: skip


def _interrupts(want: Desired, state: State, wrong: "set[str]") -> Optional[Step]:
    confinement = state["confinement"]
    before = []
    if state["live"]:
        default = confinement["default_irq_affinity"]
        online = cpulist.parse(state["cpu"]["online"])
        if default is not None and cpulist.parse(default) & online != want.reserved:
            before.append("new interrupts on %s" % default)
        known = irq.unmovable(confinement)
        astray = [i for i in irq.astray(confinement, want.reserved) if i["irq"] not in known]
        if astray:
            before.append("%d of %d on other CPUs: %s" % (len(astray), len(confinement["irqs"]), irq.brief(astray)))
    if not before and not wrong & set(irq.STEER_FILES):
        return None
    return _step(
        "irq-affinity", "; ".join(before) or "not steered at boot", cpulist.format(want.reserved),
        "interrupts do not disturb guests",
        "/proc/irq/*/effective_affinity_list and default_smp_affinity lie within %s"
        % cpulist.format(want.reserved),
    )  # fmt: skip


def _irqbalance(want: Desired, state: State, wrong: "set[str]") -> Optional[Step]:
    if not wrong & set(irq.BALANCE_FILES):
        return None
    isolated = cpulist.format(want.isolated)
    absent = state["confinement"]["irqbalance"] == "absent"
    before = "not installed; would use all CPUs" if absent else "may move interrupts to any CPU"
    return _step(
        "irqbalance", before, "CPUs %s banned" % isolated,
        "irqbalance would move interrupts back",
        "%s bans %s, and interrupts stay where they were steered to" % (irq.BALANCE_ENV, isolated),
    )  # fmt: skip


def _undo_steps(wrong: "set[str]") -> List[Step]:
    groups = (
        ("slices", slices.FILES, "daemons and logins confined", "no %s" % slices.FILES[1]),
        ("irq-affinity", irq.STEER_FILES, "interrupts steered", "no %s" % irq.UNIT),
        ("irqbalance", irq.BALANCE_FILES, "CPUs banned", "no %s" % irq.BALANCE_DROPIN),
    )
    return [
        _step(key, before, "all CPUs", "CPU isolation is removed", verify)
        for key, paths, before, verify in groups
        if wrong & set(paths)
    ]


def _booted(options: Mapping[str, Any], want: Desired, state: State) -> Tuple[List[Step], List[Problem]]:
    """Isolation by boot arguments: a step where it is still to be booted, a problem where it was."""
    checks = [("isolcpus", "isolated")] + ([("nohz_full", "nohz_full")] if options["nohz_full"] else [])
    steps: List[Step] = []
    found: List[Problem] = []
    for argument, name in checks:
        now = state["cpu"]["isolated"] if name == "isolated" else state["cpu"]["nohz_full"]
        path = "/sys/devices/system/cpu/%s" % name
        if now is not None and _cpus(now) == want.isolated:
            continue
        if booted_cpus(state["kernel"]["cmdline"] or "", argument) == want.isolated:
            found.append(_not_in_force(argument, path, now, want))
            continue
        steps.append(
            Step(
                "cpu_isolation", name, now or "none", cpulist.format(want.isolated),
                "the kernel keeps its work off the CPUs of guests", "reboot",
                "%s is %s" % (path, cpulist.format(want.isolated)), ("kernel_args/cmdline", REBOOT),
            )
        )  # fmt: skip
    return steps, found


def _not_in_force(argument: str, path: str, now: Optional[str], want: Desired) -> Problem:
    option = {"isolcpus": "isolcpus_flags", "nohz_full": "nohz_full"}[argument]
    asked = cpulist.format(want.isolated)
    text = "the kernel was booted with %s for CPUs %s, but %s says %r" % (argument, asked, path, now or "")
    fix = {
        "isolcpus": "look for 'isolcpus' in dmesg; a kernel before 5.6 does not know the flag managed_irq",
        "nohz_full": "set cpu_isolation_nohz_full: false, as this kernel seems to lack CONFIG_NO_HZ_FULL",
    }[argument]
    return _problem(option, asked, text, fix, "host")


def booted_cpus(cmdline: str, name: str) -> Optional[FrozenSet[int]]:
    """CPUs that the last argument of that name lists, flags left out; None where it is not there."""
    values = [word.partition("=")[2] for word in cmdline.split() if word.startswith(name + "=")]
    return _cpus(",".join(i for i in values[-1].split(",") if not i[:1].isalpha())) if values else None


def _cpus(text: str) -> Optional[FrozenSet[int]]:
    try:
        return cpulist.parse(text)
    except ValueError:
        return None  # "(null)", or a form that only the kernel understands


def _warnings(want: Desired, state: State) -> List[str]:
    if not want.present:
        return []
    confinement, found = state["confinement"], []
    if want.unplaced:
        found.append("the firmware does not say in which NUMA node %s is" % ", ".join(want.unplaced))
    if not state["live"]:
        return found
    known = irq.unmovable(confinement)
    stuck = [i for i in irq.astray(confinement, want.reserved) if i["irq"] in known]
    if stuck:
        text = (
            "%d interrupts stay on CPUs of guests, as the kernel does not let them go (per-CPU, managed by "
            "their driver, or no free vector on the host's CPUs): %s"
        )
        found.append(text % (len(stuck), irq.brief(stuck)))
    if want.mode == "kernel" and not _cpusets(state):
        found.append("no unified cpusets on this host: daemons are kept off by isolcpus alone")
    guests = confinement["effective"].get("machine.slice")
    if guests and not want.isolated <= cpulist.parse(guests):
        found.append("machine.slice is confined to CPUs %s: guests cannot use all isolated ones" % guests)
    return found
