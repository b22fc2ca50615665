# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BIOS intent over Redfish, the part that decides: words, what they are called by each vendor, and what is to be sent.

Pure: it takes options (the role's variables) and what a read of a BMC gave (state["bmc"]), and asks nobody.
"""

from __future__ import annotations

from .compare import Comparison, compare, needs_registry, topology_changes, turning_on
from .intent import intent_problems, wishes
from .platforms import platform
from .words import PRESETS, WORDS, Word

__all__ = [
    "PRESETS", "WORDS", "Comparison", "Word", "compare", "intent_problems", "needs_registry", "platform",
    "topology_changes", "turning_on", "wishes",
]  # fmt: skip
