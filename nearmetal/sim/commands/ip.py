"""ip and bridge of iproute2. JSON as `ip -j -d link show` gives it (iproute2 ip/ipaddress.c, bridge/vlan.c)."""

from __future__ import annotations

import json
from typing import Any

from ..model import eswitch, net, routes
from ..model.errors import Refusal, absent, invalid
from . import Answer, Machine, not_simulated

State = dict[str, Any]

BOND_OPTIONS = ("mode", "miimon", "lacp_rate", "xmit_hash_policy")


def run(machine: Machine, argv: list[str], stdin: str) -> Answer:
    """Ip or bridge."""
    words = [word for word in argv[1:] if word not in ("-j", "-d", "-json", "-details", "-br")]
    if argv[0] == "bridge":
        return _bridge(machine, argv, words)
    family = next((word for word in words if word in ("-4", "-6")), "-4")
    words = [word for word in words if word not in ("-4", "-6")]
    if words[:1] == ["route"] and words[1:] in (["show"], []):
        return 0, "".join(line + "\n" for line in routes.lines(machine.state, family)), ""
    if words[:2] in (["route", "replace"], ["route", "add"]) and len(words) > 4 and family == "-4":
        routes.replace(machine.state, words[2:])
        return 0, "", ""
    if words[:1] == ["link"] and words[1:2] in (["set"], ["add"], ["del"], ["delete"]):
        return {"set": _set, "add": _add, "del": _delete, "delete": _delete}[words[1]](
            machine, argv, words[2:]
        )
    if (
        words[:1] in (["addr"], ["address"])
        and words[1:2] in (["add"], ["del"])
        and words[3:4] == ["dev"]
        and len(words) == 5
    ):
        {"add": net.add_address, "del": net.del_address}[words[1]](machine.state, words[4], words[2])
        return 0, "", ""
    if (
        words[:1] in (["link"], ["addr"], ["address"])
        and words[1:2] in (["show"], [])
        and ("-j" in argv or "-json" in argv)
    ):
        return _show(machine.state, words, detailed="-d" in argv or "-details" in argv)
    return not_simulated(argv)


def _show(state: State, words: list[str], detailed: bool) -> Answer:
    only = words[3] if words[2:3] == ["dev"] else words[2] if len(words) > 2 else ""
    if only and only not in state["netdevs"]:
        raise Refusal(19, f'Device "{only}" does not exist.')
    make = _link if words[0] == "link" else _addresses
    names = sorted(state["netdevs"], key=lambda name: state["netdevs"][name]["index"])
    return (
        0,
        json.dumps(
            [make(state, name, detailed) for name in names if not only or name == only], separators=(",", ":")
        )
        + "\n",
        "",
    )


def _base(state: State, name: str) -> dict[str, Any]:
    device = state["netdevs"][name]
    carrier = net.carrier(state, name)
    flags = ["LOOPBACK"] if device["kind"] == "lo" else ["BROADCAST", "MULTICAST"]
    if device["kind"] == "bond":
        flags.append("MASTER")
    if device["master"] in state["bonds"]:
        flags.append("SLAVE")
    flags += ["UP", *(["LOWER_UP"] if carrier else [])] if device["up"] else []
    if device["up"] and not carrier:
        flags.insert(0, "NO-CARRIER")
    known = state["pfs"].get(device["pci"])
    kind = "loopback" if device["kind"] == "lo" else eswitch.link_type(state, known) if known else "ether"
    entry: dict[str, Any] = {
        "ifindex": device["index"],
        "ifname": name,
        "flags": flags,
        "mtu": device["mtu"],
        "qdisc": "mq",
    }
    if device["kind"] == "vlan":
        entry["link"] = device["link"]
    if device["master"]:
        entry["master"] = device["master"]
    word = "UNKNOWN" if device["kind"] == "lo" else net.operstate(state, name).upper()
    entry.update(
        operstate=word,
        linkmode="DEFAULT",
        group="default",
        txqlen=1000,
        link_type=kind,
        address=device["mac"],
        broadcast="ff:ff:ff:ff:ff:ff",
    )
    if device["perm_mac"] != device["mac"] and device["kind"] in ("pf", "vf"):
        entry["permaddr"] = device["perm_mac"]
    return entry


def _link(state: State, name: str, detailed: bool) -> dict[str, Any]:
    device = state["netdevs"][name]
    entry = _base(state, name)
    if detailed:
        entry.update(promiscuity=0, min_mtu=68, max_mtu=net.MAX_MTU.get(device["kind"], 65536))
        info = _info(state, name, device)
        if info:
            entry["linkinfo"] = info
        entry.update(num_tx_queues=8, num_rx_queues=8)
        pf = device["pci"] if device["kind"] == "pf" else device["pf"] if device["kind"] == "rep" else ""
        if pf and state["pfs"][pf]["kind"] == "mlx5":
            number = state["pfs"][pf]["port"]
            entry["phys_port_name"] = (
                f"pf{number}vf{device['vf']}" if device["kind"] == "rep" else f"p{number}"
            )
            shown = eswitch.switch_id(state, pf)
            if shown:
                entry["phys_switch_id"] = shown
        if device["pci"]:
            entry.update(parentbus="pci", parentdev=device["pci"])
    if device["kind"] == "pf" and state["pfs"][device["pci"]]["vfs"]:
        entry["vfinfo_list"] = [vf_info(vf) for vf in state["pfs"][device["pci"]]["vfs"]]
    return entry


