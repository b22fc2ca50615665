# Copyright (c) 2026, nearmetal contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out operations: do, wait where needed, raise the kernel's word with what it means.

`converge` plans, executes and observes until nothing is left. After an error nothing more is done: above all no VF is
bound when the LAG did not become what it should be.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ..host import Host, HostError
from ..observe.eswitch import observe_lag
from ..observe.reader import Reader
from ..state import Fabric
from .doer import DEVICE_WAIT, DEVICES, NET, Doer, Progress
from .explain import refusal
from .plan import plan
from .shapes import Desired, Op, split_target

DRIVERS = "/sys/bus/pci/drivers/"
ROUNDS = 5
LAG_GRACE = 3
"""Seconds in which a LAG may still become active by itself before a PF is taken out and put back."""

Do = Callable[[Doer, Op], None]


def execute(host: Host, ops: Sequence[Op], progress: Optional[Progress] = None, doer: Optional[Doer] = None,
            more: Optional[Mapping[str, Do]] = None) -> None:  # fmt: skip
    """Do them one after the other. more: operations of others, by kind. Raises HostError at the first that fails."""
    doer = doer or Doer(host, progress)
    known = {**_DO, **(more or {})}
    for at, op in enumerate(ops):
        if op.kind not in known:
            raise HostError(op.target, "nobody knows how to do %r" % op.kind)
        doer.progress(op.text)
        try:
            known[op.kind](doer, op)
        except HostError as err:
            why = refusal(op, err.reason)
            raise HostError(err.path, "%s (while: %s)%s" % (err.reason, op.text, ": " + why if why else "")) from None
        if op.kind in ("bind", "eswitch", "numvfs") and (at + 1 == len(ops) or ops[at + 1].kind != op.kind):
            doer.settle()


def converge(
    host: Host, desired: Desired, observe: Callable[[Host], Fabric], doer: Optional[Doer] = None,
    before: Optional[Callable[[Fabric, List[Op]], None]] = None, more: Optional[Mapping[str, Do]] = None,
) -> List[Op]:  # fmt: skip
    """Plan, do and look again until nothing is left; what was done. before: is told each plan before it is begun.

    Raises HostError where an operation fails, or where one comes back although it succeeded.
    """
    done: List[Op] = []
    former: List[Any] = []
    for _round in range(ROUNDS):
        fabric = observe(host)
        ops = plan(desired, fabric)
        essence = [(op.kind, op.target, op.value) for op in ops]
        if not ops:
            return done
        if essence == former:
            raise HostError(ops[0].target, "was done and read back, and is still to be done: %s" % "; ".join(
                op.text for op in ops[:3]))  # fmt: skip
        if before is not None:
            before(fabric, ops)
        execute(host, ops, doer=doer, more=more)
        done, former = done + ops, essence
    raise HostError("fabric", "no end after %d rounds: something else changes it, too" % ROUNDS)


# --- PFs


def _poke(doer: Doer, path: str, text: str) -> None:
    doer.host.poke(path, text)


def _autoprobe(doer: Doer, op: Op) -> None:
    _poke(doer, DEVICES + op.target + "/sriov_drivers_autoprobe", "1" if op.value else "0")


def _numvfs(doer: Doer, op: Op) -> None:
    path = DEVICES + op.target + "/sriov_numvfs"
    _poke(doer, path, str(op.value))
    have = doer.text(path)
    if have != str(op.value):
        raise HostError(path, "reads %s after %s was written" % (have or "nothing", op.value))
    if op.value:
        doer.vf(op.target, op.value - 1)


def _eswitch(doer: Doer, op: Op) -> None:
    doer.run("devlink", "dev", "eswitch", "set", "pci/" + op.target, "mode", op.value)


def _wait_switch_id(doer: Doer, op: Op) -> None:
    path = NET + doer.device(op.target) + "/phys_switch_id"
    if not doer.until(lambda: doer.text(path), DEVICE_WAIT):
        raise HostError(path, "no switch id after %d s in switchdev mode" % DEVICE_WAIT)


def _param(doer: Doer, pf: str, name: str, value: str) -> None:
    doer.run("devlink", "dev", "param", "set", "pci/" + pf, "name", name, "value", value, "cmode", "runtime")


def _steering(doer: Doer, op: Op) -> None:
    _param(doer, op.target, "flow_steering_mode", op.value)


def _multiport(doer: Doer, op: Op) -> None:
    _param(doer, op.target, "esw_multiport", "true" if op.value else "false")


def _hw_tc(doer: Doer, op: Op) -> None:
    doer.run("ethtool", "-K", doer.device(op.target), "hw-tc-offload", "on" if op.value else "off")


def _up(doer: Doer, op: Op) -> None:
    doer.run("ip", "link", "set", doer.at(op.target), "up" if op.value else "down")


def _mtu(doer: Doer, op: Op) -> None:
    doer.run("ip", "link", "set", doer.at(op.target), "mtu", op.value)


# --- VFs


