# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bios_settings
short_description: BIOS settings over Redfish, in words that are the same for all vendors
version_added: 0.1.0
description:
  - Reads the values in force and the pending ones, compares both with what is wanted, and submits only the difference.
  - Sees that exactly what was submitted is pending; where the vendor wants a job for it (Dell), that the job is ready to run.
  - Never resets the host; RV(reset_required) says that it is due.
  - Runs as an action on the controller. The host itself is not asked.
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
  job_timeout:
    description: Seconds to wait for a job of the BMC. C(bios_job_timeout) of the host where not given.
    type: int
    default: 1800
  settings:
    description: Words and their values, such as C(smt=false). See the role C(nearmetal.rack.bios) for all of them.
    type: dict
    default: {}
  preset:
    description: Name of a set of words; O(settings) win over it.
    type: str
    default: ""
  attributes:
    description: The vendor's own attributes and their values. They win over words.
    type: dict
    default: {}
  strict:
    description: Fail where the machine does not offer a setting, instead of naming it in RV(unsupported).
    type: bool
    default: false
  foreign_pending:
    description:
      - What to do about pending values that were not asked for here; V(keep) reports them, V(clear) drops them, V(fail) stops.
    type: str
    choices: [keep, clear, fail]
    default: keep
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: full
requirements:
  - sushy >= 5.14 (on the controller; comes with the Python package nearmetal)
author:
  - nearmetal contributors (@nearmetal)
"""

EXAMPLES = r"""
- name: Hyper-threading off, virtualization on
  nearmetal.rack.bios_settings:
    baseuri: https://10.0.0.1
    username: admin
    password: "{{ vault_bmc_password }}"
    ca_path: /etc/ssl/bmc-ca.pem
    settings:
      smt: false
      virtualization: true

- name: An attribute of the vendor, on the BMC that the host's variables bios_* name
  nearmetal.rack.bios_settings:
    attributes:
      WorkloadProfile: Virtualization-MaxPerformance
"""

RETURN = r"""
requested:
  description: Attributes that were submitted (in check mode, would be), with their values.
  returned: always
  type: dict
pending:
  description: Attributes that were asked for and are pending, with their values.
  returned: always
  type: dict
foreign_pending:
  description: Other pending attributes, each with its current and pending value. The next reset applies them, too.
  returned: always
  type: dict
reset_required:
  description: Whether something that was asked for takes effect only at a reset.
  returned: always
  type: bool
current:
  description: Values in force of the attributes that were asked for.
  returned: always
  type: dict
unsupported:
  description: Words and attributes that the machine does not offer.
  returned: always
  type: list
  elements: str
platform:
  description: Which vendor's attributes were used; empty where it is not known.
  returned: always
  type: str
  sample: dell
bios_version:
  description: Version of the BIOS.
  returned: always
  type: str
"""
