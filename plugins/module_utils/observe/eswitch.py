# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The embedded switch of a PF, its LAG, and what forwards above it.

Sources: devlink(8) JSON (netplan reads the same: {"dev": {"pci/0000:03:00.0": {"mode": "switchdev"}}}); on newer
kernels mlx5 ports appear under "auxiliary/mlx5_core.eth.N" instead of "pci/..." (dpservice). LAG:
drivers/net/ethernet/mellanox/mlx5/core/lag/debugfs.c, which answers EINVAL for type while not active.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Optional

from ..state import BridgePort, Eswitch, FabricBridge, Lag, Ovs, OvsBridge
from .links import Link, ask, ask_json
from .reader import Reader

LAG = "/sys/kernel/debug/mlx5/%s/lag"
MLX5 = "mlx5_core"
NO_ESWITCH: Eswitch = {"mode": None, "steering": None, "multiport": None, "inline": None, "encap": None}


def devlink_name(address: str) -> str:
    """The handle of a PCI function."""
    return "pci/" + address


def observe_eswitch(reader: Reader, address: str) -> Eswitch:
    """All None where the driver has no eswitch or nobody could ask."""
    name = devlink_name(address)
    told = _dev(ask_json(reader, ("devlink", "-j", "dev", "eswitch", "show", name)), name)
    return {
        "mode": told.get("mode"),
        "steering": _param(reader, name, "flow_steering_mode"),
        "multiport": _flag(_param(reader, name, "esw_multiport")),
        "inline": told.get("inline-mode"),
        "encap": None if "encap-mode" not in told and "encap" not in told else _word(told),
    }


def _word(told: Dict[str, Any]) -> str:
    value = told.get("encap-mode", told.get("encap"))
    return {True: "basic", False: "none", "enable": "basic", "disable": "none"}.get(value, str(value))


def _dev(told: Any, name: str) -> Dict[str, Any]:
    """The object of a device; {} in {"dev": {}}, which means that it has none."""
    found = told.get("dev") if isinstance(told, dict) else None
    entry = found.get(name) if isinstance(found, dict) else None
    return entry if isinstance(entry, dict) else {}


def _param(reader: Reader, name: str, param: str) -> Any:
    """A run-time device parameter, from {"param": {handle: [{"name", "values": [{"cmode", "value"}]}]}}."""
    told = ask_json(reader, ("devlink", "-j", "dev", "param", "show", name, "name", param))
    found = told.get("param") if isinstance(told, dict) else None
    for entry in (found.get(name) if isinstance(found, dict) else None) or ():
        if entry.get("name") == param:
            for value in entry.get("values") or ():
                if value.get("cmode") == "runtime":
                    return value.get("value")
    return None


def _flag(value: Any) -> Optional[bool]:
    return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value))


def hw_tc_offload(text: Optional[str]) -> Optional[bool]:
    """From `ethtool -k`: "hw-tc-offload: on", "off [fixed]"."""
    found = re.search(r"^hw-tc-offload: (on|off)\b", text or "", re.MULTILINE)
    return None if found is None else found.group(1) == "on"


def observe_lag(reader: Reader, address: str) -> Optional[Lag]:
    """None where the driver has no LAG files."""
    quiet = Reader(reader.host)
    base = LAG % address
    state = quiet.text(base + "/state", "lag")
    if state is None:
        for note in quiet.unread():
            reader.note("fabric.lag", note["reason"])
        return None
    kind = quiet.text(base + "/type", "lag")  # unreadable: not active
    members = quiet.text(base + "/members", "lag") or ""
    return {"state": state, "type": kind or None, "members": members.split()}


def observe_bridges(reader: Reader, links: Dict[str, Link]) -> List[FabricBridge]:
    """Linux bridges with their VLANs."""
    bridges = [link for link in links.values() if link["kind"] == "bridge"]
    told = ask_json(reader, ("bridge", "-j", "vlan", "show")) if bridges else None
    vlans = {entry["ifname"]: entry.get("vlans") or [] for entry in told or () if "ifname" in entry}
    return [
        {
            "name": bridge["name"],
            "vlan_filtering": bool(bridge["data"].get("vlan_filtering")),
            "ports": [
                _bridge_port(link["name"], vlans.get(link["name"], []))
                for link in links.values()
                if link["master"] == bridge["name"]
            ],
            "addresses": bridge["addresses"],
            "up": bridge["up"],
        }
        for bridge in bridges
    ]


def _bridge_port(name: str, vlans: List[Dict[str, Any]]) -> BridgePort:
    vids: List[int] = []
    pvid = None
    for entry in vlans:
        first = int(entry["vlan"])
        vids.extend(range(first, int(entry.get("vlanEnd", first)) + 1))
        if "PVID" in (entry.get("flags") or ()):
            pvid = first
    return {"name": name, "pvid": pvid, "vids": vids}


def observe_ovs(reader: Reader, links: Dict[str, Link]) -> Optional[Ovs]:
    """None where no Open vSwitch answers, which is no surprise on most hosts."""
    quiet = Reader(reader.host)
    bridges = ask(quiet, ("ovs-vsctl", "--format=json", "--columns=name,ports", "list", "Bridge"))
    if bridges is None:
        return None
    ports = ask(reader, ("ovs-vsctl", "--format=json", "--columns=name,tag,_uuid", "list", "Port"))
    config = ask(reader, ("ovs-vsctl", "get", "Open_vSwitch", ".", "other_config"))
    by_uuid = {_uuids(row["_uuid"])[0]: row for row in _rows(ports or "") if _uuids(row.get("_uuid"))}
    found: List[OvsBridge] = []
    for row in _rows(bridges):
        own = links.get(row["name"])
        members = [by_uuid[u] for u in _uuids(row["ports"]) if u in by_uuid]
        found.append({
            "name": row["name"],
            # A bridge has a port of its own name: its own device.
            "ports": sorted(
                ({"name": p["name"], "tag": p["tag"] if isinstance(p["tag"], int) else None}
                 for p in members if p["name"] != row["name"]),
                key=lambda p: str(p["name"]),
            ),
            "addresses": own["addresses"] if own else [],
            "up": own["up"] if own else None,
        })  # fmt: skip
    return {"hw_offload": bool(re.search(r'hw-offload="?true"?', config or "")), "bridges": found}


def _rows(text: str) -> List[Dict[str, Any]]:
    """Rows of ovs-vsctl's table {"headings": [...], "data": [[...]]} (ovs-vsctl(8), --format=json)."""
    try:
        table = json.loads(text) if text.strip() else {}
        return [dict(zip(table["headings"], row)) for row in table.get("data", ())]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _uuids(value: Any) -> List[str]:
    """UUIDs of a reference, in OVSDB's notation (RFC 7047, 5.1): ["uuid", X] or ["set", [["uuid", X], ...]]."""
    if not isinstance(value, list) or len(value) != 2:
        return []
    if value[0] == "uuid":
        return [str(value[1])]
    return [str(item[1]) for item in value[1]] if value[0] == "set" else []