def _unbind(doer: Doer, op: Op) -> None:
    pf, _word, index = split_target(op.target)
    address = doer.vf(pf, index)
    driver = doer.driver(address)
    if driver:
        _poke(doer, DRIVERS + driver + "/unbind", address)
        if doer.driver(address):
            raise HostError(DRIVERS + driver + "/unbind", "%s is still bound" % address)


def _bind(doer: Doer, op: Op) -> None:
    pf, _word, index = split_target(op.target)
    address = doer.vf(pf, index)
    if op.value and not doer.host.exists(DRIVERS + op.value):
        doer.run("modprobe", op.value)
    _poke(doer, DEVICES + address + "/driver_override", (op.value or "") + "\n")
    _poke(doer, "/sys/bus/pci/drivers_probe", address)
    have = doer.until(lambda: doer.driver(address), 5)
    if not have or op.value and have != op.value:
        wanted = op.value or "any driver"
        hint = "its module is not loaded or does not know the VF" if not op.value else "see the kernel's log (dmesg)"
        raise HostError(DEVICES + address, "is bound to %s, not to %s: %s" % (have or "nothing", wanted, hint))


_WORDS = {
    "mac": "mac", "trust": "trust", "spoofchk": "spoofchk", "link_state": "state", "node_guid": "node_guid",
    "port_guid": "port_guid", "min_tx_rate": "min_tx_rate", "max_tx_rate": "max_tx_rate",
}  # fmt: skip


def _vf(doer: Doer, op: Op) -> None:
    pf, _word, index = split_target(op.target)
    argv: List[Any] = ["ip", "link", "set", doer.device(pf), "vf", index]
    for key, value in op.value.items():
        if key in _WORDS:
            argv += [_WORDS[key], _said(key, value)]
    if "vlan" in op.value:
        argv += ["vlan", op.value["vlan"] or 0, "qos", op.value.get("qos") or 0]
        argv += ["proto", op.value["proto"]] if op.value.get("proto") not in (None, "", "802.1Q") else []
    doer.run(*argv)


def _said(key: str, value: Any) -> Any:
    if isinstance(value, bool):
        return "on" if value else "off"
    return value or "00:00:00:00:00:00" if key == "mac" else value


def _vf_mtu(doer: Doer, op: Op) -> None:
    pf, _word, index = split_target(op.target)
    path = DEVICES + doer.vf(pf, index) + "/net"
    names = doer.until(lambda: doer.host.names(path), DEVICE_WAIT)
    if not names:
        raise HostError(path, "VF %d has no network device after %d s" % (index, DEVICE_WAIT))
    doer.run("ip", "link", "set", names[0], "mtu", op.value)


# --- bonds


def _options(values: Dict[str, Any]) -> List[Any]:
    return [word for pair in values.items() for word in pair]


def _bond_add(doer: Doer, op: Op) -> None:
    if not doer.host.exists(NET + op.target):
        doer.run("ip", "link", "add", op.target, "type", "bond", *_options(op.value))


def _bond_set(doer: Doer, op: Op) -> None:
    if {"mode", "lacp_rate"} & set(op.value):  # the kernel changes these while the bond is down
        doer.run("ip", "link", "set", op.target, "down")
    doer.run("ip", "link", "set", op.target, "type", "bond", *_options(op.value))


def _delete(doer: Doer, op: Op) -> None:
    if doer.host.exists(NET + op.target):
        doer.run("ip", "link", "del", op.target)


def _join(doer: Doer, device: str, bond: str) -> None:
    doer.run("ip", "link", "set", device, "down")  # a device that is up is refused
    doer.run("ip", "link", "set", device, "master", bond)
    doer.run("ip", "link", "set", device, "up")


def _enslave(doer: Doer, op: Op) -> None:
    _join(doer, doer.device(op.target), op.value)


def _release(doer: Doer, op: Op) -> None:
    doer.run("ip", "link", "set", doer.at(op.target), "nomaster")


def _relag(doer: Doer, op: Op) -> None:
    if doer.until(lambda: _lag_is(doer, op.value["pfs"], op.value["type"]), LAG_GRACE):
        return
    device = doer.device(op.target)
    doer.run("ip", "link", "set", device, "nomaster")
    _join(doer, device, op.value["bond"])


def _lag_is(doer: Doer, pfs: Sequence[str], wanted: str) -> bool:
    known = [observe_lag(Reader(doer.host), pf) for pf in pfs]
    if any(lag is None for lag in known):
        ids = {doer.text(NET + doer.device(pf) + "/phys_switch_id") for pf in pfs}
        return len(ids) == 1 and "" not in ids
    return all(lag is not None and lag["state"] == "active" and lag["type"] == wanted for lag in known)


