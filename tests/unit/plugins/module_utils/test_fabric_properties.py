"""From any reachable state, and with a crash after any operation, the fabric converges, and no VF is bound in between.

Reachable: whatever commands given by hand, in any order, leave behind on a simulated host. The one state that needs
more than operations is a LAG that was ended while VFs were bound: mlx5 then wants its driver restarted, and says so.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric import apply
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric.plan import plan
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric.shapes import (
    Desired,
    DesiredBond,
    DesiredPf,
    DesiredVf,
)
from ansible_collections.nearmetal.rack.plugins.module_utils.host import HostError
from fabric_hosts import Rack, lag, options, pf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulated import DEVICES, DRIVERS, NET0, NET1, PF0, PF1

pytestmark = pytest.mark.simulated

CARD = "0000:17:00"
few = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))

COMMANDS = (
    "ip link add bond0 type bond mode active-backup miimon 100", "ip link add bond0 type bond mode 802.3ad miimon 50",
    "ip link add other type bond mode balance-rr", "ip link del bond0", "ip link set bond0 up",
    *(f"ip link set {net} {verb}" for net in (NET0, NET1) for verb in (
        "master bond0", "master other", "nomaster", "up", "down", "mtu 9000")),
    *(f"devlink dev eswitch set pci/{one} mode {mode}" for one in (PF0, PF1) for mode in ("legacy", "switchdev")),
    f"devlink dev param set pci/{PF1} name flow_steering_mode value smfs cmode runtime",
    f"ethtool -K {NET0} hw-tc-offload on", "ovs-vsctl --may-exist add-br br0", f"ip link set {NET1} vf 0 mac 02:00:00:00:00:77",
    "ovs-vsctl --may-exist add-port br0 bond0", "ovs-vsctl set Open_vSwitch . other_config:hw-offload=true",
    "ovs-vsctl --may-exist add-port br0 ens3f0pf0vf0", "ip link add br1 type bridge vlan_filtering 1",
)  # fmt: skip
VF_ADDRESSES = [f"0000:17:00.{n}" for n in range(2, 8)]
by_hand = st.lists(st.one_of(
    st.sampled_from(COMMANDS).map(lambda c: ("run", c)),
    st.tuples(st.just("vfs"), st.sampled_from([PF0, PF1]), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("bind"), st.sampled_from(VF_ADDRESSES), st.sampled_from(["mlx5_core", "vfio-pci"])),
), max_size=14)  # fmt: skip


def disturb(rack: Rack, actions: list[Any]) -> None:
    """What people do; refusals are part of life."""
    for action in actions:
        if action[0] == "run":
            rack.sim.run(action[1])
        elif action[0] == "vfs":
            rack.sim.poke(f"{DEVICES}/{action[1]}/sriov_numvfs", "0")
            rack.sim.vfs(action[1], action[2], action[3])
        else:
            rack.sim.poke(f"{DEVICES}/{action[1]}/driver_override", action[2])
            rack.sim.poke(f"{DRIVERS}/{action[2]}/bind", action[1])


def wedged(rack: Rack) -> bool:
    with rack.sim.machine.session(changes=False) as state:
        return bool(state["lag"].get(CARD, {}).get("wedged"))


def watch(rack: Rack) -> None:
    """Before each operation: whether the LAG has changed by the last one, and if so, whether a VF was bound."""
    seen: dict[str, Any] = {}

    def look() -> None:
        with rack.sim.machine.session(changes=False) as state:
            entry = state["lag"].get(CARD, {})
            kind = (entry.get("mode"), entry.get("shared_fdb"))
            bound = [vf["address"] for one in (PF0, PF1) for vf in state["pfs"][one]["vfs"] if vf["driver"]]
        if seen and seen["kind"] != kind and kind[0] != "roce" and seen["kind"][0] != "roce":
            assert not bound and not seen["bound"], f"the LAG went from {seen['kind']} to {kind} with bound VFs"
        seen.update(kind=kind, bound=bound)

    rack.before = look


class Crash(Exception):
    pass


def crash_after(rack: Rack, number: int) -> None:
    """End the program before operation `number`, once."""
    look, left = rack.before, [number]

    def before() -> None:
        look()
        left[0] -= 1
        if left[0] == -1:
            raise Crash

    rack.before = before


WISHES = [
    lag(mode="802.3ad", forwarding={"type": "ovs", "name": "br0"}),
    lag(pf(PF0, 3, driver="vfio-pci"), pf(PF1, 1, vf=[{"index": 0, "mac": "02:00:00:00:00:42", "driver": "unbound"}]), mtu=9000),
    lag(pf(PF0, vf=[{"index": 1, "vlan": 9}]), pf(PF1, 0), mode="balance-xor", forwarding={"type": "bridge", "name": "br1"}),
    lag(pf(PF0, 1), pf(PF1, 2), state="absent", forwarding={"type": "ovs", "name": "br0"}),
]  # fmt: skip


def reached(rack: Rack, wanted: dict[str, Any]) -> None:
    shown = rack.sim.show()
    bond = wanted["vf_lag"]["bonds"][0]
    if bond["state"] == "absent":
        assert not any(b["name"] == "bond0" for b in shown["bonds"])
        assert {p["eswitch"]["mode"] for p in rack.fabric()["pfs"] if p["card"] == CARD} == {"legacy"}
    else:
        assert shown["lag"]["state"] == "active" and shown["lag"]["type"] == "switchdev"
    counts = {e["pf"]["address"]: e["vfs"] for e in wanted["sriov"]["pfs"]}
    for address, count in counts.items():
        assert len([vf for vf in shown["vfs"] if vf["pf"] == address]) == count
    assert rack.choose("vf_lag", wanted).ops == []


@few
@given(by_hand, st.integers(0, len(WISHES) - 1), st.integers(0, 60))
def test_converges_from_anywhere_and_after_a_crash(actions: list[Any], wish: int, crash: int) -> None:
    rack = Rack()
    disturb(rack, actions)
    spoilt = wedged(rack)
    watch(rack)
    crash_after(rack, crash)
    try:
        try:
            rack.run("vf_lag", WISHES[wish])
        except Crash:
            rack.run("vf_lag", WISHES[wish])
    except HostError as err:
        assert spoilt and "driver restart required" in str(err)
        return
    assert not wedged(rack) or spoilt
    reached(rack, WISHES[wish])


@few
@given(st.integers(0, 70))
def test_a_crash_after_each_operation(number: int) -> None:
    """The whole way up, cut off anywhere, and the whole way down again, cut off anywhere."""
    rack = Rack()
    watch(rack)
    for wanted in (WISHES[0], WISHES[3]):
        crash_after(rack, number)
        try:
            rack.run("vf_lag", wanted)
        except Crash:
            rack.run("vf_lag", wanted)
        assert not wedged(rack)
        reached(rack, wanted)


def former(fabric: Any) -> Desired:
    """The wish to have everything as it is in this document; `bond0` only as far as it is there."""
    pfs = []
    for one in fabric["pfs"]:
        if one["card"] != CARD:
            continue
        vfs = tuple(DesiredVf(vf["index"], driver=vf["driver"] or "unbound", mac=vf["mac"], max_tx_rate=vf["max_tx_rate"])
                    for vf in one["vfs"])  # fmt: skip
        pfs.append(DesiredPf(one["address"], vfs=len(vfs), autoprobe=one["autoprobe"], mtu=one["mtu"], up=one["up"], vf=vfs,
                             eswitch=one["eswitch"]["mode"], steering=one["eswitch"]["steering"], multiport=False,
                             hw_tc_offload=one["hw_tc_offload"]))  # fmt: skip
    bonds = [b for b in fabric["bonds"] if b["name"] == "bond0"]
    mode = bonds[0]["mode"] if bonds else "active-backup"
    return Desired(tuple(pfs), (DesiredBond("bond0", (PF0, PF1), mode=mode, absent=not bonds),))


KEPT = ("sriov_vfs", "autoprobe", "mtu", "bond", "eswitch", "hw_tc_offload", "lag")


@few
@given(st.booleans(), st.integers(0, 2), st.integers(0, len(WISHES) - 1))
def test_the_way_back_leads_to_the_former_state(bonded: bool, vfs: int, wish: int) -> None:
    """What the guard does: a plan to the state before, from wherever the work ended."""
    rack = Rack()
    if bonded:
        rack.run("vf_lag", lag(pf(PF0, vfs + 1), pf(PF1, vfs)))
    else:
        rack.run("sriov", options(sriov_pfs=[pf(PF0, vfs), pf(PF1, vfs, driver="vfio-pci")]))
    before = rack.fabric()
    target = former(before)
    assert [op for op in plan(target, before) if op.kind != "bind"] == []
    watch(rack)
    rack.run("vf_lag", WISHES[wish])
    apply.converge(rack.host, target, lambda _host: rack.fabric(), rack.doer())
    after = rack.fabric()
    for old, new in zip(before["pfs"], after["pfs"], strict=True):
        assert {key: new[key] for key in KEPT} == {key: old[key] for key in KEPT}
        assert [vf["driver"] for vf in new["vfs"]] == [vf["driver"] for vf in old["vfs"]]
    assert [b["name"] for b in after["bonds"]] == [b["name"] for b in before["bonds"]]


@given(st.permutations(range(4)))
def test_a_plan_does_not_hang_on_the_order_of_what_was_observed(order: list[int]) -> None:
    rack_fabric = FACTORY
    mixed = {**rack_fabric, "pfs": [rack_fabric["pfs"][i] for i in order]}
    assert plan(DESIRED, mixed) == plan(DESIRED, rack_fabric)


FACTORY = {**Rack().fabric(), "pfs": Rack().fabric()["pfs"][:4]}
DESIRED = dataclasses.replace(
    former(FACTORY), pfs=tuple(DesiredPf(address, vfs=1, eswitch="switchdev") for address in (PF0, PF1))
)
