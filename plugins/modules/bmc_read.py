# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_read
short_description: Read the BMCs of all hosts of the play that have BIOS intent
version_added: 0.1.0
description:
  - One worker with a thread for each BMC, at most so many at once, instead of a worker for each host.
  - Leaves one file a host in a folder that ansible removes at its end; M(nearmetal.rack.plan) takes them from there.
  - Never fails for a BMC; the plan of its host says what is wrong with it. Runs once for all hosts, as an action on the controller.
options:
  connections:
    description: How many BMCs are asked at once.
    type: int
    default: 64
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
- name: Read the BMCs
  nearmetal.rack.bmc_read:
  run_once: true
  register: nearmetal_bmcs

- name: Observe and decide
  nearmetal.rack.plan:
    bmcs_read: true
"""

RETURN = r"""
folder:
  description: Where the documents are; empty where no host has BIOS intent.
  returned: always
  type: str
hosts:
  description: For each host whose BMC was asked, power_state, and error where it could not be read.
  returned: always
  type: dict
"""