def _gate(doer: Doer, op: Op) -> None:
    pfs, wanted, seconds = op.value["pfs"], op.value["type"], op.value["timeout"]
    if doer.until(lambda: _lag_is(doer, pfs, wanted), seconds):
        return
    states = []
    for pf in pfs:
        lag = observe_lag(Reader(doer.host), pf)
        states.append("%s: %s" % (pf, "not known" if lag is None else "state %s, type %s" % (lag["state"], lag["type"] or "none")))
    raise HostError(
        "LAG of %s" % op.target,
        "not active as %s after %s s (%s); no VF was bound. %s" % (wanted, seconds, "; ".join(states), _lag_advice(doer, pfs)),
    )


def _lag_advice(doer: Doer, pfs: Sequence[str]) -> str:
    many = [pf for pf in pfs if int(doer.text(DEVICES + pf + "/sriov_totalvfs") or 0) > 64]
    if many:
        return "The firmware of %s counts more than 64 VFs (NUM_OF_VFS): LAG never becomes active then" % ", ".join(many)
    return (
        "Look in dmesg: \"more than 64 VFs\", \"TX type isn't supported\", or \"driver restart required\", after a LAG that was "
        "ended while VFs were bound: then unbind the PFs from mlx5_core and bind them, or reboot"
    )


# --- forwarding


def _bridge_add(doer: Doer, op: Op) -> None:
    if not doer.host.exists(NET + op.target):
        doer.run("ip", "link", "add", op.target, "type", "bridge", "vlan_filtering", "1")


def _bridge_filtering(doer: Doer, op: Op) -> None:
    doer.run("ip", "link", "set", op.target, "type", "bridge", "vlan_filtering", "1")


def _join_bridge(doer: Doer, op: Op) -> None:
    doer.run("ip", "link", "set", doer.at(op.target), "master", op.value)


def _uplink_vlan(doer: Doer, op: Op) -> None:
    doer.run("bridge", "vlan", "add", "dev", doer.at(op.target), "vid", op.value)


def _rep_vlan(doer: Doer, op: Op) -> None:
    device = doer.at(op.target)
    doer.run("bridge", "vlan", "add", "dev", device, "vid", op.value["vid"], "pvid", "untagged")
    if op.value["former"] not in (0, op.value["vid"]):
        doer.run("bridge", "vlan", "del", "dev", device, "vid", op.value["former"])


def _ovs_offload(doer: Doer, _op: Op) -> None:
    doer.run("ovs-vsctl", "set", "Open_vSwitch", ".", "other_config:hw-offload=true")


def _ovs_bridge(doer: Doer, op: Op) -> None:
    doer.run("ovs-vsctl", "--may-exist", "add-br", op.target)


def _ovs_bridge_del(doer: Doer, op: Op) -> None:
    doer.run("ovs-vsctl", "--if-exists", "del-br", op.target)


def _join_ovs(doer: Doer, op: Op) -> None:
    tag = ["tag=%d" % op.value["tag"]] if op.value["tag"] else []
    doer.run("ovs-vsctl", "--may-exist", "add-port", op.value["bridge"], doer.at(op.target), *tag)


def _ovs_tag(doer: Doer, op: Op) -> None:
    device = doer.at(op.target)
    doer.run("ovs-vsctl", *(["set", "port", device, "tag=%d" % op.value] if op.value else ["clear", "port", device, "tag"]))


def _leave_ovs(doer: Doer, op: Op) -> None:
    doer.run("ovs-vsctl", "--if-exists", "del-port", op.value, doer.at(op.target))


def _address_add(doer: Doer, op: Op) -> None:
    doer.run("ip", "addr", "add", op.value, "dev", op.target)


def _address_del(doer: Doer, op: Op) -> None:
    doer.run("ip", "addr", "del", op.value, "dev", op.target)


_DO: Dict[str, Do] = {
    "autoprobe": _autoprobe, "numvfs": _numvfs, "eswitch": _eswitch, "wait_switch_id": _wait_switch_id,
    "steering": _steering, "multiport": _multiport, "hw_tc": _hw_tc, "up": _up, "mtu": _mtu,
    "unbind": _unbind, "bind": _bind, "vf": _vf, "vf_mtu": _vf_mtu,
    "bond_add": _bond_add, "bond_set": _bond_set, "bond_del": _delete, "bond_up": _up, "bond_mtu": _mtu,
    "enslave": _enslave, "release": _release, "release_dev": _release, "relag": _relag, "gate": _gate,
    "bridge_add": _bridge_add, "bridge_filtering": _bridge_filtering, "bridge_del": _delete, "dev_up": _up,
    "join_bridge": _join_bridge, "leave_bridge": _release, "uplink_vlan": _uplink_vlan, "rep_vlan": _rep_vlan,
    "rep_up": _up, "rep_mtu": _mtu, "ovs_offload": _ovs_offload, "ovs_bridge": _ovs_bridge,
    "ovs_bridge_del": _ovs_bridge_del, "join_ovs": _join_ovs, "ovs_tag": _ovs_tag, "leave_ovs": _leave_ovs,
    "address_add": _address_add, "address_del": _address_del,
}  # fmt: skip
KINDS = frozenset(_DO)
