# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BMCs over Redfish, from the controller: sessions, reading, writing, power."""

from __future__ import annotations

from .access import NAMES, Access, access
from .client import Bmc
from .errors import BmcError
from .many import CONNECTIONS, read_bmc, read_many
from .registry import Registries

__all__ = ["CONNECTIONS", "NAMES", "Access", "Bmc", "BmcError", "Registries", "access", "read_bmc", "read_many"]
