# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Observe a host in one round trip and say what differs from its intent
version_added: 0.1.0
description:
  - Reads the variables of all nearmetal roles that are set for the host, checks them, observes the host, and decides
    which steps would bring it to its intent, in which order and how disruptive they are.
  - Never changes anything. Bad variables are reported before the host is touched.
  - Runs as an action on the controller; the host only needs Python 3.9 or newer.
options:
  capabilities:
    description: Decide only for these capabilities. All whose variables are set where not given.
    type: list
    elements: str
    default: []
  validate_only:
    description: Check the variables only; do not connect to the host.
    type: bool
    default: false
  expect_converged:
    description: Fail where anything is left to do; used to read back what was set.
    type: bool
    default: false
  expected:
    description: RV(plan.marks) of a plan that was agreed to. Where anything else would be done, the task fails.
    type: list
    elements: str
    default: []
  bmcs_read:
    description:
      - Take what the BMC says from the result of M(nearmetal.rack.bmc_read), which the play has registered as
        C(nearmetal_bmcs), if the host's BMC is in it. Else it is read here, while the host is observed.
    type: bool
    default: false
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: none
    details: It changes nothing; what differs is in RV(plan).
author:
  - nearmetal contributors (@nearmetal)
"""

EXAMPLES = r"""
- name: What would be done
  nearmetal.rack.plan:
  register: nearmetal_plan

- name: Only the IOMMU
  nearmetal.rack.plan:
    capabilities: [iommu]
"""

RETURN = r"""
plan:
  description: The plan of this host.
  returned: always
  type: dict
  contains:
    status:
      description: V(ok) (nothing to do), V(changes) or V(problems).
      type: str
      sample: changes
    reboot:
      description: Whether one reboot is part of it.
      type: bool
    steps:
      description:
        - Each with id, capability, key, before, after, reason, disruption (V(none), V(traffic), V(drain), V(reboot),
          V(power_cycle)), requires and verify.
      type: list
      elements: dict
    calls:
      description: The module call of each capability that can be made now.
      type: dict
    roles:
      description: Order of the calls.
      type: list
      elements: str
    problems:
      description: Why nothing will be done; each with variable, value, message, fix and kind (V(intent) or V(host)).
      type: list
      elements: dict
    warnings:
      description: What is worth knowing but stops nothing.
      type: list
      elements: str
    marks:
      description: A fingerprint of each thing to be done.
      type: list
      elements: str
"""
