# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_info
short_description: Power, health, versions and boot source of a host, by its BMC
version_added: 0.1.0
description:
  - Reads over Redfish; changes nothing.
  - Runs as an action on the controller.
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
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: none
    details: It changes nothing.
requirements:
  - sushy >= 5.14 (on the controller; comes with the Python package nearmetal)
author:
  - nearmetal contributors (@nearmetal)
"""

EXAMPLES = r"""
- name: Ask the BMC
  nearmetal.rack.bmc_info:
  register: answer
"""

RETURN = r"""
bmc:
  description: What it says. Parts that the BMC does not have are empty.
  returned: always
  type: dict
  contains:
    manufacturer:
      description: Maker of the host.
      type: str
    model:
      description: Its model.
      type: str
    power_state:
      description: V(On), V(Off), V(PoweringOn) or V(PoweringOff).
      type: str
    reset_types:
      description: Resets that it offers.
      type: list
      elements: str
    health:
      description: Health of the host.
      type: str
    bios_version:
      description: Version of the BIOS.
      type: str
    bmc_model:
      description: Model of the BMC.
      type: str
    bmc_version:
      description: Version of its firmware.
      type: str
    bmc_health:
      description: Its own health.
      type: str
    boot:
      description: Override of the boot source, with enabled (V(Once), V(Continuous), V(Disabled)) and allowed.
      type: dict
    secure_boot:
      description: Whether Secure Boot is enabled.
      type: bool
    nics:
      description: Network adapters with id, manufacturer, model and firmware.
      type: list
      elements: dict
"""
