# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Argument specs of the modules sriov and vf_lag."""

from __future__ import annotations

from typing import Any, Dict

_SELECTOR: Dict[str, Any] = {"address": {"type": "str"}, "serial": {"type": "str"}, "mac": {"type": "str"}, "port": {"type": "str"}}

_VF: Dict[str, Any] = {
    "index": {"type": "raw", "required": True},
    "driver": {"type": "str"},
    "mac": {"type": "str"},
    "vlan": {"type": "int"},
    "qos": {"type": "int"},
    "proto": {"type": "str", "choices": ["802.1Q", "802.1ad"]},
    "trust": {"type": "bool"},
    "spoofchk": {"type": "bool"},
    "min_tx_rate": {"type": "int"},
    "max_tx_rate": {"type": "int"},
    "link_state": {"type": "str", "choices": ["auto", "enable", "disable"]},
    "node_guid": {"type": "str"},
    "port_guid": {"type": "str"},
    "mtu": {"type": "int"},
}

_PF: Dict[str, Any] = {
    "pf": {"type": "dict", "required": True, "options": _SELECTOR},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "vfs": {"type": "int"},
    "driver": {"type": "str", "default": ""},
    "mtu": {"type": "int"},
    "autoprobe": {"type": "bool", "default": True},
    "vf": {"type": "list", "elements": "dict", "default": [], "options": _VF},
}

_BOND: Dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "pfs": {"type": "list", "elements": "dict", "required": True, "options": _SELECTOR},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "lag": {"type": "bool", "default": True},
    "multiport": {"type": "bool", "default": False},
    "mode": {"type": "str", "default": "active-backup"},
    "miimon": {"type": "int", "default": 100},
    "lacp_rate": {"type": "str", "choices": ["slow", "fast"]},
    "xmit_hash_policy": {"type": "str", "choices": ["layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac"]},
    "mtu": {"type": "int"},
    "addresses": {"type": "list", "elements": "str", "default": []},
    "owner": {
        "type": "str",
        "choices": ["auto", "networkd", "NetworkManager", "ifupdown", "netplan", "external"],
        "default": "auto",
    },
    "steering": {"type": "str", "choices": ["", "smfs", "dmfs"], "default": "smfs"},
    "forwarding": {
        "type": "dict",
        "default": {},
        "options": {
            "type": {"type": "str", "choices": ["none", "bridge", "ovs", "external"], "default": "none"},
            "name": {"type": "str"},
            "owner": {"type": "str"},
        },
    },
}

SRIOV_OPTIONS: Dict[str, Any] = {
    "pfs": {"type": "list", "elements": "dict", "required": True, "options": _PF},
    "accept_management": {"type": "list", "elements": "raw", "default": []},
    "guard": {"type": "int", "default": 0},
    "root": {"type": "path", "default": "/"},
}

VF_LAG_OPTIONS: Dict[str, Any] = {
    "bonds": {"type": "list", "elements": "dict", "required": True, "options": _BOND},
    "pfs": {"type": "list", "elements": "dict", "default": [], "options": _PF},
    "accept_management": {"type": "list", "elements": "raw", "default": []},
    "timeout": {"type": "int", "default": 60},
    "guard": {"type": "int", "default": 0},
    "root": {"type": "path", "default": "/"},
}
