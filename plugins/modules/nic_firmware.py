#!/usr/bin/python
# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware settings of mlx5 cards."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nic_firmware
short_description: Firmware settings of ConnectX and BlueField cards
version_added: 0.2.0
description:
  - Sets values by C(mstconfig) (mstflint) or C(mlxconfig) (NVIDIA MFT), only where the next start of the card would not
    have them, and reads them back.
  - They come into force when the card starts. With O(cards[].reset) the card is reset at once, and what is in force is
    compared with what was asked for. Otherwise RV(pending) says what waits for a power cycle.
options:
  cards:
    description: The cards.
    type: list
    elements: dict
    required: true
    suboptions:
      address:
        description: PCI address of one of the card's PFs. Settings are per card, so one is enough.
        type: str
        required: true
      settings:
        description: Name to value, as C(mlxconfig -e q) names them. Truth values, numbers or words.
        type: dict
        required: true
      reset:
        description: Reset the card where something that was asked for is not in force. Both its ports go down for some seconds.
        type: bool
        default: false
  tool:
    description: Which program to use; V(auto) takes the first that is there.
    type: str
    choices: [auto, mstconfig, mlxconfig]
    default: auto
  root:
    description: Where the host's files lie. Anything but V(/) is refused, as a tree has no cards.
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
- name: SR-IOV with 16 VFs on each port
  nearmetal.rack.nic_firmware:
    cards:
      - address: "0000:17:00.0"
        settings: {SRIOV_EN: true, NUM_OF_VFS: 16}
"""

RETURN = r"""
cards:
  description: For each card what was printed before and after.
  returned: success
  type: list
  elements: dict
  sample: [{address: "0000:17:00.0", before: {NUM_OF_VFS: "8"}, after: {NUM_OF_VFS: "16"}, reset: false}]
pending:
  description: Settings that are set, but wait for the card to start, by address.
  returned: success
  type: dict
"""

from typing import Any, Dict, List, Tuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nearmetal.rack.plugins.module_utils import mlxconfig
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities.nic_firmware import differing
from ansible_collections.nearmetal.rack.plugins.module_utils.host import Host, HostError, Missing, tree

SET_TIMEOUT = 120


class Tool:
    """The program that asks and sets one card."""

    def __init__(self, host: Host, address: str, name: str) -> None:
        self.host, self.address = host, address
        self.names = mlxconfig.TOOLS if name == "auto" else (name,)
        self.name = self.names[0]

    def values(self) -> Dict[str, mlxconfig.Value]:
        """What the card says. Raises HostError with the tool's own word."""
        for name in self.names:
            try:
                said = self.host.run([name, "-d", self.address, "-e", "q"], timeout=SET_TIMEOUT)
            except Missing:
                continue
            cards = mlxconfig.parse(said.stdout)
            if not cards:
                raise HostError(name, mlxconfig.trouble(said.stdout + "\n" + said.stderr))
            self.name = name
            return cards[0].values
        raise HostError("nic_firmware", "neither of %s is on the host" % ", ".join(self.names))

    def set(self, settings: Dict[str, Any]) -> None:
        """Set values for the next start of the card."""
        words = ["%s=%s" % (name, mlxconfig.word(value)) for name, value in sorted(settings.items())]
        self._run([self.name, "-d", self.address, "-y", "set", *words])

    def reset(self) -> None:
        """Start the card anew: level 3, driver restart and PCI reset."""
        self._run([mlxconfig.RESET[self.name], "-d", self.address, "-l", "3", "-y", "reset"])

    def _run(self, argv: List[str]) -> None:
        said = self.host.run(argv, timeout=SET_TIMEOUT)
        if said.rc:
            raise HostError(" ".join(argv), mlxconfig.trouble(said.stdout + "\n" + said.stderr))


def converge(host: Host, params: Dict[str, Any], check: bool) -> Dict[str, Any]:
    """Set what is not set, reset where asked, read back; the module's result. Raises HostError."""
    result: Dict[str, Any] = {"changed": False, "cards": [], "pending": {}, "diff": []}
    for entry in params["cards"]:
        card, pending = _card(host, entry, params["tool"], check)
        if card["before"] != card["after"] or card["reset"]:
            result["changed"] = True
            result["diff"].append(_diff(card))
        if pending:
            result["pending"][entry["address"]] = pending
        result["cards"].append(card)
    return result


def _card(host: Host, entry: Dict[str, Any], tool_name: str, check: bool) -> Tuple[Dict[str, Any], List[str]]:
    """(what was done to a card, settings that wait for its start)."""
    tool = Tool(host, entry["address"], tool_name)
    values = tool.values()
    settings = entry["settings"]
    unknown = sorted(set(settings) - set(values))
    if unknown:
        raise HostError(entry["address"], "the card has no setting %s" % ", ".join(unknown))
    before = {name: values[name].next or "" for name in settings}
    unset, idle = differing(settings, values)
    reset = bool(entry["reset"] and (unset or idle))
    if check:
        after = {name: mlxconfig.word(settings[name]) if name in unset else before[name] for name in settings}
        return {"address": entry["address"], "before": before, "after": after, "reset": reset}, [*unset, *idle]
    if unset:
        tool.set({name: settings[name] for name in unset})
    if reset:
        tool.reset()
    if unset or reset:
        values = tool.values()
    unset, idle = differing(settings, values)
    if unset:
        raise HostError(entry["address"], "not taken by the card: %s" % _found(unset, values, "next"))
    if idle and reset:
        raise HostError(entry["address"], "reset, but not in force: %s" % _found(idle, values, "current"))
    after = {name: values[name].next or "" for name in settings}
    return {"address": entry["address"], "before": before, "after": after, "reset": reset}, idle


def _found(names: List[str], values: Dict[str, mlxconfig.Value], column: str) -> str:
    return ", ".join("%s is %s" % (name, getattr(values[name], column)) for name in names)


def _diff(card: Dict[str, Any]) -> Dict[str, str]:
    header = "firmware of %s%s" % (card["address"], ", with a reset" if card["reset"] else "")
    lines = {side: "".join("%s=%s\n" % item for item in sorted(card[side].items())) for side in ("before", "after")}
    return {"before_header": header, "after_header": header, **lines}


def main() -> None:
    """See DOCUMENTATION."""
    card = {
        "address": {"type": "str", "required": True},
        "settings": {"type": "dict", "required": True},
        "reset": {"type": "bool", "default": False},
    }
    module = AnsibleModule(
        argument_spec={
            "cards": {"type": "list", "elements": "dict", "required": True, "options": card},
            "tool": {"type": "str", "choices": ["auto", *mlxconfig.TOOLS], "default": "auto"},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    try:
        host = tree(module.params["root"])
        with host.lock():
            result = converge(host, module.params, module.check_mode)
    except HostError as err:
        module.fail_json(msg=str(err))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
