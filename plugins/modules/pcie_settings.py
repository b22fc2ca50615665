#!/usr/bin/python
# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI Express registers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pcie_settings
short_description: Read request size, relaxed ordering and ACS of PCI Express functions
version_added: 0.2.0
description:
  - Sets registers of PCI Express functions by C(setpci) (pciutils), only those bits that are asked for and only where they
    differ, and reads them back from configuration space.
  - Keeps them by a udev rule, so that they are set at every boot and whenever a function is found anew, as after the
    reset of a card.
  - Refused by a kernel that is locked down (Secure Boot).
options:
  functions:
    description: The functions. Any that was kept before and is not listed is no longer kept.
    type: list
    elements: dict
    required: true
    suboptions:
      address:
        description: PCI address with its domain.
        type: str
        required: true
      max_read_request:
        description: Largest read request that the function may make, in bytes.
        type: int
        choices: [128, 256, 512, 1024, 2048, 4096]
      relaxed_ordering:
        description: Whether the function may mark its requests as relaxed in their order.
        type: bool
      acs:
        description:
          - Access Control Services, seven characters, each V(0), V(1) or V(x) (as it is). From left to right direct translated
            peer-to-peer, egress control, upstream forwarding, completion redirect, request redirect, translation blocking,
            source validation.
        type: str
  persist:
    description: Whether the settings are kept for the next boots.
    type: bool
    default: true
  root:
    description: Where the host's files lie. In a tree only the udev rule is written.
    type: path
    default: /
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
- name: A NIC that reads 4096 bytes at a time, below a port that lets translated requests through
  nearmetal.rack.pcie_settings:
    functions:
      - {address: "0000:17:00.0", max_read_request: 4096, relaxed_ordering: true}
      - {address: "0000:16:01.0", acs: 1x111x1}
"""

RETURN = r"""
functions:
  description: Registers of the functions as they are now; in check mode, as they were found.
  returned: success
  type: dict
steps:
  description: What differed, each with key, before, after, reason and verify.
  returned: success
  type: list
  elements: dict
"""

import re
from dataclasses import asdict
from typing import Any, Dict, Tuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nearmetal.rack.plugins.module_utils import pcie_settings
from ansible_collections.nearmetal.rack.plugins.module_utils.diffs import diffs
from ansible_collections.nearmetal.rack.plugins.module_utils.host import Host, HostError, tree
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.confinement import contents
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.pcie import DEVICES, parse_config
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.reader import Reader
from ansible_collections.nearmetal.rack.plugins.module_utils.state import Pcie


def _observe(host: Host, addresses: Tuple[str, ...]) -> Tuple[Dict[str, Pcie], Dict[str, str]]:
    """(registers of the functions, our files)."""
    found: Dict[str, Pcie] = {}
    for address in addresses if host.live else ():
        told = parse_config(host.read_bytes("%s/%s/config" % (DEVICES, address)))
        if told is not None:
            found[address] = told
    return found, contents(Reader(host), list(pcie_settings.FILES))


def converge(host: Host, params: Dict[str, Any], check: bool) -> Dict[str, Any]:
    """Observe, set what differs, read back; the module's result. Raises HostError."""
    wanted = {one["address"]: one for one in params["functions"]}
    persist = params["persist"]
    pcie, files = _observe(host, tuple(wanted))
    steps = pcie_settings.steps(wanted, persist, pcie, files, host.live)
    shown = diffs("PCI Express registers", steps, files, pcie_settings.file_changes(wanted, persist, files))
    if steps and not check:
        pcie_settings.apply(host, wanted, persist, pcie, files)
        pcie, files = _observe(host, tuple(wanted))
        left = pcie_settings.steps(wanted, persist, pcie, files, host.live)
        if left:
            text = "; ".join("%s still has %s" % (s.key, s.before) for s in left)
            raise HostError("PCI Express", "written, but not taken by the device: " + text)
    return {"changed": bool(steps), "functions": pcie, "steps": [asdict(step) for step in steps], "diff": shown}


def main() -> None:
    """See DOCUMENTATION."""
    function = {
        "address": {"type": "str", "required": True},
        "max_read_request": {"type": "int", "choices": list(pcie_settings.READ_REQUESTS)},
        "relaxed_ordering": {"type": "bool"},
        "acs": {"type": "str"},
    }
    module = AnsibleModule(
        argument_spec={
            "functions": {"type": "list", "elements": "dict", "required": True, "options": function},
            "persist": {"type": "bool", "default": True},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    for one in module.params["functions"]:
        if not re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", one["address"]):
            module.fail_json(msg="address: %r is no PCI address such as 0000:17:00.0" % one["address"])
        if one["acs"] and not re.fullmatch("[01x]{7}", one["acs"]):
            module.fail_json(msg="acs: %r is not seven of 0, 1 and x" % one["acs"])
    try:
        host = tree(module.params["root"])
        with host.lock():
            result = converge(host, module.params, module.check_mode)
    except HostError as err:
        module.fail_json(msg=str(err))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
