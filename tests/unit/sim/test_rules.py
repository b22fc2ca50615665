"""Each rule of nearmetal/sim/rules.py, by its key."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from simulated import DEVICES, DRIVERS, NET0, NET1, OTHER, PF0, PF1, Sim

from nearmetal.sim.rules import RULES

pytestmark = pytest.mark.simulated

DEBUG = f"/sys/kernel/debug/mlx5/{PF0}/lag"


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    return Sim(tmp_path)


def firmware(sim: Sim, **values: Any) -> None:
    words = " ".join(f"{key}={value}" for key, value in values.items())
    sim.ok(f"mstconfig -d {PF0} -y set {words}")
    sim.restart(cold=True)


def test_every_rule_has_a_test_and_a_source() -> None:
    tests = {name for name in vars(sys.modules[__name__]) if name.startswith("test_")}
    assert not [rule.key for rule in RULES if f"test_{rule.key}" not in tests]
    assert all(rule.text and rule.source for rule in RULES)
    assert len({rule.key for rule in RULES}) == len(RULES)


def test_numvfs_ebusy(sim: Sim) -> None:
    assert sim.vfs(PF0, 4) == ""
    assert sim.vfs(PF0, 2) == "Device or resource busy"
    assert sim.vfs(PF0, 4) == ""
    assert sim.vfs(PF0, 0) == ""
    assert sim.vfs(PF0, 2) == ""


def test_numvfs_erange(sim: Sim) -> None:
    assert sim.read(f"{DEVICES}/{PF0}/sriov_totalvfs") == "8"
    assert sim.vfs(PF0, 9) == "Numerical result out of range"
    assert sim.vfs(PF0, 8) == ""


def test_numvfs_enomem(sim: Sim) -> None:
    sim.inject("sriov-off-in-bios")
    assert sim.vfs(PF0, 1) == "Cannot allocate memory"


def test_numvfs_without_driver(sim: Sim) -> None:
    assert sim.poke(f"{DRIVERS}/mlx5_core/unbind", PF0) == ""
    assert sim.vfs(PF0, 1) == "No such file or directory"


def test_autoprobe(sim: Sim) -> None:
    sim.vfs(PF0, 2, autoprobe=True)
    sim.vfs(PF1, 2, autoprobe=False)
    assert [sim.vf(PF0, 0)["driver"], sim.vf(PF1, 0)["driver"]] == ["mlx5_core", ""]
    assert sim.vf(PF0, 0)["netdev"] == "ens3f0v0"


def test_vf_settings_forgotten(sim: Sim) -> None:
    sim.vfs(PF0, 1)
    sim.ok(f"ip link set {NET0} vf 0 mac 02:00:00:00:00:07 vlan 5 qos 2 trust on max_tx_rate 100")
    assert sim.vf(PF0, 0)["vlan"] == 5
    sim.vfs(PF0, 0)
    sim.vfs(PF0, 1)
    vf = sim.vf(PF0, 0)
    assert [vf["mac"], vf["vlan"], vf["trust"], vf["max_tx"]] == ["00:00:00:00:00:00", 0, False, 0]


def test_vf_routing_ids(sim: Sim) -> None:
    sim.vfs(PF0, 8)
    sim.vfs(PF1, 8)
    links = [sim.host.readlink(f"{DEVICES}/{pf}/virtfn{n}") for pf in (PF0, PF1) for n in (0, 7)]
    assert links == ["../0000:17:00.2", "../0000:17:01.1", "../0000:17:01.2", "../0000:17:02.1"]
    assert len({vf["address"] for vf in sim.show()["vfs"]}) == 16


def test_vf_mac_after_rebind(sim: Sim) -> None:
    sim.vfs(PF0, 1, autoprobe=True)
    vf = sim.vf(PF0, 0)
    sim.ok(f"ip link set {NET0} vf 0 mac 02:00:00:00:00:07")
    assert sim.json("ip -j -d link show")[0]
    assert sim.vf(PF0, 0)["hw_mac"] == vf["hw_mac"] != "02:00:00:00:00:07"
    sim.poke(f"{DRIVERS}/mlx5_core/unbind", vf["address"])
    sim.poke(f"{DRIVERS}/mlx5_core/bind", vf["address"])
    assert sim.read("/sys/class/net/ens3f0v0/address") == "02:00:00:00:00:07"


def test_vf_held_by_guest(sim: Sim) -> None:
    sim.vfs(PF0, 1, autoprobe=True)
    vf = sim.vf(PF0, 0)
    sim.inject(f"vf-in-use={vf['address']}")
    assert sim.vfs(PF0, 0) == "Device or resource busy"
    assert sim.poke(f"{DRIVERS}/mlx5_core/unbind", vf["address"]) == "Device or resource busy"


def test_vfio_enables_while_open(sim: Sim) -> None:
    with sim.machine.session() as state:
        state["boot"]["iommu"] = True
    sim.vfs(PF0, 1)
    address = sim.vf(PF0, 0)["address"]
    assert sim.read(f"{DEVICES}/{address}/enable") == "0"
    sim.ok("modprobe vfio-pci")
    sim.poke(f"{DEVICES}/{address}/driver_override", "vfio-pci")
    assert sim.poke(f"{DRIVERS}/vfio-pci/bind", address) == ""
    assert sim.read(f"{DEVICES}/{address}/enable") == "0"
    sim.inject(f"vf-in-use={address}")
    assert sim.read(f"{DEVICES}/{address}/enable") == "1"


def test_ovs_bridge_device(sim: Sim) -> None:
    sim.ok("ovs-vsctl --may-exist add-br br0", "ip link set br0 up", "ip addr add 192.0.2.1/24 dev br0")
    sim.ok("ovs-vsctl --may-exist add-br br0", "ovs-vsctl --may-exist add-port br0 ens5 tag=7", "ovs-vsctl clear port ens5 tag")
    link = next(entry for entry in sim.json("ip -j -d link show") if entry["ifname"] == "br0")
    assert link["linkinfo"]["info_kind"] == "openvswitch" and "UP" in link["flags"]
    sim.ok("ovs-vsctl --if-exists del-br br0")
    sim.no("ip link set br0 up", "Cannot find device")


def test_bind_needs_match(sim: Sim) -> None:
    sim.vfs(PF0, 1)
    address = sim.vf(PF0, 0)["address"]
    sim.ok("modprobe vfio-pci")
    assert sim.poke(f"{DRIVERS}/vfio-pci/bind", address) == "No such device"
    assert sim.poke(f"{DRIVERS}/mlx5_core/bind", address) == ""
    assert sim.poke(f"{DRIVERS}/mlx5_core/bind", address) == "Device or resource busy"
    assert sim.poke(f"{DRIVERS}/vfio-pci/unbind", address) == "No such device"
    assert sim.poke(f"{DRIVERS}/mlx5_core/unbind", address) == ""
    sim.poke(f"{DEVICES}/{address}/driver_override", "vfio-pci")
    assert sim.poke(f"{DRIVERS}/mlx5_core/bind", address) == "No such device"
    assert sim.poke(f"{DRIVERS}/no-such/bind", address) == "No such file or directory"


def iommu_on(sim: Sim, more: str = "iommu=pt") -> None:
    text = sim.read("/etc/default/grub").replace('"quiet"', f'"quiet intel_iommu=on {more}"')
    sim.host.write("/etc/default/grub", text + "\n")
    sim.ok("update-grub")
    sim.restart()


def test_vfio_needs_group(sim: Sim) -> None:
    def bind() -> str:
        sim.ok("modprobe vfio-pci")
        sim.vfs(PF0, 1)
        address = sim.vf(PF0, 0)["address"]
        sim.poke(f"{DEVICES}/{address}/driver_override", "vfio-pci")
        return sim.poke(f"{DRIVERS}/vfio-pci/bind", address)

    assert bind() == "Invalid argument"
    iommu_on(sim)
    assert bind() == ""
    assert sim.vf(PF0, 0)["driver"] == "vfio-pci"


def test_switchdev_representors(sim: Sim) -> None:
    sim.vfs(PF0, 2)
    assert sim.read(f"/sys/class/net/{NET0}/phys_switch_id") == "Operation not supported"
    assert sim.vf(PF0, 0)["representor"] == ""
    sim.switchdev(PF0)
    name = sim.vf(PF0, 1)["representor"]
    assert sim.read(f"/sys/class/net/{NET0}/phys_switch_id") == sim.read(
        f"/sys/class/net/{name}/phys_switch_id"
    )
    assert sim.read(f"/sys/class/net/{name}/phys_port_name") == "pf0vf1"
    ports = sim.json("devlink -j port show")["port"]
    assert ports[f"pci/{PF0}/2"]["netdev"] == name
    sim.ok(f"devlink dev eswitch set pci/{PF0} mode legacy")
    assert sim.read(f"/sys/class/net/{name}/address") == "No such file or directory"


def test_steering_in_legacy_only(sim: Sim) -> None:
    command = f"devlink dev param set pci/{PF0} name flow_steering_mode value"
    sim.ok(f"{command} smfs cmode runtime")
    sim.switchdev(PF0)
    sim.no(f"{command} dmfs cmode runtime", "not supported when eswitch offloads enabled")
    shown = sim.json(f"devlink -j dev param show pci/{PF0} name flow_steering_mode")
    assert shown["param"][f"pci/{PF0}"][0]["values"][0]["value"] == "smfs"


def in_switchdev(sim: Sim) -> None:
    sim.vfs(PF0, 1)
    sim.switchdev(PF0)


def test_vlan_refused_in_switchdev(sim: Sim) -> None:
    in_switchdev(sim)
    sim.no(f"ip link set {NET0} vf 0 vlan 7", "Operation not supported")
    sim.ok(f"ip link set {NET0} vf 0 vlan 0")


def test_spoofchk_refused_in_switchdev(sim: Sim) -> None:
    in_switchdev(sim)
    sim.no(f"ip link set {NET0} vf 0 spoofchk on", "Operation not supported")
    sim.no(f"ip link set {NET0} vf 0 spoofchk off", "Operation not supported")


def test_trust_refused_in_switchdev(sim: Sim) -> None:
    in_switchdev(sim)
    sim.no(f"ip link set {NET0} vf 0 trust on", "Operation not supported")
    sim.ok(f"ip link set {NET0} vf 0 mac 02:00:00:00:00:07 max_tx_rate 100")


def test_guids_need_infiniband(tmp_path: Path) -> None:
    sim = Sim(tmp_path, infiniband=True)
    sim.vfs(PF0, 1)
    sim.vfs(OTHER, 1)
    guid = "00:11:22:33:44:55:66:77"
    sim.no(f"ip link set {NET0} vf 0 node_guid {guid}", "Operation not supported")
    sim.ok(f"ip link set ens5 vf 0 node_guid {guid}", f"ip link set ens5 vf 0 port_guid {guid}")
    (shown,) = sim.json("ip -j -d link show dev ens5")
    assert shown["vfinfo_list"][0]["node guid"] == guid


def test_mode_busy_with_flows(sim: Sim) -> None:
    in_switchdev(sim)
    name = sim.vf(PF0, 0)["representor"]
    sim.ok("ovs-vsctl set Open_vSwitch . other_config:hw-offload=true", "ovs-vsctl --may-exist add-br br0")
    sim.ok(f"ovs-vsctl --may-exist add-port br0 {name} tag=7")
    sim.no(f"devlink dev eswitch set pci/{PF0} mode legacy", "E-Switch is busy")
    sim.ok(f"ovs-vsctl --if-exists del-port br0 {name}", f"devlink dev eswitch set pci/{PF0} mode legacy")


def test_mode_change_breaks_bound_vfs(sim: Sim) -> None:
    sim.vfs(PF0, 1, autoprobe=True)
    sim.switchdev(PF0)
    vf = sim.vf(PF0, 0)
    assert vf["driver"] == "mlx5_core"
    assert vf["stale"]
    sim.poke(f"{DRIVERS}/mlx5_core/unbind", vf["address"])
    sim.poke(f"{DRIVERS}/mlx5_core/bind", vf["address"])
    assert not sim.vf(PF0, 0)["stale"]


def test_lag_switchdev(sim: Sim) -> None:
    sim.vf_lag()
    assert sim.show()["lag"]["members"] == [PF0, PF1]
    assert sim.read(f"{DEBUG}/state") == "active"
    assert sim.read(f"{DEBUG}/type") == "switchdev"
    assert "shared_fdb:1 mode:hash" in sim.run("dmesg").stdout
    sim.ok(f"ip link set {NET1} nomaster")
    assert sim.read(f"{DEBUG}/state") == "disabled"


@pytest.mark.parametrize(
    ("mode", "active"),
    [
        ("balance-rr", False),
        ("active-backup", True),
        ("balance-xor", True),
        ("broadcast", False),
        ("802.3ad", True),
    ],
)
def test_lag_modes(sim: Sim, mode: str, active: bool) -> None:
    sim.switchdev(PF0, PF1)
    sim.bond(NET0, NET1, mode=mode)
    assert (sim.show()["lag"]["state"] == "active") is active


def test_lag_roce(sim: Sim) -> None:
    sim.bond(NET0, NET1)
    assert sim.show()["lag"] | {"bond": ""} == sim.show()["lag"] | {
        "bond": "",
        "state": "active",
        "type": "roce",
    }


def test_lag_silent_in_legacy_with_vfs(sim: Sim) -> None:
    sim.vfs(PF1, 1)
    before = sim.run("dmesg").stdout
    sim.bond(NET0, NET1)
    assert sim.show()["lag"]["state"] == "disabled"
    assert sim.run("dmesg").stdout == before


def test_lag_same_mode(sim: Sim) -> None:
    sim.switchdev(PF0)
    sim.bond(NET0, NET1)
    assert sim.show()["lag"]["state"] == "disabled"
    sim.switchdev(PF1)
    assert sim.show()["lag"]["type"] == "switchdev"


def test_lag_only_its_ports(sim: Sim) -> None:
    sim.bond(NET0, NET1, "ens5")
    assert sim.show()["lag"]["state"] == "disabled"
    sim.ok("ip link set ens5 nomaster")
    assert sim.show()["lag"]["state"] == "active"
    sim.ok("ip link set ens5 master bond0")
    assert sim.show()["lag"]["state"] == "disabled"
    sim.ok("ip link del bond0")
    sim.bond(NET0, "ens5")
    assert sim.show()["lag"]["state"] == "disabled"


def test_lag_fails_with_bound_vfs(sim: Sim) -> None:
    sim.vfs(PF0, 2, autoprobe=True)
    sim.switchdev(PF0, PF1)
    sim.bond(NET0, NET1)
    assert sim.show()["lag"]["state"] == "disabled"
    assert "Failed to activate VF LAG" in sim.run("dmesg").stdout
    assert "VFs are bound" in sim.show()["lag"]["error"]


def test_lag_no_retry(sim: Sim) -> None:
    sim.vfs(PF0, 1, autoprobe=True)
    sim.switchdev(PF0, PF1)
    sim.bond(NET0, NET1)
    sim.poke(f"{DRIVERS}/mlx5_core/unbind", sim.vf(PF0, 0)["address"])
    assert sim.show()["lag"]["state"] == "disabled"
    sim.ok(f"ip link set {NET0} down", f"ip link set {NET0} up")
    assert sim.show()["lag"]["state"] == "active"


def test_lag_deactivation_with_bound_vfs(sim: Sim) -> None:
    sim.vf_lag()
    sim.poke("/sys/bus/pci/drivers_probe", sim.vf(PF0, 0)["address"])
    sim.ok("ip link del bond0")
    assert "driver restart required" in sim.run("dmesg").stdout
    sim.poke(f"{DRIVERS}/mlx5_core/unbind", sim.vf(PF0, 0)["address"])
    sim.bond(NET0, NET1)
    assert sim.show()["lag"]["state"] == "disabled"
    sim.restart()
    sim.vf_lag()


@pytest.mark.parametrize(("count", "active"), [(64, True), (65, False)])
def test_lag_more_than_64_vfs(sim: Sim, count: int, active: bool) -> None:
    firmware(sim, NUM_OF_VFS=count)
    sim.vfs(PF0, 2)
    sim.vfs(PF1, 2)
    sim.switchdev(PF0, PF1)
    sim.bond(NET0, NET1)
    assert (sim.show()["lag"]["state"] == "active") is active
    assert ("configured with more than 64 VFs" in sim.run("dmesg").stdout) is not active


def test_lag_debugfs_einval(sim: Sim) -> None:
    names = ("type", "flags", "mapping", "port_sel_mode")
    assert sim.read(f"{DEBUG}/state") == "disabled"
    assert {sim.read(f"{DEBUG}/{name}") for name in names} == {"Invalid argument"}
    sim.vf_lag()
    assert "Invalid argument" not in {sim.read(f"{DEBUG}/{name}") for name in names}
    assert sim.read(f"{DEBUG}/port_sel_mode") == "hash"


def test_shared_fdb_switch_id(sim: Sim) -> None:
    sim.switchdev(PF0, PF1)
    first = [sim.read(f"/sys/class/net/{name}/phys_switch_id") for name in (NET0, NET1)]
    assert first[0] != first[1]
    sim.bond(NET0, NET1)
    assert {sim.read(f"/sys/class/net/{name}/phys_switch_id") for name in (NET0, NET1)} == {first[0]}


def test_multiport_eswitch(sim: Sim) -> None:
    command = f"devlink dev param set pci/{PF0} name esw_multiport value"
    sim.switchdev(PF0, PF1)
    sim.no(f"{command} true cmode runtime", "Operation not supported")
    firmware(sim, LAG_RESOURCE_ALLOCATION=1)
    sim.no(f"{command} true cmode runtime", "Operation not supported")
    sim.switchdev(PF0, PF1)
    sim.ok(f"{command} true cmode runtime")
    assert sim.show()["lag"]["type"] == "multiport_eswitch"
    sim.bond(NET0, NET1)
    assert sim.show()["lag"]["type"] == "multiport_eswitch"
    sim.ok("ip link del bond0", f"{command} false cmode runtime")
    sim.bond(NET0, NET1)
    assert sim.show()["lag"]["type"] == "switchdev"
    sim.no(f"{command} true cmode runtime", "Invalid argument")


def test_bond_mode_with_slaves(sim: Sim) -> None:
    sim.bond(NET0, NET1)
    sim.no("ip link set bond0 type bond mode active-backup", "has slaves")
    sim.ok(f"ip link set {NET0} nomaster", f"ip link set {NET1} nomaster", "ip link set bond0 down")
    sim.ok("ip link set bond0 type bond mode active-backup")


def test_enslave_while_up(sim: Sim) -> None:
    sim.ok(f"ip link set {NET0} up", "ip link add bond0 type bond mode active-backup miimon 100")
    sim.no(f"ip link set {NET0} master bond0", "enslaved while up")


def test_bond_gives_back_mac(sim: Sim) -> None:
    macs = [sim.read(f"/sys/class/net/{name}/address") for name in (NET0, NET1)]
    sim.bond(NET0, NET1)
    assert [sim.read(f"/sys/class/net/{name}/address") for name in (NET0, NET1, "bond0")] == [macs[0]] * 3
    sim.ok(f"ip link set {NET1} nomaster")
    assert sim.read(f"/sys/class/net/{NET1}/address") == macs[1]
    assert sim.read(f"/sys/class/net/{NET1}/operstate") == "down"


def test_lacp_partner_zero(tmp_path: Path) -> None:
    sim = Sim(tmp_path, lacp=False)
    sim.bond(NET0, NET1)
    assert sim.read("/sys/class/net/bond0/bonding/ad_partner_mac") == "00:00:00:00:00:00"
    assert sim.read("/sys/class/net/bond0/bonding/ad_num_ports") == "1"
    other = Sim(tmp_path, "other")
    other.bond(NET0, NET1)
    assert other.read("/sys/class/net/bond0/bonding/ad_partner_mac") != "00:00:00:00:00:00"
    assert other.read("/sys/class/net/bond0/bonding/ad_num_ports") == "2"


def test_vfs_go_under_a_bond(sim: Sim) -> None:
    sim.vf_lag()
    assert sim.vfs(PF0, 0) == ""
    assert sim.show()["bonds"][0]["slaves"] == [NET0, NET1]
    assert sim.vfs(PF0, 4) == ""
    assert sim.show()["lag"]["type"] == "switchdev"


def test_igb_without_devlink(sim: Sim) -> None:
    pf = "0000:02:00.1"
    assert sim.vfs(pf, 7, autoprobe=True) == ""
    assert sim.vfs(pf, 3) == "Device or resource busy"
    assert sim.vf(pf, 0)["driver"] == "igbvf"
    sim.no(f"devlink -j dev eswitch show pci/{pf}", "No such device")
    sim.no("ip link set eno2 vf 0 state enable", "Operation not supported")
    sim.ok("ip link set eno2 vf 0 vlan 7 trust on spoofchk off max_tx_rate 100")


def test_firmware_per_card(sim: Sim) -> None:
    sim.ok(f"mstconfig -d {PF1} -y set NUM_OF_VFS=12")
    line = next(
        text for text in sim.run(f"mstconfig -d {PF0} -e q").stdout.splitlines() if "NUM_OF_VFS" in text
    )
    assert line.split() == ["*", "NUM_OF_VFS", "8", "8", "12"]
    other = sim.run(f"mstconfig -d {OTHER} -e q").stdout
    assert next(text for text in other.splitlines() if "NUM_OF_VFS" in text).split()[-1] == "8"


def test_firmware_next_boot(sim: Sim) -> None:
    sim.ok(f"mstconfig -d {PF0} -y set NUM_OF_VFS=12 SRIOV_EN=1")
    assert sim.read(f"{DEVICES}/{PF0}/sriov_totalvfs") == "8"
    sim.restart()
    assert sim.read(f"{DEVICES}/{PF0}/sriov_totalvfs") == "12"
    sim.no(f"mstconfig -d {PF0} -y set NUM_OF_VFS=200", "out of range")
    sim.no(f"mstconfig -d {PF0} -y set NO_SUCH=1", "doesn't support NO_SUCH")


def test_firmware_warm_reboot(tmp_path: Path) -> None:
    sim = Sim(tmp_path, warm_loads=False)
    sim.ok(f"mstconfig -d {PF0} -y set NUM_OF_VFS=12")
    sim.restart()
    assert sim.read(f"{DEVICES}/{PF0}/sriov_totalvfs") == "8"
    sim.restart(cold=True)
    assert sim.read(f"{DEVICES}/{PF0}/sriov_totalvfs") == "12"


def test_firmware_reset(sim: Sim) -> None:
    sim.vf_lag()
    sim.ok(f"mstconfig -d {PF0} -y set NUM_OF_VFS=12", f"mstfwreset -d {PF0} -l 3 -y reset")
    assert sim.read(f"{DEVICES}/{PF0}/sriov_totalvfs") == "12"
    shown = sim.show()
    assert not shown["vfs"]
    assert shown["bonds"][0]["slaves"] == []
    assert sim.pf(PF0)["eswitch"]["mode"] == "legacy"
    sim.inject("fwreset-refused")
    sim.no(f"mstfwreset -d {PF0} -l 3 -y reset", "not supported")


def test_firmware_lockdown(sim: Sim) -> None:
    sim.inject("fw-lockdown")
    sim.no(f"mstconfig -d {PF0} -e q", "Operation not permitted")
    assert sim.read("/sys/kernel/security/lockdown") == "none [integrity] confidentiality"


def test_firmware_sriov_off(sim: Sim) -> None:
    firmware(sim, SRIOV_EN="False")
    assert sim.read(f"{DEVICES}/{PF0}/sriov_totalvfs") == "No such file or directory"
    assert sim.read(f"{DEVICES}/{OTHER}/sriov_totalvfs") == "8"


def test_names_follow_the_kernel(sim: Sim) -> None:
    assert sim.pf(PF0)["netdev"] == "ens3f0"
    sim.inject("ports-renamed")
    sim.advance(5)
    assert [sim.pf(PF0)["netdev"], sim.pf(PF1)["netdev"], sim.pf(OTHER)["netdev"]] == [
        "ens3f0np0",
        "ens3f1np1",
        "ens5np0",
    ]
    assert sim.read("/proc/sys/kernel/osrelease") != "6.12.43-amd64"


def test_acs_from_command_line(sim: Sim) -> None:
    nic, gpu = "0000:16:00.0", "0000:16:01.0"
    iommu_on(sim, f"iommu=pt pci=config_acs=1x111x1@{nic};xx000x0@{gpu}")
    assert sim.run(f"setpci -s {gpu} ECAP_ACS+6.w").stdout == "001d\n"  # the ; ended the linux line
    text = sim.read("/etc/default/grub")
    begin, end = text.index("pci=config_acs"), text.index(gpu) + len(gpu)
    sim.host.write("/etc/default/grub", f"{text[:begin]}'{text[begin:end]}'{text[end:]}\n")
    sim.ok("update-grub")
    sim.restart()
    assert f"pci=config_acs=1x111x1@{nic};xx000x0@{gpu}" in sim.read("/proc/cmdline")
    assert sim.run(f"setpci -s {nic} ECAP_ACS+6.w").stdout == "005d\n"
    assert sim.run(f"setpci -s {gpu} ECAP_ACS+6.w").stdout == "0000\n"
    assert sim.host.read_bytes(f"{DEVICES}/{nic}/config")[0x156] == 0x5D


def test_udev_at_boot(sim: Sim) -> None:
    port, gpu, nic = "0000:16:00.0", "0000:18:00.0", PF0
    head = 'ACTION=="add", SUBSYSTEM=="pci", '
    rules = [
        f'{head}KERNEL=="{gpu}", ATTR{{driver_override}}="vfio-pci", RUN{{builtin}}+="kmod load vfio-pci", '
        "RUN+=\"/bin/sh -c 'echo %k > /sys/bus/pci/drivers_probe'\"",
        f"{head}KERNEL==\"{port}\", RUN+=\"/bin/sh -c 'exec setpci -s {port} ECAP_ACS+6.w=005d:005d'\"",
        f'{head}ATTR{{vendor}}=="0x15b3", RUN+="/usr/bin/setpci -s $kernel CAP_EXP+8.w=5000:7000"',
        f'# {head}ATTR{{vendor}}=="0x15b3", RUN+="/usr/bin/setpci -s $kernel CAP_EXP+8.w=1000:7000"',
        'ACTION=="remove", SUBSYSTEM=="pci", RUN+="/usr/bin/setpci -s %k CAP_EXP+8.w=0000:7000"',
    ]
    sim.host.write("/etc/udev/rules.d/90-x.rules", "\n".join(rules) + "\n")
    iommu_on(sim)
    assert sim.run(f"setpci -s {port} ECAP_ACS+6.w").stdout == "005d\n"
    assert sim.run(f"setpci -s {nic} CAP_EXP+8.w").stdout[0] == "5"
    assert sim.host.readlink(f"{DEVICES}/{gpu}/driver").endswith("/vfio-pci")
    assert sim.host.readlink(f"{DEVICES}/0000:19:00.0/driver").endswith("/nouveau")
    sim.host.remove("/etc/udev/rules.d/90-x.rules")
    sim.restart()
    assert sim.run(f"setpci -s {port} ECAP_ACS+6.w").stdout == "001d\n"
    assert sim.host.readlink(f"{DEVICES}/{gpu}/driver").endswith("/nouveau")


def test_ats_needs_firmware(sim: Sim) -> None:
    def chain() -> list[int]:
        data, at, found = sim.host.read_bytes(f"{DEVICES}/{PF0}/config"), 0x100, []
        while at:
            head = int.from_bytes(data[at : at + 4], "little")
            found.append(head & 0xFFFF)
            at = head >> 20
        return found

    assert 0x0F not in chain()
    firmware(sim, ATS_ENABLED=1)
    assert 0x0F in chain()


def test_iommu_groups(sim: Sim) -> None:
    assert sim.host.list("/sys/kernel/iommu_groups") == sim.host.list("/sys/class/iommu") == []
    iommu_on(sim)
    assert sim.read("/sys/kernel/iommu_groups/0/type") == "identity"
    assert sim.host.list("/sys/class/iommu")[0] == "dmar0"
    sim.inject("iommu-off-in-bios")
    sim.advance(5)
    assert sim.host.list("/sys/class/iommu") == []


def test_setpci_under_lockdown(sim: Sim) -> None:
    sim.ok(f"setpci -s {PF0} CAP_EXP+8.w=5000:f000")
    assert sim.run(f"setpci -s {PF0} CAP_EXP+8.w").stdout[0] == "5"
    sim.inject("fw-lockdown")
    said = sim.run(f"setpci -s {PF0} CAP_EXP+8.w=2000:f000")
    assert (said.rc, "Operation not permitted" in said.stderr) == (0, True)
    assert sim.run(f"setpci -s {PF0} CAP_EXP+8.w").stdout[0] == "5"


def test_grub_once(sim: Sim) -> None:
    block = sim.host.read("/boot/grub/grubenv")
    cfg = sim.read("/boot/grub/grub.cfg")
    title = next(line for line in cfg.splitlines() if "recovery mode" in line).split("'")[1]
    sim.host.write(
        "/boot/grub/grubenv", (block.rstrip("#") + f"next_entry={title}\n").ljust(1024, "#"), in_place=True
    )
    sim.restart()
    assert " single" in sim.read("/proc/cmdline")
    sim.restart()
    assert " single" not in sim.read("/proc/cmdline")


def test_hugepages_at_boot(sim: Sim) -> None:
    iommu_on(sim, "hugepagesz=1G hugepages=0:4,1:8 hugepagesz=2M hugepages=65")
    assert sim.show()["hugepages"] == {"0/2048": 33, "0/1048576": 4, "1/2048": 32, "1/1048576": 8}


def test_hugepages_limit(tmp_path: Path) -> None:
    sim = Sim(tmp_path, memory_gib=8)
    path = "/sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages"
    assert sim.poke(path, "16") == ""
    assert sim.read(path) == "3"


def test_volatile_is_lost(sim: Sim) -> None:
    sim.vf_lag()
    sim.host.write("/run/nearmetal/x", "1\n")
    sim.host.write("/etc/nearmetal/x", "1\n")
    sim.ok("systemd-run --unit=nearmetal-guard --on-active=600 /bin/true")
    sim.restart()
    shown = sim.show()
    assert [shown["vfs"], shown["bonds"], shown["timers"]] == [[], [], {}]
    assert not sim.host.exists("/run/nearmetal/x")
    assert sim.read("/etc/nearmetal/x") == "1"


UNIT = "[Unit]\nBefore=kubelet.service\n"
UNIT += "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart={}\n[Install]\nRequiredBy=kubelet.service\n"


def test_required_unit_fails(sim: Sim) -> None:
    name = "nearmetal-fabric-late.service"
    sim.host.write(f"/etc/systemd/system/{name}", UNIT.format(f"/usr/sbin/ip link set {NET0} up"))
    sim.ok("systemctl daemon-reload", f"systemctl enable {name}")
    sim.restart()
    assert sim.run("systemctl is-active kubelet.service").stdout == "active\n"
    assert sim.read(f"/sys/class/net/{NET0}/operstate") == "up"
    sim.host.write(f"/etc/systemd/system/{name}", UNIT.format("/usr/sbin/ip link set no-such up"))
    sim.restart()
    assert sim.run(f"systemctl is-active {name}").stdout == "failed\n"
    assert sim.run("systemctl is-active kubelet.service").stdout == "inactive\n"


def test_mtu_limits(sim: Sim) -> None:
    sim.bond(NET0, NET1)
    sim.ok("ip link set bond0 mtu 9000")
    assert sim.read(f"/sys/class/net/{NET1}/mtu") == "9000"
    sim.no("ip link set bond0 mtu 9979", "mtu greater than device maximum")
