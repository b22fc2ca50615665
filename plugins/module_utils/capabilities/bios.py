# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BIOS settings of a host, over the Redfish service of its BMC: what is not in force, and what the one reboot is for."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple
from urllib.parse import urlsplit

from .. import bios
from ..bios.intent import wishes
from ..bios.values import text
from ..model import Call, CmdlineRequest, Decision, Problem, Step
from ..state import State

AFTER: Tuple[str, ...] = ()
OWNED: Tuple[str, ...] = ()

MODULE = "nearmetal.rack.bios_settings"
PASSED = ("settings", "preset", "attributes", "strict", "foreign_pending")
"""Options that the module is told; where the BMC is, and who may ask it, stays with the controller."""

_FEW = 4


def problems(options: Mapping[str, Any]) -> List[Problem]:
    """Cross-field checks, no host needed."""
    found = bios.intent_problems(options)
    uri = options.get("baseuri") or ""
    if not asked(options):
        return found
    if not uri:
        text_ = "BIOS settings are asked for, but not where the host's BMC is"
        return [*found, Problem("bios_baseuri", uri, text_, "set bios_baseuri: https://ADDRESS for this host")]
    parts = urlsplit(uri)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        found.append(Problem("bios_baseuri", _shown(uri), "this is no address of a BMC", "write https://ADDRESS"))
    elif parts.username or parts.password:
        fix = "use bios_username and bios_password (a vault)"
        found.append(Problem("bios_baseuri", _shown(uri), "an address with a name or password in it", fix))
    return found


def _shown(uri: str) -> str:
    return uri.rpartition("@")[2]


def asked(options: Mapping[str, Any]) -> bool:
    """Whether anything is asked for; credentials alone, set for a whole group, are not."""
    return bool(options.get("settings") or options.get("preset") or options.get("attributes"))


def cmdline(options: Mapping[str, Any], state: State) -> CmdlineRequest:
    """No kernel arguments."""
    return CmdlineRequest()


def decide(options: Mapping[str, Any], state: State) -> Decision:
    """A step for each word or raw attribute that is not in force; a call where something is to be submitted."""
    if not asked(options):
        return Decision()
    if not state["live"]:
        return Decision(warnings=("the BIOS is not looked at in a tree",))
    bmc: Any = state.get("bmc")
    if bmc is None:
        fix = "this is done by the controller: use the playbooks, or the action plan"
        return Decision(problems=(Problem("bios_baseuri", options.get("baseuri"), "the BMC was not read", fix, "host"),))
    result = bios.compare(options, bmc)
    steps = _steps(options, result, bmc)
    vain = [problem for problem in (_in_vain(step, result, bmc, state) for step in steps) if problem]
    warnings = [*result.warnings, *_warnings(options, result, state)]
    found = (*result.problems, *vain)
    if found:
        return Decision(problems=found, warnings=tuple(warnings))
    call = Call(MODULE, {name: options.get(name) for name in PASSED}) if result.body or result.clear else None
    return Decision(tuple(steps), call, (), tuple(warnings), bios.topology_changes(options, bmc))


def _steps(options: Mapping[str, Any], result: bios.Comparison, bmc: Mapping[str, Any]) -> List[Step]:
    waiting = {**result.requested, **result.pending}
    by_key: Dict[str, List[str]] = {}
    for name in result.wanted:
        if name in waiting:
            by_key.setdefault(result.words[name], []).append(name)
    steps = [_step(options, key, names, result, bmc) for key, names in by_key.items()]
    if result.clear or result.restored:
        pending = bmc["bios"].get("settings") or {}
        names = dict.fromkeys([*result.restored, *(result.foreign_pending if result.clear else ())])
        values = {name: pending.get(name) for name in names}
        steps.append(
            Step(
                "bios", "foreign_pending", _listed(values), "cleared",
                "values are pending that were not asked for: the next reboot would apply them", "none",
                "nothing but what is asked for is pending in %s" % (bmc["bios"].get("settings_path") or "the BMC"),
            )
        )  # fmt: skip
    return steps