def vf_info(vf: dict[str, Any]) -> dict[str, Any]:
    """One VF as its PF's driver tells it."""
    entry = {"vf": vf["index"], "link_type": "ether", "address": vf["mac"], "broadcast": "ff:ff:ff:ff:ff:ff"}
    if vf["vlan"] or vf["qos"]:
        vlan = {"vlan": vf["vlan"], **({"qos": vf["qos"]} if vf["qos"] else {})}
        if vf["proto"] != "802.1Q":
            vlan["protocol"] = vf["proto"]
        entry["vlan_list"] = [vlan]
    entry.update(rate={"max_tx": vf["max_tx"], "min_tx": vf["min_tx"]}, spoofchk=vf["spoofchk"])
    for key in ("node_guid", "port_guid"):
        if vf[key]:
            entry[key.replace("_", " ")] = vf[key]
    entry.update(link_state=vf["link_state"], trust=vf["trust"], query_rss_en=False)
    return entry


def _info(state: State, name: str, device: dict[str, Any]) -> dict[str, Any]:
    info: dict[str, Any] = {}
    if device["kind"] in ("bond", "bridge", "vlan"):
        info["info_kind"] = device["kind"]
    elif device["kind"] == "ovs":
        info["info_kind"] = "openvswitch"
    if device["kind"] == "bond":
        info["info_data"] = _bond_data(state, name)
    elif device["kind"] == "bridge":
        info["info_data"] = {
            "vlan_filtering": state["bridges"][name]["vlan_filtering"],
            "vlan_default_pvid": 1,
        }
    elif device["kind"] == "vlan":
        info["info_data"] = {"protocol": "802.1Q", "id": device["vid"], "flags": ["REORDER_HDR"]}
    if device["master"] in state["bonds"]:
        bond = state["bonds"][device["master"]]
        backup = bond["mode"] == "active-backup" and bond["active"] != name
        info["info_slave_kind"] = "bond"
        info["info_slave_data"] = {
            "state": "BACKUP" if backup else "ACTIVE",
            "mii_status": "UP" if net.carrier(state, name) else "DOWN",
            "link_failure_count": 0,
            "perm_hwaddr": device["perm_mac"],
            "queue_id": 0,
        }
    elif device["master"] in state["bridges"]:
        info["info_slave_kind"] = "bridge"
    return info


def _bond_data(state: State, name: str) -> dict[str, Any]:
    bond = state["bonds"][name]
    data = {
        "mode": bond["mode"],
        "miimon": bond["miimon"],
        "updelay": 0,
        "downdelay": 0,
        "use_carrier": 1,
        "arp_interval": 0,
        "xmit_hash_policy": bond["xmit_hash_policy"],
        "min_links": 0,
        "lp_interval": 1,
        "packets_per_slave": 1,
    }
    if bond["mode"] == "active-backup" and bond["active"]:
        data["active_slave"] = bond["active"]
    if bond["mode"] == "802.3ad":
        partner = net.partner(state, name)
        ports = len(net.slaves(state, name)) if partner != net.ZERO else min(1, len(net.slaves(state, name)))
        data["ad_lacp_active"] = "on"
        data["ad_lacp_rate"] = bond["lacp_rate"]
        data["ad_info"] = {
            "aggregator": 1,
            "num_ports": ports,
            "actor_key": 21,
            "partner_key": 1,
            "partner_mac": partner,
        }
    return data


def _addresses(state: State, name: str, detailed: bool) -> dict[str, Any]:
    entry = _base(state, name)
    found = []
    for cidr in ["127.0.0.1/8"] if name == "lo" else state["netdevs"][name]["addresses"]:
        local, _slash, length = cidr.partition("/")
        family = "inet6" if ":" in local else "inet"
        found.append(
            {
                "family": family,
                "local": local,
                "prefixlen": int(length or 32),
                "scope": "global",
                "label": name,
            }
        )
    entry["addr_info"] = found
    return entry


