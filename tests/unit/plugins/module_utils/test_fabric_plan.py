"""The order of operations, and the least disruptive way, on simulated hosts."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric import plan as planner
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric.shapes import (
    Desired,
    DesiredPf,
    from_json,
    to_json,
)
from ansible_collections.nearmetal.rack.plugins.module_utils.host import HostError
from fabric_hosts import Rack, lag, options, pf
from simulated import NET0, NET1, OTHER, PF0, PF1

pytestmark = pytest.mark.simulated

IGB = "0000:02:00.1"


@pytest.fixture
def rack() -> Rack:
    return Rack()


def test_the_order_of_a_vf_lag(rack: Rack) -> None:
    wanted = lag(mode="802.3ad", forwarding={"type": "ovs", "name": "br0"})
    assert rack.kinds("vf_lag", wanted) == [
        "autoprobe", "numvfs", "steering", "eswitch", "wait_switch_id", "eswitch", "wait_switch_id", "up", "hw_tc", "up",
        "hw_tc", "bond_add", "enslave", "bond_up", "gate", "bind", "ovs_offload", "ovs_bridge", "join_ovs", "rep_up",
        "join_ovs", "rep_up", "join_ovs", "rep_up", "join_ovs", "rep_up",
    ]  # fmt: skip
    ops = rack.choose("vf_lag", wanted).ops
    early = [op.kind for op in ops if op.phase == "early"]
    assert "eswitch" in early and "gate" not in early and "bind" not in early
    result = rack.run("vf_lag", wanted)
    assert result["changed"] and rack.sim.show()["lag"]["type"] == "switchdev"
    assert all(vf["driver"] == "mlx5_core" for vf in rack.sim.show()["vfs"])
    assert rack.run("vf_lag", wanted)["changed"] is False


def test_sriov_leaves_the_pfs_of_a_lag_alone(rack: Rack) -> None:
    wanted = lag(pf(PF0), pf(PF1), pf(OTHER, 3))
    assert {op.target.split("/")[0] for op in rack.choose("sriov", wanted).ops} == {OTHER}
    assert OTHER not in {op.target.split("/")[0] for op in rack.choose("vf_lag", wanted).ops}
    rack.run("sriov", wanted)
    assert len(rack.sim.show()["vfs"]) == 3


def test_the_undo_is_the_reverse(rack: Rack) -> None:
    before = rack.fabric()
    way = {"forwarding": {"type": "bridge", "name": "br0"}, "steering": ""}
    rack.run("vf_lag", lag(**way))
    assert rack.fabric() != before
    gone = lag(pf(PF0, state="absent"), pf(PF1, state="absent"), state="absent", **way)
    assert rack.kinds("vf_lag", gone) == [
        "unbind", "leave_bridge", "bridge_del", "release", "bond_del", "eswitch", "numvfs", "hw_tc", "autoprobe"
    ]  # fmt: skip
    rack.run("vf_lag", gone)
    after = rack.fabric()
    assert rack.choose("vf_lag", gone).ops == []
    for pf_before, pf_after in zip(before["pfs"], after["pfs"], strict=True):
        assert pf_after == {**pf_before, "up": pf_after["up"], "carrier": pf_after["carrier"]}
    assert after["bonds"] == [] and after["bridges"] == []


def test_undo_without_sriov_takes_the_vfs_too(rack: Rack) -> None:
    rack.run("vf_lag", lag())
    rack.run("vf_lag", options(vf_lag_bonds=[{"name": "bond0", "pfs": [{"address": PF0}, {"address": PF1}], "state": "absent"}]))
    assert rack.sim.show()["vfs"] == [] and rack.sim.show()["bonds"] == []


def test_an_attribute_disturbs_nothing(rack: Rack) -> None:
    wanted = lag(pf(PF0, driver="vfio-pci"), pf(PF1, driver="vfio-pci"), forwarding={"type": "ovs", "name": "br0"})
    rack.run("vf_lag", wanted)
    more = lag(
        pf(PF0, driver="vfio-pci", vf=[{"index": 1, "max_tx_rate": 1000, "vlan": 5, "link_state": "enable"}]),
        pf(PF1, driver="vfio-pci"), forwarding={"type": "ovs", "name": "br0"},
    )  # fmt: skip
    choice = rack.choose("vf_lag", more)
    assert [(op.kind, op.target) for op in choice.ops] == [
        ("vf", f"{PF0}/vf1"), ("vf", f"{PF0}/vf1"), ("ovs_tag", f"{PF0}/rep1")]  # fmt: skip
    assert {step.disruption for step in choice.steps} == {"none"}
    rack.run("vf_lag", more)
    assert rack.sim.vf(PF0, 1)["max_tx"] == 1000
    assert rack.choose("vf_lag", more).ops == []


def test_legacy_attributes_go_by_the_pf(rack: Rack) -> None:
    vf = {"index": 0, "vlan": 7, "qos": 3, "trust": True, "spoofchk": True, "mac": "02:00:00:00:00:01"}
    wanted = options(sriov_pfs=[pf(OTHER, 2, vf=[vf])])
    kinds = rack.kinds("sriov", wanted)
    assert kinds.index("numvfs") < kinds.index("vf") < kinds.index("bind")
    assert kinds[0] == kinds[-1] == "autoprobe"  # off while VFs are made, back as it was
    rack.run("sriov", wanted)
    have = rack.sim.vf(OTHER, 0)
    assert (have["vlan"], have["qos"], have["trust"], have["spoofchk"]) == (7, 3, True, True)
    assert rack.run("sriov", wanted)["changed"] is False


def test_a_mac_starts_only_the_driver_of_its_vf(rack: Rack) -> None:
    rack.run("sriov", options(sriov_pfs=[pf(OTHER, 3)]))
    wanted = options(sriov_pfs=[pf(OTHER, 3, vf=[{"index": 1, "mac": "02-00-00-00-00-0A"}])])
    choice = rack.choose("sriov", wanted)
    assert [(op.kind, op.target) for op in choice.ops] == [
        ("vf", f"{OTHER}/vf1"), ("unbind", f"{OTHER}/vf1"), ("bind", f"{OTHER}/vf1")]  # fmt: skip
    rack.sim.ok(f"ip link set {rack.sim.pf(OTHER)['netdev']} vf 1 mac 02:00:00:00:00:0a")
    # As after a crash between the two: the PF says the new MAC, the VF still has the old one.
    assert [op.kind for op in rack.choose("sriov", wanted).ops] == ["unbind", "bind"]
    rack.run("sriov", wanted)
    (have,) = [p for p in rack.fabric()["pfs"] if p["address"] == OTHER]
    assert have["vfs"][1]["netdev_mac"] == have["vfs"][1]["mac"] == "02:00:00:00:00:0a"


def test_rates_pass_each_other_without_a_refusal(rack: Rack) -> None:
    def rates(low: int, high: int) -> dict[str, Any]:
        return options(sriov_pfs=[pf(OTHER, 1, vf=[{"index": 0, "min_tx_rate": low, "max_tx_rate": high}])])

    for low, high in ((100, 200), (500, 900), (50, 100), (0, 0), (300, 300)):
        rack.run("sriov", rates(low, high))
        assert (rack.sim.vf(OTHER, 0)["min_tx"], rack.sim.vf(OTHER, 0)["max_tx"]) == (low, high)


def test_another_count_names_who_loses_a_vf(rack: Rack) -> None:
    rack.run("sriov", options(sriov_pfs=[pf(OTHER, 3, driver="vfio-pci", vf=[{"index": 0, "driver": "mlx5_core"}])]))
    fabric = rack.fabric()
    (have,) = [p for p in fabric["pfs"] if p["address"] == OTHER]
    have["vfs"][2]["in_use"] = "VM db1"
    ops = planner.plan(Desired((DesiredPf(OTHER, vfs=2),)), fabric)
    (gone,) = [op for op in ops if op.kind == "numvfs" and op.value == 0]
    assert "VFs 0-2 are destroyed: VF 2 is used by VM db1; VF 0 is bound to mlx5_core" in gone.text
    assert [op.disruption for op in ops if op.kind == "unbind"] == ["traffic", "none", "drain"]


def test_vfs_bound_too_early_are_said_and_mended(rack: Rack) -> None:
    """VFs that were bound before the bond: mlx5 makes no LAG, and does not look again by itself."""
    wanted = lag(steering="")
    rack.sim.vfs(PF0, 2)
    rack.sim.vfs(PF1, 2)
    rack.sim.switchdev(PF0, PF1)
    for address in [vf["address"] for vf in rack.sim.show()["vfs"]][1:3]:
        rack.sim.poke("/sys/bus/pci/drivers/mlx5_core/bind", address)
    rack.sim.bond(NET0, NET1, mode="active-backup")
    assert rack.sim.show()["lag"]["state"] == "disabled"
    choice = rack.choose("vf_lag", wanted)
    (step,) = [step for step in choice.steps if step.key == "bond0"]
    assert f"VF 1 of ens3f0 ({PF0}) was bound before LAG became active: LAG is disabled, not switchdev" in step.reason
    kinds = [op.kind for op in choice.ops]
    assert kinds.index("unbind") < kinds.index("relag") < kinds.index("gate") < kinds.index("bind")
    assert "numvfs" not in kinds and "bond_del" not in kinds
    rack.run("vf_lag", wanted)
    assert rack.sim.show()["lag"]["type"] == "switchdev"


def test_type_roce_is_not_taken_for_a_vf_lag(rack: Rack) -> None:
    rack.sim.bond(NET0, NET1, mode="active-backup")
    assert rack.sim.show()["lag"]["type"] == "roce"
    wanted = lag(pf(PF0, 0), pf(PF1, 0))
    (step,) = [s for s in rack.choose("vf_lag", wanted).steps if s.key == "bond0"]
    assert "type is roce, not switchdev" in step.reason
    rack.run("vf_lag", wanted)
    assert rack.sim.show()["lag"]["type"] == "switchdev"


@pytest.mark.parametrize("mode", ["active-backup", "balance-xor", "802.3ad"])
def test_every_mode_is_waited_for(rack: Rack, mode: str) -> None:
    """netplan tests "balanced-xor", so that it never waits for mode 2; and binds after 5 s whatever the state."""
    wanted = lag(mode=mode)
    assert [op for op in rack.choose("vf_lag", wanted).ops if op.kind == "gate"]
    rack.sim.inject("lag-inactive")
    with pytest.raises(HostError, match="not active as switchdev after 60 s .*no VF was bound"):
        rack.run("vf_lag", wanted)
    assert [vf["driver"] for vf in rack.sim.show()["vfs"]] == ["", "", "", ""]


def test_another_mode_and_strangers(rack: Rack) -> None:
    rack.run("vf_lag", lag(mode="active-backup"))
    loose = [pf(PF0, driver="unbound"), pf(PF1, driver="unbound")]
    wanted = lag(*loose, mode="802.3ad", lacp_rate="fast", xmit_hash_policy="layer3+4")
    rack.run("vf_lag", wanted)
    (bond,) = rack.fabric()["bonds"]
    assert (bond["mode"], bond["lacp_rate"], bond["xmit_hash_policy"]) == ("802.3ad", "fast", "layer3+4")
    rack.sim.ok("ip link set ens5 master bond0")
    assert rack.choose("vf_lag", wanted).ops
    rack.run("vf_lag", wanted)
    assert rack.fabric()["bonds"][0]["slaves"] == [NET0, NET1]
    assert rack.sim.show()["lag"]["type"] == "switchdev"


def test_bond_options_need_no_new_bond(rack: Rack) -> None:
    rack.run("vf_lag", lag(mode="802.3ad", miimon=100))
    wanted = lag(mode="802.3ad", miimon=50, xmit_hash_policy="layer3+4")
    assert [(op.kind, op.disruption) for op in rack.choose("vf_lag", wanted).ops] == [("bond_set", "none")]
    rack.run("vf_lag", wanted)
    assert rack.choose("vf_lag", wanted).ops == []


def test_mtu_is_one_for_all(rack: Rack) -> None:
    wanted = lag(pf(PF0, mtu=9000), pf(PF1, vf=[{"index": 1, "mtu": 4000}]), forwarding={"type": "ovs", "name": "br0"})
    rack.run("vf_lag", wanted)
    have = {p["address"]: p for p in rack.fabric()["pfs"]}
    assert have[PF0]["mtu"] == have[PF1]["mtu"] == 9000 and rack.fabric()["bonds"][0]["mtu"] == 9000
    assert [(v["mtu"], v["representor_mtu"]) for v in have[PF1]["vfs"]] == [(9000, 9000), (4000, 4000)]
    assert rack.choose("vf_lag", wanted).ops == []


def test_bridge_vlans(rack: Rack) -> None:
    def wanted(vlan: int) -> dict[str, Any]:
        return lag(pf(PF0, vf=[{"index": 0, "vlan": vlan}]), pf(PF1), forwarding={"type": "bridge", "name": "br0"},
                   addresses=["192.0.2.4/24"])  # fmt: skip

    rack.run("vf_lag", wanted(100))
    (bridge,) = rack.fabric()["bridges"]
    ports = {port["name"]: port for port in bridge["ports"]}
    assert bridge["vlan_filtering"] and bridge["addresses"] == ["192.0.2.4/24"] and bridge["up"]
    assert ports["bond0"]["vids"] == [1, 100]
    (have,) = [p for p in rack.fabric()["pfs"] if p["address"] == PF0]
    assert [v["representor_vlan"] for v in have["vfs"]] == [100, 1]
    assert ports[have["vfs"][0]["representor"]]["vids"] == [100]
    assert [op.disruption for op in rack.choose("vf_lag", wanted(200)).ops] == ["none", "none"]
    rack.run("vf_lag", wanted(200))
    rack.run("vf_lag", wanted(0))
    assert rack.choose("vf_lag", wanted(0)).ops == []


def test_another_forwarder(rack: Rack) -> None:
    """Bridge to Open vSwitch and to another one of its bridges; tags go, and the address goes along."""
    vf = [{"index": 0, "vlan": 5}]
    rack.run("vf_lag", lag(addresses=["192.0.2.4/24"]))
    for kind, name, entries in (
        ("bridge", "br1", vf), ("ovs", "ovs1", vf), ("ovs", "ovs2", []), ("ovs", "ovs2", vf), ("ovs", "ovs2", []),
        ("bridge", "br1", []),
    ):  # fmt: skip
        wanted = lag(pf(PF0, vf=entries), pf(PF1), addresses=["192.0.2.4/24"], forwarding={"type": kind, "name": name})
        rack.run("vf_lag", wanted)
        assert rack.choose("vf_lag", wanted).ops == []
        (have,) = [p for p in rack.fabric()["pfs"] if p["address"] == PF0]
        assert {v["representor_master"] for v in have["vfs"]} == {name}
        assert (have["vfs"][0]["representor_vlan"] == 5) == bool(entries)


def test_multiport_eswitch() -> None:
    rack = Rack()
    with rack.sim.machine.session() as state:
        state["cards"]["0000:17:00"]["firmware"]["LAG_RESOURCE_ALLOCATION"]["current"] = "1"
    wanted = lag(pf(PF0, 3), pf(PF1, 0), multiport=True)
    kinds = rack.kinds("vf_lag", wanted)
    assert kinds.index("eswitch") < kinds.index("multiport") < kinds.index("numvfs") < kinds.index("gate") < kinds.index("bind")
    rack.run("vf_lag", wanted)
    assert rack.sim.show()["lag"]["type"] == "multiport_eswitch" and rack.sim.show()["bonds"] == []
    assert rack.run("vf_lag", wanted)["changed"] is False
    rack.run("vf_lag", lag(pf(PF0, 0), pf(PF1, 0), multiport=True, state="absent"))
    assert rack.sim.show()["lag"]["state"] != "active" and rack.sim.show()["vfs"] == []


def test_igb_is_legacy_only(rack: Rack) -> None:
    wanted = options(sriov_pfs=[pf(IGB, 2, vf=[{"index": 0, "vlan": 5, "mac": "02:00:00:00:00:05"}])])
    rack.run("sriov", wanted)
    assert rack.sim.vf(IGB, 0)["vlan"] == 5
    assert rack.run("sriov", wanted)["changed"] is False
    refused = options(sriov_pfs=[pf(IGB, 2, vf=[{"index": 0, "link_state": "enable"}])])
    with pytest.raises(HostError, match="igb has none"):
        rack.run("sriov", refused)


def test_a_plain_bond_of_igb() -> None:
    rack = Rack(management="pf")
    bond = {"name": "bond1", "pfs": [{"address": IGB}, {"address": OTHER}], "lag": False, "mode": "active-backup"}
    wanted = options(sriov_pfs=[pf(IGB, 1), pf(OTHER, 1)], vf_lag_bonds=[bond])
    assert "gate" not in rack.kinds("vf_lag", wanted)
    rack.run("vf_lag", wanted)
    assert rack.fabric()["bonds"][0]["slaves"] == ["eno2", "ens5"]
    vlan = copy.deepcopy(wanted)
    vlan["sriov"]["pfs"][0]["vf"] = [{"index": 0, "vlan": 9}]
    assert [op.kind for op in rack.choose("vf_lag", vlan).ops] == ["vf"]
    rack.run("vf_lag", options(vf_lag_bonds=[{**bond, "state": "absent"}]))
    assert rack.fabric()["bonds"] == [] and len(rack.sim.show()["vfs"]) == 2


def test_a_driver_that_is_not_there_is_named(rack: Rack) -> None:
    with pytest.raises(HostError, match="VF 0 of ens5"):
        rack.run("sriov", options(sriov_pfs=[pf(OTHER, 1, driver="no_such_driver")]))


def test_desired_is_json() -> None:
    rack = Rack()
    desired = rack.choose("vf_lag", lag(forwarding={"type": "ovs", "name": "br0"})).desired
    assert from_json(to_json(desired)) == desired
    for bad in ("", "[]", "{}", '{"version": 1}', to_json(desired).replace('"version": 1', '"version": 2')):
        with pytest.raises(ValueError, match="fabric document|no JSON|no fabric"):
            from_json(bad)
