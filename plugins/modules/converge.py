# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: converge
short_description: Bring one capability of a host to its intent
version_added: 0.1.0
description:
  - What every nearmetal role calls. Observes the host in one round trip, decides, and makes a module call only where
    something differs.
  - Where the play has registered the result of M(nearmetal.rack.plan) as C(nearmetal_plan), that decision is carried
    out without observing again.
  - Never reboots; RV(reboot_required) says that it is due.
options:
  capability:
    description: Name of the capability, which is the name of its role.
    type: str
    required: true
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
- name: Set the IOMMU up as the variables iommu_* say
  nearmetal.rack.converge:
    capability: iommu
"""

RETURN = r"""
steps:
  description: What differed, as in M(nearmetal.rack.plan).
  returned: always
  type: list
  elements: dict
reboot_required:
  description: Whether something is in force only after a reboot.
  returned: always
  type: bool
"""
