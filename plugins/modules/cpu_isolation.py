#!/usr/bin/python
# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep a host's daemons and interrupts on a few of its CPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cpu_isolation
short_description: Keep daemons and interrupts off the CPUs of guests
version_added: 0.1.0
description:
  - Confines the systemd units C(init.scope), C(system.slice) and C(user.slice), with everything that runs in them, to
    the reserved CPUs. Guests (C(machine.slice)), pods (C(kubepods.slice)) and kernel threads are not confined.
  - Steers interrupts and the default affinity to the reserved CPUs, near to their device where possible, now and by a
    unit at boot, and bans all other CPUs in irqbalance. Interrupts that the kernel does not move (per-CPU, managed by
    their driver) are returned as RV(unmovable).
  - Everything is read back from the kernel. Boot arguments are the business of M(nearmetal.rack.kernel_cmdline).
  - On a tree (O(root) other than C(/)) only the files are written that make it so after the next boot.
options:
  state:
    description: V(absent) takes everything back that this module has set.
    type: str
    choices: [present, absent]
    default: present
  reserved:
    description:
      - The host's own CPUs, as a cpulist such as V(0-1,40-41). Whole cores, among them the core of the boot CPU.
      - Required with O(state=present).
    type: str
  mode:
    description: With V(kernel), a host without unified cpusets is accepted, as boot arguments keep daemons off.
    type: str
    choices: [cpusets, kernel]
    default: cpusets
  root:
    description: Where the host's files lie.
    type: path
    default: /
requirements:
  - python >= 3.9 on the host
  - systemd on the host
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: full
author:
  - nearmetal contributors (@nearmetal)
"""

EXAMPLES = r"""
- name: Leave the first core of each of two nodes to the host
  nearmetal.rack.cpu_isolation:
    reserved: 0-1,40-41

- name: Take it back
  nearmetal.rack.cpu_isolation:
    state: absent
"""

RETURN = r"""
reserved:
  description: The host's own CPUs.
  returned: success
  type: str
  sample: 0-1,40-41
isolated:
  description: All other online CPUs.
  returned: success
  type: str
  sample: 2-39,42-79
steps:
  description: What differed, each with key, before, after, reason and verify.
  returned: success
  type: list
  elements: dict
unmovable:
  description: Numbers of the interrupts that the kernel did not let go.
  returned: success
  type: list
  elements: int
"""

from dataclasses import asdict
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nearmetal.rack.plugins.module_utils import cpulist, irq, isolation
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities import (
    cpu_isolation as capability,
)
from ansible_collections.nearmetal.rack.plugins.module_utils.diffs import diffs
from ansible_collections.nearmetal.rack.plugins.module_utils.host import Host, HostError, tree
from ansible_collections.nearmetal.rack.plugins.module_utils.model import IntentError, Problem
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe
from ansible_collections.nearmetal.rack.plugins.module_utils.partition import Request, partition
from ansible_collections.nearmetal.rack.plugins.module_utils.state import State


def _desired(params: Dict[str, Any], state: State) -> capability.Desired:
    if params["state"] == "absent":
        return capability.Desired(False)
    if not params["reserved"].strip():
        raise IntentError([Problem("reserved", "", "no CPU is left to the host", "list its CPUs, such as 0-1")])
    names = ("", "", "reserved", "")
    part = partition(state, Request(cpus=params["reserved"], variables=names))
    return capability.Desired(True, params["mode"], part.reserved, part.isolated)


def converge(host: Host, params: Dict[str, Any], check: bool) -> Dict[str, Any]:
    """Observe, decide, act, read back; the module's result. Raises IntentError or HostError."""
    state = observe(host, commands=False)
    want = _desired(params, state)
    hindrances = capability.hindrances(want, state)
    if hindrances:
        raise IntentError(hindrances)
    steps = capability.runtime_steps(want, state)
    changed = capability.differing(want, state)
    shown = diffs("CPU isolation", steps, state["confinement"]["files"], changed)
    if steps and not check:
        state = isolation.apply(host, want, state)
    return {
        "changed": bool(steps),
        "reserved": cpulist.format(want.reserved),
        "isolated": cpulist.format(want.isolated),
        "steps": [asdict(step) for step in steps],
        "unmovable": sorted(irq.unmovable(state["confinement"])),
        "diff": shown,
    }


def main() -> None:
    """See DOCUMENTATION."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "reserved": {"type": "str"},
            "mode": {"type": "str", "choices": ["cpusets", "kernel"], "default": "cpusets"},
            "root": {"type": "path", "default": "/"},
        },
        required_if=[("state", "present", ["reserved"])],
        supports_check_mode=True,
    )
    try:
        host = tree(module.params["root"])
        with host.lock():
            result = converge(host, module.params, module.check_mode)
    except IntentError as err:
        module.fail_json(msg="; ".join("%s: %s. Fix: %s." % (p.value, p.message, p.fix) for p in err.found))
    except HostError as err:
        module.fail_json(msg=str(err))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
