# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric section of the state document, alone: what the program at boot and the guard look at."""

from __future__ import annotations

from ..host import Host
from ..observe.fabric import observe_fabric
from ..observe.pci import observe_pci
from ..observe.reader import Reader
from ..state import Fabric


def look(host: Host) -> Fabric:
    """As `observe(host)["fabric"]`."""
    reader = Reader(host)
    return observe_fabric(reader, observe_pci(reader, []))


def boot_id(host: Host) -> str:
    """Of the running kernel; "" where it is not known."""
    return Reader(host).text("/proc/sys/kernel/random/boot_id", "kernel") or ""
