"""The eswitch of a PF: legacy or switchdev, how rules are steered, settings of VFs.

Sources: mlx5 core/eswitch_offloads.c (mlx5_devlink_eswitch_mode_set: EBUSY while offloaded flows exist; an active
LAG is ended first and looked at again afterwards), core/devlink.c and fs_core.c (flow_steering_mode is refused in
switchdev mode), core/esw/legacy.c (VLAN, spoofchk and trust are EOPNOTSUPP outside legacy mode; VLAN 0 is accepted),
net/core/rtnetlink.c (GUIDs need an InfiniBand device), igb igb_main.c.
"""

from __future__ import annotations

import errno
from typing import Any

from . import lag, net, sriov
from .errors import Refusal, busy, invalid, unsupported

State = dict[str, Any]


def pf_of(state: State, address: str) -> dict[str, Any]:
    """A PF that devlink knows; raises ENODEV."""
    known: dict[str, Any] | None = state["pfs"].get(address)
    if known is None or known["kind"] != "mlx5" or known["driver"] != "mlx5_core":
        raise Refusal(errno.ENODEV, "kernel answers: No such device")
    return known


def set_mode(state: State, address: str, mode: str) -> None:
    """Devlink dev eswitch set pci/ADDRESS mode legacy|switchdev."""
    known = pf_of(state, address)
    if mode not in ("legacy", "switchdev"):
        raise invalid()
    lag.disable_change(state, address)
    try:
        if offloaded(state, address):
            raise busy("Error: mlx5_core: Can't change mode, E-Switch is busy.")
        if known["esw"]["mode"] == mode:
            return
        known["esw"]["mode"] = mode
        if mode == "legacy":
            known["esw"]["multiport"] = False
        sriov.represent(state, address)
        for vf in known["vfs"]:
            vf["stale"] = bool(vf["driver"])  # its traffic stopped with the old tables
    finally:
        lag.event(state, address, "mode")


def offloaded(state: State, address: str) -> bool:
    """Whether Open vSwitch holds flows in this eswitch: hardware offload on, and representors in a bridge."""
    ovs = state["ovs"]
    if ovs is None or ovs["config"].get("hw-offload") != "true":
        return False
    mine = {vf["representor"] for vf in state["pfs"][address]["vfs"] if vf["representor"]}
    return any(port in mine for bridge in ovs["bridges"].values() for port in bridge["ports"])


def set_steering(state: State, address: str, value: str) -> None:
    """Devlink parameter flow_steering_mode."""
    known = pf_of(state, address)
    if value not in ("smfs", "dmfs", "hmfs"):
        raise invalid('Error: mlx5_core: Bad parameter: supported values are ["dmfs", "smfs", "hmfs"].')
    if known["esw"]["mode"] == "switchdev":
        raise unsupported(
            f"Error: mlx5_core: Moving to {value} is not supported when eswitch offloads enabled."
        )
    known["esw"]["steering"] = value


def switch_id(state: State, address: str) -> str | None:
    """phys_switch_id; None: EOPNOTSUPP, as in legacy mode. With a shared FDB all ports say that of the first."""
    known = state["pfs"][address]
    if known["kind"] != "mlx5" or known["esw"]["mode"] != "switchdev":
        return None
    entry = state["lag"].get(known["card"])
    first = state["cards"][known["card"]]["ports"][0]
    shown = first if entry and entry["shared_fdb"] else address
    return str(state["pfs"][shown]["mac"]).replace(":", "")


def set_vf(state: State, name: str, number: int, words: list[str]) -> None:
    """Ip link set NAME vf N ...: settings in the order they are given; the first refusal ends it."""
    device = net.get(state, name)
    if device["kind"] != "pf":
        raise unsupported("RTNETLINK answers: Operation not supported")
    known = state["pfs"][device["pci"]]
    if not 0 <= number < len(known["vfs"]):
        raise invalid("RTNETLINK answers: Invalid argument")
    vf = known["vfs"][number]
    at = 0
    while at < len(words):
        key = words[at]
        if at + 1 >= len(words):
            raise Refusal(errno.EINVAL, f'Error: argument "{key}" is wrong')
        value = words[at + 1]
        at += 2
        if key == "vlan":
            at = _vlan(known, vf, words, at, value)
        elif key in SETTERS:
            SETTERS[key](state, known, vf, value)
        else:
            raise Refusal(errno.EINVAL, f'Error: either "dev" is duplicate, or "{key}" is a garbage.')


