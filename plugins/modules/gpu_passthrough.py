#!/usr/bin/python
# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI functions for guests."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_passthrough
short_description: Give PCI functions to the driver for guests, now and at every boot
version_added: 0.2.0
description:
  - Binds functions to C(vfio-pci), at once where nobody uses them, and at every boot by a udev rule (C(driver_override)).
    A function that a process has open is not taken away; the module ends with that process's name.
  - Keeps other drivers off by C(modprobe.d), and makes the initramfs anew where that changed (C(update-initramfs), C(dracut)).
options:
  functions:
    description: All functions of the host that are handed over. Any that was before and is not listed is left to the next boot.
    type: list
    elements: dict
    required: true
    suboptions:
      address:
        description: PCI address with its domain.
        type: str
        required: true
      driver:
        description: The driver that shall have it.
        type: str
        choices: [vfio-pci, nvgrace-gpu-vfio-pci]
        default: vfio-pci
      now:
        description: Whether it is taken from its present driver at once.
        type: bool
        default: true
  ids:
    description: Kinds of devices that are handed over wherever they are found at boot.
    type: list
    elements: dict
    default: []
    suboptions:
      id:
        description: Vendor and device, such as V(10de:2330).
        type: str
        required: true
      driver:
        description: The driver that shall have them.
        type: str
        choices: [vfio-pci, nvgrace-gpu-vfio-pci]
        default: vfio-pci
  keep_off:
    description: Drivers that are never loaded.
    type: list
    elements: str
    choices: [nouveau, nvidiafb, nvidia, amdgpu, radeon]
    default: []
  root:
    description: Where the host's files lie. In a tree only files are written.
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
- name: A GPU and its audio function
  nearmetal.rack.gpu_passthrough:
    functions:
      - address: "0000:17:00.0"
      - address: "0000:17:00.1"
    keep_off: [nouveau]
"""

RETURN = r"""
bound:
  description: Functions whose driver was changed, with the driver before and after.
  returned: success
  type: list
  elements: dict
  sample: [{address: "0000:17:00.0", before: nouveau, after: vfio-pci}]
files:
  description: Files that were changed, or would be.
  returned: success
  type: list
  elements: str
"""

from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nearmetal.rack.plugins.module_utils import passthrough
from ansible_collections.nearmetal.rack.plugins.module_utils.host import Host, HostError, tree
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.confinement import contents
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.reader import Reader


def converge(host: Host, params: Dict[str, Any], check: bool) -> Dict[str, Any]:
    """Write what differs, bind what is free, read back; the module's result. Raises HostError."""
    drivers = {one["address"]: one["driver"] for one in params["functions"]}
    ids = {one["id"]: one["driver"] for one in params["ids"]}
    wanted = passthrough.Binding(drivers, ids, params["keep_off"])
    have = contents(Reader(host), list(passthrough.FILES))
    todo = passthrough.file_changes(wanted, have)
    bound: List[Dict[str, str]] = []
    for one in params["functions"] if host.live else ():
        before = passthrough.driver_of(host, one["address"])
        if one["now"] and before != one["driver"]:
            if not host.exists("%s/%s" % (passthrough.DEVICES, one["address"])):
                raise HostError(one["address"], "there is no such function on this host")
            bound.append({"address": one["address"], "before": before, "after": one["driver"]})
    if not check:
        passthrough.write_files(host, wanted, have)
        for done in bound:
            passthrough.bind(host, done["address"], done["after"])
    return {
        "changed": bool(todo or bound),
        "bound": bound,
        "files": sorted(todo),
        "diff": [
            *({"before_header": path, "after_header": path, "before": have.get(path, ""), "after": text or ""}
              for path, text in sorted(todo.items())),
            *({"before_header": one["address"], "after_header": one["address"], "before": one["before"] + "\n",
               "after": one["after"] + "\n"} for one in bound),
        ],
    }  # fmt: skip


def main() -> None:
    """See DOCUMENTATION."""
    driver = {"type": "str", "choices": list(passthrough.DRIVERS), "default": passthrough.VFIO}
    function = {
        "address": {"type": "str", "required": True}, "driver": driver, "now": {"type": "bool", "default": True},
    }  # fmt: skip
    module = AnsibleModule(
        argument_spec={
            "functions": {"type": "list", "elements": "dict", "required": True, "options": function},
            "ids": {
                "type": "list", "elements": "dict", "default": [],
                "options": {"id": {"type": "str", "required": True}, "driver": driver},
            },
            "keep_off": {"type": "list", "elements": "str", "choices": list(passthrough.KEEP_OFF), "default": []},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )  # fmt: skip
    try:
        host = tree(module.params["root"])
        with host.lock():
            result = converge(host, module.params, module.check_mode)
    except HostError as err:
        module.fail_json(msg=str(err))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
