#!/usr/bin/python
# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network guard: a timer on the host that puts the former network back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: network_guard
short_description: Have a host put its network back by itself unless somebody comes back and confirms
version_added: 0.2.0
description:
  - Before a change that may cut the host off, O(state=armed) notes the present network in C(/var/lib/nearmetal/guard.json)
    and starts a timer. VFs with their attributes and drivers, eswitch modes, bonds, bridges, addresses, routes and the
    files that nearmetal wrote for them are noted.
  - After the change, O(state=confirmed) over a B(new) connection stops the timer. Put
    C(ansible.builtin.meta) with C(reset_connection) before it. An old connection may live on where no new one comes through.
  - If nobody confirms, the host restores what was noted, and notes in C(/var/lib/nearmetal/guard-restored.json) that it
    did. If the host is restarted while the guard is armed, the boot units of nearmetal put the former files back before
    the network comes up.
  - The modules M(nearmetal.rack.sriov) and M(nearmetal.rack.vf_lag) arm a guard by themselves, and M(nearmetal.rack.converge)
    confirms it. This module is for other changes, and for a guard that was left over.
  - There is one guard on a host at a time.
options:
  state:
    description:
      - V(armed) notes the network and starts the timer. It fails where a guard is already there.
      - V(confirmed) keeps the changed network; it needs O(token), and fails where the network was already restored.
      - V(restored) puts the noted network back at once.
      - V(absent) keeps the network as it is, whoever armed the guard; nothing changes where there is none.
    type: str
    choices: [armed, confirmed, restored, absent]
    required: true
  token:
    description: What V(armed) returned as C(guard.token).
    type: str
  seconds:
    description: Time to change and to confirm, at least 10.
    type: int
    default: 120
  devices:
    description: Network devices to put back besides PFs, bonds and those that carry the default route or this connection.
    type: list
    elements: str
    default: []
  root:
    description: Where the host's files lie. In a tree no guard can be armed.
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
    support: none
seealso:
  - module: nearmetal.rack.vf_lag
author:
  - nearmetal contributors (@nearmetal)
"""

EXAMPLES = r"""
- name: Put the network back in two minutes
  nearmetal.rack.network_guard:
    state: armed
  register: armed

- name: Something that may cut the host off
  ansible.builtin.command: networkctl reconfigure bond0
  changed_when: true

- name: A new connection
  ansible.builtin.meta: reset_connection

- name: It still answers
  nearmetal.rack.network_guard:
    state: confirmed
    token: "{{ armed.guard.token }}"
"""

RETURN = r"""
guard:
  description: The guard that was armed.
  returned: with state=armed
  type: dict
  contains:
    token:
      description: Who has it may confirm.
      type: str
    seconds:
      description: As asked for.
      type: int
    deadline:
      description: When the network is restored, by the host's clock (UTC).
      type: str
      sample: "2026-01-31T12:00:00Z"
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric.shapes import FabricError
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot import guard
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot import main as program
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot.guardnote import read_note
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot.look import look
from ansible_collections.nearmetal.rack.plugins.module_utils.host import Host, HostError, Refused, tree

CARRIED = (program,)
"""What is imported travels with the module: the program that it builds."""


def converge(host: Host, params: Dict[str, Any], check: bool) -> Dict[str, Any]:
    """The module's result. Raises HostError, or guard.Confirmed where it is too late."""
    state = params["state"]
    if not host.live:
        raise Refused("network_guard", "a guard is of a running host: in a tree there is no timer")
    if check:
        return {"changed": state in ("armed", "confirmed") or read_note(host) is not None}
    if state == "armed":
        made = guard.arm(host, look(host), params["seconds"], purpose="nearmetal.rack.network_guard", devices=params["devices"])
        return {"changed": True, "guard": made}
    if state == "confirmed":
        guard.confirm(host, params["token"])
        return {"changed": True}
    if state == "restored":
        return {"changed": guard.restore(host, "asked for by nearmetal.rack.network_guard")}
    return {"changed": guard.drop(host)}


def main() -> None:
    """See DOCUMENTATION."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["armed", "confirmed", "restored", "absent"], "required": True},
            "token": {"type": "str", "no_log": False},
            "seconds": {"type": "int", "default": 120},
            "devices": {"type": "list", "elements": "str", "default": []},
            "root": {"type": "path", "default": "/"},
        },
        required_if=[("state", "confirmed", ("token",))],
        supports_check_mode=True,
    )
    try:
        host = tree(module.params["root"])
        with host.lock():
            result = converge(host, module.params, module.check_mode)
    except (HostError, FabricError, guard.Confirmed) as err:
        module.fail_json(msg=str(err))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
