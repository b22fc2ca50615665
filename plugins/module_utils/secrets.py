# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets in the files of network managers: read to see who owns a bond, never kept.

NetworkManager keyfiles hold Wi-Fi keys, 802.1X and VPN passwords as `name=value` to the end of the line
(nm-settings-keyfile(5)); netplan the same as YAML (netplan-yaml(5)), ifcfg and interfaces files in their own ways.
"""

from __future__ import annotations

import re

FOLDERS = ("/etc/NetworkManager/", "/run/NetworkManager/", "/etc/netplan/", "/run/netplan/", "/usr/lib/netplan/", "/lib/netplan/",
           "/etc/network/", "/etc/sysconfig/network-scripts/", "/etc/systemd/network/", "/run/systemd/network/")  # fmt: skip
HIDDEN = "***"
_SECRET = re.compile(
    r"(?im)^(?P<name>[^\S\n]*(?:-[^\S\n]*)?[\w.\"' -]*?"
    r"(?:pass|psk|secret|private[-_]?key|preshared[-_]?key|wep[-_]?key|\bkey\d*|\bpin|token|credential)[\w.\"'-]*"
    r"[^\S\n]*(?:[=:]|[^\S\n]))(?P<value>[^\n]*\S[^\n]*)$"
)


def hide(path: str, text: str) -> str:
    """The file without its secrets; files of others than network managers as they are."""
    if not path.startswith(FOLDERS):
        return text
    return _SECRET.sub(lambda match: match.group("name") + HIDDEN, text)
