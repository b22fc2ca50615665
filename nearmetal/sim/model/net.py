"""Network devices of a simulated host: names, carrier, bonds, bridges, addresses."""

from __future__ import annotations

import errno
from typing import Any

from . import lag, routes
from .errors import Refusal, absent, busy, invalid

State = dict[str, Any]

MODES = ("balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb")
"""Bond modes by number: Documentation/networking/bonding.rst."""
POLICIES = ("layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac")
MAX_MTU = {"pf": 9978, "vf": 9978, "rep": 9978, "bond": 65535, "bridge": 65535, "vlan": 65535, "ovs": 65535}
ZERO = "00:00:00:00:00:00"
PARTNER = "02:1a:c5:00:00:01"
"""MAC of the switch, where it speaks LACP."""


def new(state: State, name: str, kind: str, mac: str, **more: Any) -> dict[str, Any]:
    """Add a device; raises EEXIST."""
    if name in state["netdevs"]:
        raise Refusal(errno.EEXIST)
    if len(name) > 15:
        raise invalid(f'"name" not a valid ifname: {name}')
    device = {
        "kind": kind,
        "pci": "",
        "pf": "",
        "vf": None,
        "mac": mac,
        "perm_mac": mac,
        "mtu": 1500,
        "up": False,
        "cable": True,
        "master": "",
        "addresses": [],
        "index": max([1, *(d["index"] for d in state["netdevs"].values())]) + 1,
        **more,
    }
    state["netdevs"][name] = device
    return device


def get(state: State, name: str) -> dict[str, Any]:
    """A device; raises ENODEV in the words of ip."""
    device: dict[str, Any] | None = state["netdevs"].get(name)
    if device is None:
        raise absent(f'Cannot find device "{name}"')
    return device


def remove(state: State, name: str) -> None:
    """Take a device away with what hangs on it; nothing where it is not there."""
    if name not in state["netdevs"]:
        return
    for other, device in list(state["netdevs"].items()):
        if device.get("link") == name:
            remove(state, other)
        elif device["master"] == name:
            release(state, other)
    if state["netdevs"][name]["master"]:
        release(state, name)
    device = state["netdevs"].pop(name)
    routes.drop(state, name)
    state["bonds"].pop(name, None)
    state["bridges"].pop(name, None)
    state["vlans"].pop(name, None)
    if device["kind"] == "pf":
        lag.netdev_gone(state, device["pci"])


def slaves(state: State, master: str) -> list[str]:
    """Members of a bond or bridge, in the order of their indexes."""
    found = [(d["index"], name) for name, d in state["netdevs"].items() if d["master"] == master]
    return [name for _index, name in sorted(found)]


def carrier(state: State, name: str) -> bool:
    """Whether the device has a link. Without IFF_UP there is none."""
    device = state["netdevs"][name]
    if not device["up"]:
        return False
    kind = device["kind"]
    if kind == "pf":
        return bool(state["pfs"][device["pci"]]["cable"])
    if kind == "vf":
        vf = state["pfs"][device["pf"]]["vfs"][device["vf"]]
        return vf["link_state"] == "enable" or vf["link_state"] == "auto" and _uplink(state, device["pf"])
    if kind in ("bond", "bridge"):
        return any(carrier(state, port) for port in slaves(state, name))
    if kind == "vlan":
        return carrier(state, device["link"])
    return True


def _uplink(state: State, pf: str) -> bool:
    name = state["pfs"][pf]["netdev"]
    return bool(name) and carrier(state, name)


def operstate(state: State, name: str) -> str:
    """As /sys/class/net/NAME/operstate says it: "up", "down"."""
    return "up" if carrier(state, name) else "down"


def set_up(state: State, name: str, up: bool) -> None:
    """Ip link set NAME up|down."""
    device = get(state, name)
    if device["up"] == up:
        return
    device["up"] = up
    routes.again(state, name) if up else routes.drop(state, name)
    refresh(state, device["master"])
    if device["kind"] == "pf":
        lag.event(state, device["pci"], "link")
    for slave in slaves(state, name) if device["kind"] == "bond" else ():
        lag.event(state, state["netdevs"][slave]["pci"], "link")


def set_mtu(state: State, name: str, mtu: int) -> None:
    """Ip link set NAME mtu N. A bond hands it down to its members (bond_change_mtu)."""
    device = get(state, name)
    if mtu < 68:
        raise invalid("mtu less than device minimum")
    if mtu > MAX_MTU[device["kind"]]:
        raise invalid("mtu greater than device maximum")
    if device["kind"] == "vlan" and mtu > state["netdevs"][device["link"]]["mtu"]:
        raise Refusal(errno.ERANGE)
    if device["kind"] == "bond":
        for slave in slaves(state, name):
            set_mtu(state, slave, mtu)
    device["mtu"] = mtu


def add_bond(state: State, name: str, options: dict[str, str]) -> None:
    """Ip link add NAME type bond ..."""
    mode = options.get("mode", "balance-rr")
    mode = MODES[int(mode)] if mode.isdigit() and int(mode) < len(MODES) else mode
    if mode not in MODES:
        raise Refusal(errno.EINVAL, f'Error: argument "{mode}" is wrong: invalid bond mode')
    policy = options.get("xmit_hash_policy", "layer2")
    if policy not in POLICIES:
        raise Refusal(errno.EINVAL, f'Error: argument "{policy}" is wrong: invalid xmit_hash_policy')
    rate = {"0": "slow", "1": "fast"}.get(options.get("lacp_rate", "slow"), options.get("lacp_rate", "slow"))
    if "lacp_rate" in options and mode != "802.3ad":
        raise invalid("option not valid in current mode")
    new(state, name, "bond", virtual_mac(state, name))
    state["bonds"][name] = {
        "mode": mode,
        "miimon": int(options.get("miimon", "0")),
        "lacp_rate": rate,
        "xmit_hash_policy": policy,
        "active": "",
        "by": "hand",
    }