def _step(
    options: Mapping[str, Any], key: str, names: List[str], result: bios.Comparison, bmc: Mapping[str, Any]
) -> Step:
    now = _listed({name: result.current.get(name) for name in names})
    then = _listed({name: result.wanted[name] for name in names})
    value = wishes(options).get(key)
    if key in bios.WORDS:
        known = key in result.before and result.before[key] != value
        now = "%s (%s)" % (text(result.before[key]), now) if known else now
        then = "%s (%s)" % (text(value), then)
    if all(name in result.pending for name in names):
        now += ", submitted, but not in force before a reset"
    about = bios.WORDS[key].about if key in bios.WORDS else "bios_attributes asks for it"
    if key not in bios.WORDS and key not in (options.get("attributes") or {}):
        about = "without it others cannot be set"
    path = bmc["bios"].get("path") or "the BIOS resource"
    return Step(
        "bios", key, now, then, "%s; the BIOS applies it when the host starts" % about, "reboot",
        "%s in %s, and nothing of it is pending" % (then if key not in bios.WORDS else _read_back(names, result), path),
    )  # fmt: skip


def _read_back(names: List[str], result: bios.Comparison) -> str:
    return "attribute " + " and ".join("%s is %s" % (name, result.wanted[name]) for name in names[:_FEW]) + (
        " (and %d more)" % (len(names) - _FEW) if len(names) > _FEW else "")  # fmt: skip


def _listed(values: Mapping[str, Any]) -> str:
    shown = ["%s=%s" % item for item in values.items()]
    return " ".join(shown[:_FEW]) + (" and %d more" % (len(shown) - _FEW) if len(shown) > _FEW else "")


def _in_vain(step: Step, result: bios.Comparison, bmc: Mapping[str, Any], state: State) -> Optional[Problem]:
    """The host was rebooted for this, and it is still not in force."""
    last = state["last_reboot"]
    if step.disruption != "reboot" or last is None or last["boot_id"] == state["kernel"]["boot_id"]:
        return None
    if "%s=%s" % (step.id, step.after) not in last["wanted"].splitlines():
        return None
    said = [line for line in bmc["bios"].get("messages") or () if "success" not in line.casefold()]
    jobs = ["%s %s" % (job.get("id"), job.get("state")) for job in bmc["bios"].get("jobs") or ()]
    message = "the host was rebooted for this, but %s is still %s" % (step.key, step.before)
    if said or jobs:
        message += ": " + "; ".join([*said, *jobs])
    fix = "no further reboot is made. Look at the BMC's log and at the setup screen; then -e nearmetal_reboot_retry=true"
    return Problem("bios_settings" if step.key in bios.WORDS else "bios_attributes", step.after, message, fix, "host")


def _warnings(
    options: Mapping[str, Any], result: bios.Comparison, state: State
) -> List[str]:
    found = ["BIOS: %s is not offered by this machine (%s)" % (n, result.reasons[n]) for n in result.unsupported]
    return found + _belied(options, result, state)


def _belied(options: Mapping[str, Any], result: bios.Comparison, state: State) -> List[str]:
    """What the BIOS says is in force, and the kernel shows otherwise: another machine's BMC, or a name that lies."""
    smt = wishes(options).get("smt")
    done = [n for n, key in result.words.items() if key == "smt" and n not in result.requested and n not in result.pending]
    threads = state["cpu"].get("threads_per_core")
    if not done or smt is None or threads is None:
        return []
    if smt is False and threads > 1:
        shown = "the kernel counts %d threads per core" % threads
    elif smt is True and state["cpu"].get("smt") == "notsupported":
        shown = "the kernel sees no SMT"
    else:
        return []
    return ["BIOS: %s, so smt is %s, but %s: is this the BMC of this host?" % (
        _listed({n: result.current[n] for n in done}), text(smt), shown)]  # fmt: skip
