#!/usr/bin/python
# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the reboot needs on the host: its reason is noted there. The action of the same name does the rest."""

from __future__ import annotations

DOCUMENTATION = r"""
module: reboot
short_description: Reboot or power cycle a host once, for a reason that it remembers
version_added: 0.1.0
description:
  - Writes C(/var/lib/nearmetal/reboot.json), reboots, and waits until another boot answers and the units of nearmetal
    have ended their work in it.
  - After it, M(nearmetal.rack.plan) on any controller sees whether the host was already rebooted for the same thing in
    vain, and refuses to do so again.
  - Where the host has a BMC (C(bios_baseuri)), waits for its jobs that change BIOS settings (Dell), for C(bios_job_timeout)
    seconds at most, and tells of the host's power where it does not come back.
  - Fewer round trips than M(ansible.builtin.reboot), and it ends when the program that started it dies.
options:
  reason:
    description: Digest of the steps that need the reboot.
    type: str
    required: true
  wanted:
    description: The same in words.
    type: str
    required: true
  power_cycle:
    description:
      - Switch the power off and on instead, for settings of the firmware that a warm reboot does not load. By the host's
        BMC, over Redfish where C(bios_baseuri) names it, else by C(ipmitool) on the host.
    type: bool
    default: false
  timeout:
    description: Seconds in which the host must be back.
    type: int
    default: 900
  root:
    description: Where the host's files lie.
    type: path
    default: /
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: none
author:
  - nearmetal contributors (@nearmetal)
"""

EXAMPLES = r"""
- name: Reboot once for everything that needs it
  nearmetal.rack.reboot:
    reason: "{{ nearmetal_plan.plan.reboot_digest }}"
    wanted: "{{ nearmetal_plan.plan.reboot_words }}"
"""

RETURN = r"""
note:
  description: What was written, with the C(boot_id) that was ended.
  returned: always
  type: dict
elapsed:
  description: Seconds from the command to reboot until the host was back.
  returned: when rebooted
  type: float
"""

import json  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.nearmetal.rack.plugins.module_utils.host import HostError, tree  # noqa: E402

NOTE = "/var/lib/nearmetal/reboot.json"


def main() -> None:
    """See DOCUMENTATION."""
    module = AnsibleModule(
        argument_spec={
            "reason": {"type": "str", "required": True},
            "wanted": {"type": "str", "required": True},
            "power_cycle": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 900},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    try:
        host = tree(module.params["root"])
        note = {
            "boot_id": host.get("/proc/sys/kernel/random/boot_id"),
            "reason": module.params["reason"],
            "wanted": module.params["wanted"],
        }
        if not module.check_mode:
            host.write(NOTE, json.dumps(note, indent=1) + "\n")
    except HostError as err:
        module.fail_json(msg=str(err))
    module.exit_json(changed=True, note=note)


if __name__ == "__main__":
    main()
