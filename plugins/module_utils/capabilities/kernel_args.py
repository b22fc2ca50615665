# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel arguments: those asked for by hand, and the one place where all capabilities' are decided."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .. import cmdline as line
from ..cmdline import Request
from ..model import Call, CmdlineRequest, Decision, Problem, Step
from ..state import State
from ..words import Word, clash, joined, meaning, same

AFTER: Tuple[str, ...] = ()
OWNED: Tuple[str, ...] = ()
NAME = "kernel_args"
MODULE = "nearmetal.rack.kernel_cmdline"

_VARIABLES = {"args": "kernel_args_present", "absent": "kernel_args_absent"}


def problems(options: Mapping[str, Any]) -> List[Problem]:
    """Words that are none, and words that are to be both there and gone."""
    found = line.faults(options.get("present") or (), options.get("absent") or ())
    return [Problem(_VARIABLES[f.option], f.value, "%r %s" % (f.value, f.message), f.fix) for f in found]


def cmdline(options: Mapping[str, Any], state: State) -> CmdlineRequest:
    """The words of kernel_args_present and kernel_args_absent as they are."""
    return CmdlineRequest(
        tuple(options.get("present") or ()), tuple(options.get("absent") or ()), "asked for by kernel_args_*"
    )


def decide(options: Mapping[str, Any], state: State) -> Decision:
    """Decide this capability's own request alone."""
    request = cmdline(options, state)
    return decide_requests({NAME: request}, state) if request else Decision()


def decide_requests(requests: Mapping[str, CmdlineRequest], state: State) -> Decision:
    """The requests of all capabilities as one: at most one step, one module call, one reboot."""
    conflicts, args, absent = merge(requests)
    if conflicts or not (args or absent):
        return Decision(problems=tuple(conflicts))
    refusal = _cannot(args, state)
    if refusal is not None and not _in_force(args, absent, state):
        return Decision(problems=(refusal,))
    if refusal is not None:
        return Decision(warnings=("the arguments are in force, but cannot be kept: %s" % refusal.message,))
    wanted = line.request(args, absent)
    lines = [state["boot"]["configured"] or "", *state["boot"].get("others", [])]
    written = all(not line.changes([line.parse(text)], wanted) for text in lines)
    running = state["kernel"]["cmdline"]
    booted = running is not None and line.lacking(line.parse(running), wanted) == ([], [])
    if written and (booted or running is None):
        return Decision()
    step = _step(wanted, lines, running, written, booted, requests)
    if written:
        again = _second_time(step, state)
        return Decision(problems=(again,)) if again is not None else Decision(steps=(step,))
    call = Call(MODULE, {"args": list(args), "absent": list(absent)})
    return Decision(steps=(step,), call=call)


def merge(requests: Mapping[str, CmdlineRequest]) -> Tuple[List[Problem], List[str], List[str]]:
    """(conflicts, args, absent) of all requests. A group asked for twice must mean the same twice.

    Of lists of flags the larger one is kept: intel_iommu=on,sm_on contains intel_iommu=on. Flags of pci= are put together.
    """
    owner: Dict[str, str] = {}
    groups: Dict[str, List[Word]] = {}
    found: List[Problem] = []
    for name, asked in requests.items():
        try:
            wanted = line.request(asked.args, asked.absent)
        except ValueError as err:
            found.append(Problem(name, list(asked.args), "kernel arguments: %s" % err, "correct the list"))
            continue
        for group, words in wanted.groups.items():
            other = groups.get(group)
            if other is None or same(words, other):
                owner[group], groups[group] = name, words
            elif not clash(other, words):
                groups[group] = joined(other, words)
            elif not same(other, words):
                found.append(_conflict(line.join(words), name, line.join(other), owner[group]))
    absent: List[str] = []
    for name, asked in requests.items():
        for text in asked.absent:
            hit = _removed(text, groups)
            if hit and owner[hit[0].group] != name:
                found.append(_conflict("no " + text, name, line.join(hit), owner[hit[0].group]))
            elif text not in absent:
                absent.append(text)
    return found, [word.raw for words in groups.values() for word in words], absent


def _removed(text: str, groups: Mapping[str, List[Word]]) -> List[Word]:
    """The asked words that an item of `absent` would remove."""
    words = line.parse(text)
    if not words:
        return []
    there = groups.get(words[0].group, [])
    return [word for word in there if words[0].value is None or meaning(word) == meaning(words[0])]


