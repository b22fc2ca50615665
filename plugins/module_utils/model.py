# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words in which every capability speaks: problems, steps, calls, decisions.

A capability is a Python module in `module_utils/capabilities/`, named like its role, with

    AFTER: tuple of capability names                      that must be decided and done before it
    COUNTS: tuple of "cpus", "nodes" (optional)           what of the topology it counts with; while another capability
                                                          moves that, it is decided after the reboot (see later.py)
    READS: tuple of capability names (optional)           whose options it is given too: options["vf_lag"], None
                                                          where that capability is not managed on the host
    problems(options) -> list of Problem                  cross-field checks, no host needed
    cmdline(options, state) -> CmdlineRequest             kernel arguments that it needs
    decide(options, state) -> Decision                    everything else

`options` are the role's variables without the prefix, already checked against the role's
`meta/argument_specs.yml`, defaults filled in. `state` is the document of `host_info` (see
state.py). All three functions are pure: no file, no command, no clock.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, Iterable, List, Tuple

DISRUPTIONS = ("none", "traffic", "drain", "reboot", "power_cycle")
"""From harmless to harsh; a plan sorts and counts by them."""

POWER_CYCLE = "power_cycle"
AT_BOOT = ("reboot", POWER_CYCLE)
"""Disruptions of steps that share the one reboot; one that needs a power cycle makes it a power cycle for all."""

REBOOT = "reboot"
"""The step that a step names in `requires` when it can only be done after the one reboot."""


@dataclass(frozen=True)
class Problem:
    """One thing that stops a host: what is wrong, where, and what to do.

    kind: "intent" (the variables ask for what cannot be: exit 65) or "host" (the host is not as it
    should be although everything was done, or it refuses: exit 1).
    """

    variable: str
    value: Any
    message: str
    fix: str
    kind: str = "intent"

    def as_dict(self) -> Dict[str, Any]:
        """The form that travels."""
        return asdict(self)


@dataclass(frozen=True)
class Step:
    """One difference between host and intent, as an operator wants to read it."""

    capability: str
    key: str  # unique within capability and host: "cmdline", "node0-2048kB"
    before: str
    after: str
    reason: str
    disruption: str
    verify: str  # what will be read back, and where: "/sys/devices/system/cpu/isolated is 2-7"
    requires: Tuple[str, ...] = ()  # ids without the host ("kernel_args/cmdline"), or REBOOT

    @property
    def id(self) -> str:
        """Unique within a host."""
        return "%s/%s" % (self.capability, self.key)


@dataclass(frozen=True)
class Call:
    """The one module call that carries out a capability's steps."""

    module: str  # "nearmetal.rack.hugepages"
    args: Dict[str, Any]


@dataclass(frozen=True)
class Decision:
    """What a capability wants on a host. No steps: the host is as intended."""

    steps: Tuple[Step, ...] = ()
    call: Any = None  # Call, or None where only a reboot is missing
    problems: Tuple[Problem, ...] = ()
    warnings: Tuple[str, ...] = ()
    moves: Dict[str, str] = field(default_factory=dict)  # "cpus", "nodes": why the reboot changes them


@dataclass(frozen=True)
class CmdlineRequest:
    """Kernel arguments asked for by one capability.

    args: words; a name given several times means exactly that sequence, in place of all former
    words of that name. absent: names, or name=value for that word only. why: for the plan.
    """

    args: Tuple[str, ...] = ()
    absent: Tuple[str, ...] = ()
    why: str = ""

    def __bool__(self) -> bool:
        return bool(self.args or self.absent)


@dataclass
class IntentError(Exception):
    """Raised where a value cannot be worked with at all; carries the problems to show."""

    found: List[Problem] = field(default_factory=list)

    def __str__(self) -> str:
        return "; ".join(p.message for p in self.found)


def reboot_words(steps: Iterable[Step]) -> str:
    """What a reboot is for, one line "id=after" per step that needs one, sorted."""
    return "\n".join(sorted("%s=%s" % (step.id, step.after) for step in steps if step.disruption in AT_BOOT))


def reboot_digest(steps: Iterable[Step]) -> str:
    """Fingerprint of what a reboot is for: equal where a second reboot would be for the same reason."""
    return hashlib.sha256(reboot_words(steps).encode("utf-8", "surrogatepass")).hexdigest()