def _set(machine: Machine, argv: list[str], words: list[str]) -> Answer:
    """Ip link set [dev] NAME ..."""
    state = machine.state
    words = words[1:] if words[:1] == ["dev"] else words
    if not words:
        return not_simulated(argv)
    name, rest = words[0], words[1:]
    net.get(state, name)
    if rest[:1] == ["type"] and rest[1:2] == ["bond"]:
        net.change_bond(state, name, _pairs(rest[2:], argv))
        return 0, "", ""
    at = 0
    while at < len(rest):
        key = rest[at]
        value = rest[at + 1] if at + 1 < len(rest) else ""
        if key in ("up", "down"):
            net.set_up(state, name, key == "up")
            at += 1
            continue
        if key == "nomaster":
            net.release(state, name)
            at += 1
            continue
        if key == "vf":
            eswitch.set_vf(state, name, int(value), rest[at + 2 :])
            return 0, "", ""
        if key == "mtu":
            net.set_mtu(state, name, int(value))
        elif key == "master":
            net.enslave(state, name, value)
        elif key == "address":
            net.get(state, name)["mac"] = value.lower()
        else:
            return not_simulated(argv)
        at += 2
    return 0, "", ""


def _pairs(words: list[str], argv: list[str]) -> dict[str, str]:
    if len(words) % 2:
        raise Refusal(22, "Error: argument missing")
    return dict(zip(words[::2], words[1::2], strict=True))


def _add(machine: Machine, argv: list[str], words: list[str]) -> Answer:
    """Ip link add [link LOWER] [name] NAME type bond|bridge|vlan ..."""
    state, lower = machine.state, ""
    if words[:1] == ["link"]:
        lower, words = words[1], words[2:]
    words = words[1:] if words[:1] == ["name"] else words
    if words[1:2] != ["type"] or len(words) < 3:
        return not_simulated(argv)
    name, kind, options = words[0], words[2], _pairs(words[3:], argv)
    if kind == "bond" and set(options) <= set(BOND_OPTIONS):
        net.add_bond(state, name, options)
    elif kind == "bridge" and set(options) <= {"vlan_filtering", "vlan_default_pvid"}:
        net.new(state, name, "bridge", net.virtual_mac(state, name))
        state["bridges"][name] = {"vlan_filtering": int(options.get("vlan_filtering", "0"))}
    elif kind == "vlan" and lower and set(options) <= {"id"}:
        net.new(
            state, name, "vlan", net.get(state, lower)["mac"], link=lower, vid=int(options.get("id", "0"))
        )
    else:
        return not_simulated(argv)
    return 0, "", ""


def _delete(machine: Machine, argv: list[str], words: list[str]) -> Answer:
    words = words[1:] if words[:1] == ["dev"] else words
    device = net.get(machine.state, words[0])
    if device["kind"] not in ("bond", "bridge", "vlan"):
        raise Refusal(95)
    net.remove(machine.state, words[0])
    return 0, "", ""


def _bridge(machine: Machine, argv: list[str], words: list[str]) -> Answer:
    state = machine.state
    if words[:2] in (["vlan", "show"], ["vlan"]):
        listed = [
            {"ifname": name, "vlans": [_vlan(v) for v in sorted(vlans, key=lambda v: v["vid"])]}
            for name, vlans in state["vlans"].items()
        ]
        return 0, json.dumps(listed, separators=(",", ":")) + "\n", ""
    if words[:1] != ["vlan"] or words[1:2] not in (["add"], ["del"]):
        return not_simulated(argv)
    given = {"dev": "", "vid": ""}
    rest = words[2:]
    flags = [word for word in rest if word in ("pvid", "untagged", "master", "self")]
    for at, word in enumerate(rest[:-1]):
        if word in given:
            given[word] = rest[at + 1]
    return _vlan_change(state, words[1], given["dev"], given["vid"], flags)


def _vlan(vlan: dict[str, Any]) -> dict[str, Any]:
    flags = [*(["PVID"] if vlan["pvid"] else []), *(["Egress Untagged"] if vlan["untagged"] else [])]
    return {"vlan": vlan["vid"], **({"flags": flags} if flags else {})}


def _vlan_change(state: State, verb: str, name: str, vid: str, flags: list[str]) -> Answer:
    net.get(state, name)
    if name not in state["vlans"] and "self" not in flags:
        raise Refusal(95, "RTNETLINK answers: Operation not supported")  # no port of a bridge
    first, _dash, last = vid.partition("-")
    if not first.isdigit() or not 1 <= int(first) <= 4094:
        raise invalid('Error: argument "vid" is wrong')
    wanted = range(int(first), int(last or first) + 1)
    there = state["vlans"].setdefault(name, [])
    if verb == "del":
        if not any(v["vid"] in wanted for v in there):
            raise absent("RTNETLINK answers: No such file or directory")
        there[:] = [v for v in there if v["vid"] not in wanted]
        return 0, "", ""
    for number in wanted:
        there[:] = [v for v in there if v["vid"] != number]
        if "pvid" in flags:
            for other in there:
                other["pvid"] = False
        there.append({"vid": number, "pvid": "pvid" in flags, "untagged": "untagged" in flags})
    return 0, "", ""