def _vlan(known: dict[str, Any], vf: dict[str, Any], words: list[str], at: int, value: str) -> int:
    qos, proto = 0, "802.1Q"
    while at + 1 < len(words) and words[at] in ("qos", "proto"):
        if words[at] == "qos":
            qos = int(words[at + 1])
        else:
            proto = {"802.1q": "802.1Q"}.get(words[at + 1].lower(), words[at + 1])
        at += 2
    vlan = int(value)
    if vlan > 4095 or qos > 7:
        raise invalid("RTNETLINK answers: Invalid argument")
    if proto not in ("802.1Q", "802.1ad"):
        raise Refusal(errno.EPROTONOSUPPORT)
    if known["kind"] == "igb" and proto != "802.1Q":
        raise Refusal(errno.EPROTONOSUPPORT)
    if known["kind"] == "mlx5" and known["esw"]["mode"] != "legacy":
        if vlan:
            raise unsupported("RTNETLINK answers: Operation not supported")
        return at
    vf.update(vlan=vlan, qos=qos if vlan or qos else 0, proto=proto if vlan else "802.1Q")
    return at


def _legacy_only(known: dict[str, Any]) -> None:
    if known["kind"] == "mlx5" and known["esw"]["mode"] != "legacy":
        raise unsupported("RTNETLINK answers: Operation not supported")


def _mac(state: State, known: dict[str, Any], vf: dict[str, Any], value: str) -> None:
    text = value.lower()
    if len(text) != 17 or int(text[:2], 16) & 1:
        raise invalid("RTNETLINK answers: Invalid argument")
    vf["mac"] = text


def _spoofchk(state: State, known: dict[str, Any], vf: dict[str, Any], value: str) -> None:
    _legacy_only(known)
    vf["spoofchk"] = _switch(value)


def _trust(state: State, known: dict[str, Any], vf: dict[str, Any], value: str) -> None:
    _legacy_only(known)
    vf["trust"] = _switch(value)


def _state(state: State, known: dict[str, Any], vf: dict[str, Any], value: str) -> None:
    if known["kind"] == "igb":
        raise unsupported("RTNETLINK answers: Operation not supported")
    if value not in ("auto", "enable", "disable"):
        raise Refusal(errno.EINVAL, f'Error: argument "{value}" is wrong: Invalid "state" value')
    vf["link_state"] = value


def _rate(key: str, state: State, known: dict[str, Any], vf: dict[str, Any], value: str) -> None:
    rate = int(value)
    speed = 200000 if known["kind"] == "mlx5" else 1000
    if known["kind"] == "igb" and key == "min_tx" and rate:
        raise invalid("RTNETLINK answers: Invalid argument")
    limits = {**{"min_tx": vf["min_tx"], "max_tx": vf["max_tx"]}, key: rate}
    if rate > speed or limits["max_tx"] and limits["min_tx"] > limits["max_tx"]:
        raise invalid("RTNETLINK answers: Invalid argument")
    vf[key] = rate


def _guid(key: str, state: State, known: dict[str, Any], vf: dict[str, Any], value: str) -> None:
    if link_type(state, known) != "infiniband":
        raise unsupported("RTNETLINK answers: Operation not supported")
    vf[key] = value.lower()


def link_type(state: State, known: dict[str, Any]) -> str:
    """Tell "ether" or "infiniband", as the firmware has set up the port."""
    card = state["cards"].get(known["card"])
    value = (
        str(card["firmware"].get(f"LINK_TYPE_P{known['port'] + 1}", {}).get("current", "")) if card else ""
    )
    return "infiniband" if value.startswith("IB") else "ether"


def _switch(value: str) -> bool:
    if value not in ("on", "off"):
        raise Refusal(errno.EINVAL, f'Error: argument must be "on" or "off", not "{value}"')
    return value == "on"


SETTERS: dict[str, Any] = {
    "mac": _mac,
    "spoofchk": _spoofchk,
    "trust": _trust,
    "state": _state,
    "min_tx_rate": lambda *a: _rate("min_tx", *a),
    "max_tx_rate": lambda *a: _rate("max_tx", *a),
    "node_guid": lambda *a: _guid("node_guid", *a),
    "port_guid": lambda *a: _guid("port_guid", *a),
}