def virtual_mac(state: State, name: str) -> str:
    """A bond without members has a random address (eth_hw_addr_random), as a bridge has; here it follows from its name."""
    number = sum(name.encode()) & 255
    return f"fe:{state['number'] >> 8:02x}:{state['number'] & 255:02x}:b0:0d:{number:02x}"


def change_bond(state: State, name: str, options: dict[str, str]) -> None:
    """Ip link set NAME type bond ... . Mode: only without members and while down (BOND_OPTFLAG_NOSLAVES, _IFDOWN)."""
    bond = state["bonds"].get(name)
    if bond is None:
        raise Refusal(errno.EOPNOTSUPP)
    mode = options.get("mode", bond["mode"])
    if mode != bond["mode"]:
        if slaves(state, name):
            raise Refusal(errno.ENOTEMPTY, "unable to set option because the bond has slaves")
        if state["netdevs"][name]["up"]:
            raise busy("unable to set option because the bond device is up")
        if mode not in MODES:
            raise invalid()
        bond["mode"] = mode
    if "lacp_rate" in options:
        if state["netdevs"][name]["up"]:
            raise busy("unable to set option because the bond device is up")
        bond["lacp_rate"] = options["lacp_rate"]
    if "miimon" in options:
        bond["miimon"] = int(options["miimon"])
    if "xmit_hash_policy" in options:
        bond["xmit_hash_policy"] = options["xmit_hash_policy"]


def enslave(state: State, name: str, master: str) -> None:
    """Ip link set NAME master MASTER.

    A member of a bond must be down when it joins (bond_enslave: "Device can not be enslaved while up", EPERM) and is
    opened then; the first one gives the bond its MAC, all get the bond's MAC and MTU.
    """
    device, above = get(state, name), get(state, master)
    if device["master"] == master:
        return
    if device["master"]:
        release(state, name)
    if above["kind"] == "bond":
        if device["kind"] == "bond":
            raise Refusal(errno.EPERM, "Cannot enslave bond to bond")
        if device["up"]:
            raise Refusal(errno.EPERM, "Device can not be enslaved while up")
        if not slaves(state, master) and above["mac"] == above["perm_mac"]:
            above["mac"] = device["mac"]
        device.update(mac=above["mac"], mtu_before=device["mtu"], mtu=above["mtu"], up=True)
    elif above["kind"] == "bridge":
        if above is device:
            raise Refusal(errno.ELOOP)
        state["vlans"][name] = [{"vid": 1, "pvid": True, "untagged": True}]
    else:
        raise Refusal(errno.EOPNOTSUPP)
    device["master"] = master
    refresh(state, master)
    if device["kind"] == "pf":
        lag.event(state, device["pci"], "upper")
    _others(state, master)


def release(state: State, name: str) -> None:
    """Ip link set NAME nomaster. A bond closes its former member and gives it its own MAC back (__bond_release_one)."""
    device = get(state, name)
    master = device["master"]
    if not master:
        return
    device["master"] = ""
    if master in state["bonds"]:
        device.update(mac=device["perm_mac"], mtu=device.pop("mtu_before", 1500), up=False)
        routes.drop(state, name)
        if not slaves(state, master):
            state["netdevs"][master]["mac"] = state["netdevs"][master]["perm_mac"]
    else:
        state["vlans"].pop(name, None)
    refresh(state, master)
    if device["kind"] == "pf":
        lag.event(state, device["pci"], "upper")
    _others(state, master)


def _others(state: State, master: str) -> None:
    """Cards whose ports are in this bond hear of a member that comes or goes as well."""
    if master in state["bonds"]:
        for slave in slaves(state, master):
            if state["netdevs"][slave]["kind"] == "pf":
                lag.event(state, state["netdevs"][slave]["pci"], "upper")


def refresh(state: State, master: str) -> None:
    """Which member of a bond carries traffic."""
    bond = state["bonds"].get(master)
    if bond is None:
        return
    able = [slave for slave in slaves(state, master) if carrier(state, slave)]
    if bond["mode"] in ("active-backup", "balance-tlb", "balance-alb"):
        if bond["active"] not in able:
            bond["active"] = able[0] if able else ""
    else:
        bond["active"] = ""


def partner(state: State, bond: str) -> str:
    """MAC of the LACP partner; zeroes where nobody answers."""
    if (
        state["bonds"][bond]["mode"] != "802.3ad"
        or not state["variant"]["lacp"]
        or "lacp-silent" in state["faults"]
    ):
        return ZERO
    return PARTNER if any(carrier(state, slave) for slave in slaves(state, bond)) else ZERO


def add_address(state: State, name: str, cidr: str) -> None:
    """Ip addr add CIDR dev NAME."""
    device = get(state, name)
    if cidr in device["addresses"]:
        raise Refusal(errno.EEXIST, "RTNETLINK answers: File exists")
    device["addresses"].append(cidr)


def del_address(state: State, name: str, cidr: str) -> None:
    """Ip addr del CIDR dev NAME."""
    device = get(state, name)
    if cidr not in device["addresses"]:
        raise Refusal(errno.EADDRNOTAVAIL)
    device["addresses"].remove(cidr)
