"""Each fault of `nearmetal sim faults` does what it says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from simulated import DEVICES, NET0, NET1, PF0, PF1, Sim

from nearmetal.sim.faults import FAULTS
from nearmetal.sim.model.errors import Killed, PowerLoss
from nearmetal.sim.store import SimError

pytestmark = pytest.mark.simulated


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    return Sim(tmp_path)


def test_every_fault_has_a_test() -> None:
    tests = {name for name in vars(sys.modules[__name__]) if name.startswith("test_")}
    assert not [name for name in FAULTS if f"test_{name.replace('-', '_')}" not in tests]


def test_unknown(sim: Sim) -> None:
    for text in ("no-such", "no-reboot=3", "vfs-removed=0000:aa:00.0", "half-written-file=/no/such"):
        with pytest.raises(SimError):
            sim.inject(text)


def reachable(sim: Sim) -> str:
    sim.machine.settle()
    with sim.machine.session(changes=False):
        return sim.machine.reachable()


def test_clear(sim: Sim) -> None:
    sim.inject("no-reboot")
    sim.inject("clear")
    assert sim.show()["faults"] == {}


def test_lag_inactive(sim: Sim) -> None:
    sim.vf_lag()
    sim.inject("lag-inactive")
    assert sim.show()["lag"]["state"] == "disabled"
    sim.ok(f"ip link set {NET0} down", f"ip link set {NET0} up")
    assert sim.show()["lag"]["state"] == "disabled"
    assert len(sim.show()["vfs"]) == 4


def test_vfs_removed(sim: Sim) -> None:
    sim.vfs(PF0, 2)
    sim.vfs(PF1, 2)
    sim.inject(f"vfs-removed={PF1}")
    assert [len(sim.show()["vfs"]), sim.pf(PF1)["sriov_vfs"]] == [2, 0]
    sim.inject("vfs-removed")
    assert sim.show()["vfs"] == []


def test_vfs_bound(sim: Sim) -> None:
    sim.vfs(PF0, 2)
    sim.inject("vfs-bound")
    assert [vf["driver"] for vf in sim.show()["vfs"]] == ["mlx5_core"] * 2


def test_vf_in_use(sim: Sim) -> None:
    sim.vfs(PF0, 2)
    sim.inject(f"vf-in-use={sim.vf(PF0, 1)['address']}")
    assert [vf["in_use"] for vf in sim.show()["vfs"]] == ["", "a guest"]


def test_vf_driver_slow(sim: Sim) -> None:
    sim.inject("vf-driver-slow=5")
    sim.vfs(PF0, 1, autoprobe=True)
    assert [sim.vf(PF0, 0)["driver"], sim.vf(PF0, 0)["netdev"]] == ["mlx5_core", ""]
    sim.advance(6)
    assert sim.vf(PF0, 0)["netdev"] == "ens3f0v0"


def test_fw_lockdown(sim: Sim) -> None:
    sim.inject("fw-lockdown")
    sim.no(f"mstconfig -d {PF0} -e q", "Operation not permitted")


def test_fw_set_refused(sim: Sim) -> None:
    sim.inject("fw-set-refused")
    sim.no(f"mstconfig -d {PF0} -y set NUM_OF_VFS=4", "Failed to set")
    assert sim.show()["firmware"]["0000:17:00"]["NUM_OF_VFS"]["next"] == 8


def changed_by(sim: Sim, cold: bool) -> bool:
    sim.ok(f"mstconfig -d {PF0} -y set NUM_OF_VFS=4")
    sim.restart(cold)
    return sim.read(f"{DEVICES}/{PF0}/sriov_totalvfs") == "4"


def test_fw_warm_reboot_not_enough(sim: Sim) -> None:
    sim.inject("fw-warm-reboot-not-enough")
    assert not changed_by(sim, cold=False)
    sim.ok(f"mstfwreset -d {PF0} -l 3 -y reset")


def test_fwreset_refused(sim: Sim) -> None:
    sim.inject("fwreset-refused")
    sim.no(f"mstfwreset -d {PF0} -l 3 -y reset", "not supported")


def test_fw_needs_power_cycle(sim: Sim) -> None:
    sim.inject("fw-needs-power-cycle")
    assert not changed_by(sim, cold=False)
    sim.no(f"mstfwreset -d {PF0} -l 3 -y reset", "not supported")
    assert changed_by(sim, cold=True)


def test_sriov_off_in_bios(sim: Sim) -> None:
    sim.inject("sriov-off-in-bios")
    assert sim.vfs(PF0, 1) == "Cannot allocate memory"


def test_iommu_off_in_bios(sim: Sim) -> None:
    sim.inject("iommu-off-in-bios")
    sim.advance(5)
    assert not sim.host.exists("/sys/firmware/acpi/tables/DMAR")


def test_config_acs_misparsed(sim: Sim) -> None:
    sim.inject("config-acs-misparsed")
    ports = ("0000:16:00.0", "0000:16:01.0")
    text = f"intel_iommu=on 'pci=config_acs=xx000x0@{ports[0]};xx000x0@{ports[1]}'"
    sim.host.write("/etc/default/grub", sim.host.read("/etc/default/grub").replace('"quiet"', f'"{text}"'))
    sim.ok("update-grub")
    sim.restart()
    assert [sim.run(f"setpci -s {port} ECAP_ACS+6.w").stdout for port in ports] == ["0000\n", "001d\n"]


def test_no_reboot(sim: Sim) -> None:
    sim.inject("no-reboot")
    before = sim.show()["boot_id"]
    sim.ok("shutdown -r now", "ipmitool chassis power cycle")
    sim.advance(5)
    assert sim.show()["boot_id"] == before


def test_ports_renamed(sim: Sim) -> None:
    sim.inject("ports-renamed")
    sim.advance(5)
    sim.vfs(PF0, 1, autoprobe=True)
    sim.switchdev(PF0)
    assert [sim.pf(PF0)["netdev"], sim.vf(PF0, 0)["netdev"], sim.vf(PF0, 0)["representor"]] == [
        "ens3f0np0", "ens3f0v0", "ens3f0npf0vf0",
    ]  # fmt: skip


def test_command_hangs(sim: Sim) -> None:
    sim.inject("command-hangs=devlink dev eswitch set")
    with pytest.raises(sim.host.words.HostError, match="no end after"):
        sim.run(f"devlink dev eswitch set pci/{PF0} mode switchdev")
    assert sim.pf(PF0)["eswitch"]["mode"] == "legacy"
    sim.ok(f"devlink -j dev eswitch show pci/{PF0}")


def test_half_written_file(sim: Sim) -> None:
    before = sim.host.read("/etc/default/grub")
    sim.inject("half-written-file=/etc/default/grub")
    assert sim.host.read("/etc/default/grub") == before[: len(before) // 2]


def test_dies_at_step(sim: Sim) -> None:
    sim.inject("dies-at-step=2")
    sim.ok(f"ip link set {NET0} up")
    with pytest.raises(PowerLoss):
        sim.run(f"ip link set {NET1} up")
    assert reachable(sim) == "it is restarting"
    sim.advance(5)
    assert reachable(sim) == ""
    assert [sim.pf(PF0)["up"], sim.show()["boots"]] == [False, 2]


def test_program_dies_at_step(sim: Sim) -> None:
    sim.inject("program-dies-at-step=1")
    with pytest.raises(Killed):
        sim.host.write("/etc/x", "1")
    assert not sim.host.exists("/etc/x")
    sim.host.write("/etc/x", "1")
    assert sim.show()["boots"] == 1


def test_mgmt_path_breaks(sim: Sim) -> None:
    sim.vf_lag()
    sim.inject("mgmt-path-breaks")
    assert reachable(sim) == ""
    sim.ok(f"ip link set {NET1} nomaster")
    assert "switch has shut the port" in reachable(sim)
    sim.ok(f"ip link set {NET1} down", f"ip link set {NET1} master bond0")
    assert reachable(sim) == ""


def test_mgmt_down(sim: Sim) -> None:
    sim.inject("mgmt-down")
    assert "no link" in reachable(sim)


@pytest.mark.parametrize("owner", ["networkd", "NetworkManager", "ifupdown", "netplan"])
def test_bond_by_operator(tmp_path: Path, owner: str) -> None:
    sim = Sim(tmp_path, owner=owner)
    sim.inject("bond-by-operator")
    (bond,) = sim.show()["bonds"]
    assert [bond["name"], bond["by"], bond["slaves"]] == ["bond-ops", "operator", [NET0, NET1]]
    sim.restart()
    assert [bond["name"] for bond in sim.show()["bonds"]] == ["bond-ops"]


def test_cable_out(sim: Sim) -> None:
    sim.bond(NET0, NET1, mode="active-backup")
    assert sim.show()["bonds"][0]["active"] == NET0
    sim.inject("cable-out")
    assert [sim.pf(PF0)["carrier"], sim.show()["bonds"][0]["active"]] == [False, NET1]


def test_cable_in(sim: Sim) -> None:
    sim.ok(f"ip link set {NET0} up")
    sim.inject("cable-out")
    sim.inject("cable-in")
    assert sim.pf(PF0)["carrier"]


def test_lacp_silent(sim: Sim) -> None:
    sim.bond(NET0, NET1)
    sim.inject("lacp-silent")
    assert sim.read("/sys/class/net/bond0/bonding/ad_partner_mac") == "00:00:00:00:00:00"


def test_irq_stuck(sim: Sim) -> None:
    sim.inject("irq-stuck")
    assert sim.poke("/proc/irq/16/smp_affinity_list", "0") == "Input/output error"
    assert sim.poke("/proc/irq/9/smp_affinity_list", "0") == ""
