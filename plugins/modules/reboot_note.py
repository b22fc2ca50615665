#!/usr/bin/python
# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leave a note on the host of what the reboot to come is for."""

from __future__ import annotations

DOCUMENTATION = r"""
module: reboot_note
short_description: Note on the host what a reboot is for
version_added: 0.1.0
description:
  - Writes C(/var/lib/nearmetal/reboot.json) before a reboot. After it, M(nearmetal.rack.plan) on any controller sees
    whether the host was already rebooted for the same thing in vain, and refuses to do so again.
options:
  reason:
    description: Digest of the steps that need the reboot.
    type: str
    required: true
  wanted:
    description: The same in words.
    type: str
    required: true
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
- name: Note what the reboot is for
  nearmetal.rack.reboot_note:
    reason: "{{ nearmetal_plan.plan.reboot_digest }}"
    wanted: "{{ nearmetal_plan.plan.reboot_words }}"
"""

RETURN = r"""
note:
  description: What was written.
  returned: always
  type: dict
"""

import json  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.nearmetal.rack.plugins.module_utils.host import FileHost, HostError  # noqa: E402

NOTE = "/var/lib/nearmetal/reboot.json"


def main() -> None:
    """See DOCUMENTATION."""
    module = AnsibleModule(
        argument_spec={
            "reason": {"type": "str", "required": True},
            "wanted": {"type": "str", "required": True},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    host = FileHost(module.params["root"])
    note = {
        "boot_id": host.get("/proc/sys/kernel/random/boot_id"),
        "reason": module.params["reason"],
        "wanted": module.params["wanted"],
    }
    text = json.dumps(note, indent=1) + "\n"
    try:
        changed = host.get(NOTE) != text.strip()
        if changed and not module.check_mode:
            host.write(NOTE, text)
    except HostError as err:
        module.fail_json(msg=str(err))
    module.exit_json(changed=changed, note=note)


if __name__ == "__main__":
    main()
