# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_power
short_description: Power of a host by its BMC, and the source of its next boot
version_added: 0.1.0
description:
  - Switches on or off, restarts or power cycles over Redfish, with the reset types that the BMC offers.
  - V(restart) and V(cycle) always do something; they switch on a host that is off.
  - Runs as an action on the controller. Does not wait for the operating system.
options:
  baseuri:
    description: Address of the BMC, C(https://ADDRESS). C(bios_baseuri) of the host where not given.
    type: str
  username:
    description: Account of the BMC. C(bios_username) of the host where not given.
    type: str
  password:
    description: Its password. C(bios_password) of the host where not given. Never shown.
    type: str
  validate_certs:
    description: Whether the BMC's certificate must be trusted. C(bios_validate_certs) of the host where not given.
    type: bool
    default: true
  ca_path:
    description:
      - File (or folder) of the authorities that are trusted, or of the BMC's own certificate. The system's where it is not
        given. C(bios_ca_path) of the host where not given.
    type: path
  timeout:
    description: Seconds that a BMC may take for one answer. C(bios_timeout) of the host where not given.
    type: int
    default: 30
  state:
    description: What to do. Only the boot source is looked after where it is not set.
    type: str
    choices: ["on", "off", restart, cycle]
  graceful:
    description: Ask the operating system first where the BMC can; a host that is not off in time is switched off.
    type: bool
    default: false
  boot_once:
    description: Source of the next boot only, as the BMC calls it (C(Pxe), C(Cd), C(Hdd), C(UefiHttp), C(BiosSetup)...).
    type: str
    default: ""
  wait_timeout:
    description: Seconds until the power must be as asked for.
    type: int
    default: 300
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: none
requirements:
  - sushy >= 5.14 (on the controller; comes with the Python package nearmetal)
author:
  - nearmetal contributors (@nearmetal)
"""

EXAMPLES = r"""
- name: Start from the network, once
  nearmetal.rack.bmc_power:
    state: restart
    boot_once: Pxe
"""

RETURN = r"""
power_state_before:
  description: Power as it was.
  returned: always
  type: str
power_state:
  description: Power as last read.
  returned: always
  type: str
reset_types:
  description: Resets that the BMC offers.
  returned: always
  type: list
  elements: str
boot:
  description: Override of the boot source.
  returned: always
  type: dict
"""