def _conflict(one: str, name: str, two: str, other: str) -> Problem:
    return Problem(
        "%s, %s" % (other, name), [two, one],
        "%s asks for %s, but %s asks for %s" % (other, two, name, one),
        "change the variables %s_* or %s_* so that both want the same" % (other, name),
    )


def _cannot(args: Sequence[str], state: State) -> Optional[Problem]:
    """Why nothing can be written on this host, or None."""
    boot = state["boot"]
    unread = [note["reason"] for note in state["unread"] if note["section"] == "boot"]
    if unread:
        return Problem(
            NAME, list(args), "the boot configuration could not be read: %s" % "; ".join(unread),
            "run with become: true, and repair the file", "host",
        )
    if boot["sealed"] or boot["configured"] is None:
        return Problem(
            NAME, list(args),
            "kernel arguments cannot be changed on this host: %s" % (boot["sealed"] or "no boot loader was found"),
            "change them where they come from, or remove what asks for them from this host's variables", "host",
        )
    return None


def _in_force(args: Sequence[str], absent: Sequence[str], state: State) -> bool:
    running = state["kernel"]["cmdline"]
    return running is not None and line.missing(line.parse(running), args, absent) == ([], [])


def _step(
    wanted: Request, lines: Sequence[str], running: Optional[str], written: bool, booted: bool,
    requests: Mapping[str, CmdlineRequest],
) -> Step:
    """The difference. `after` depends on what is not yet in force, so that it stays the same over a reboot."""
    texts = list(lines) if booted or running is None else [running, *lines]
    lack: Dict[str, None] = {}
    gone: Dict[str, None] = {}
    for text in texts:
        less, more = line.lacking(line.parse(text), wanted)
        lack.update(dict.fromkeys(less))
        gone.update(dict.fromkeys(more))
    if not lack and not gone:  # only the order or the place of words differs
        lack.update(dict.fromkeys(word.raw for words in wanted.groups.values() for word in words))
    names = [word.name for word in line.parse(" ".join([*lack, *gone]))]
    before = line.join(line.of_groups(line.parse(texts[0]), names))
    after = " ".join([*lack, *("-" + word for word in gone)])
    why = ["%s: %s" % (name, asked.why) for name, asked in requests.items() if asked]
    return Step(
        NAME, "cmdline", before or "none of them", after, "; ".join(why + _where(written, booted, lines, wanted)),
        "none" if booted else "reboot", _verify(wanted),
    )


def _verify(wanted: Request) -> str:
    has = line.join(word for words in wanted.groups.values() for word in words)
    gone = [*wanted.names, *wanted.texts]
    clauses = ["has %s" % has] if has else []
    clauses += ["has no %s" % ", ".join(gone)] if gone else []
    return "/proc/cmdline %s" % " and ".join(clauses)


def _where(written: bool, booted: bool, lines: Sequence[str], wanted: Request) -> List[str]:
    if written:
        return ["written, not booted yet"]
    if not line.changes([line.parse(lines[0])], wanted):
        return ["the default boot entry is right, but other entries or kernels installed later would lack it"]
    return ["the running kernel has it, but the next boot would not"] if booted else []


def _second_time(step: Step, state: State) -> Optional[Problem]:
    """The loop breaker: a problem where a reboot for these words was made already and did not help."""
    last = state["last_reboot"]
    if last is None or last["boot_id"] == state["kernel"]["boot_id"]:
        return None
    sign = "%s=" % step.id
    booted_for = [text[len(sign) :] for text in last["wanted"].splitlines() if text.startswith(sign)]
    if not booted_for or not set(line.parse(step.after)) <= set(line.parse(booted_for[0])):
        return None
    return Problem(
        NAME, step.after,
        "a reboot for these kernel arguments was made, but they are still not in force. Written (%s): %s. "
        "Booted (/proc/cmdline): %s"
        % (state["boot"]["loader"], state["boot"]["configured"], state["kernel"]["cmdline"]),
        "no further reboot is made. Look whether another entry was booted (one-shot entry, firmware boot order, "
        "another disk), another boot loader or PXE gives the arguments, its configuration is not the one that is "
        "read here (%s), or the loader drops them" % (", ".join(state["boot"]["sources"]) or "none"), "host",
    )
