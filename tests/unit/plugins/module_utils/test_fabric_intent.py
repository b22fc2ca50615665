"""Bad input: one clear error each, naming variable, value and fix, before anything is touched."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import loop
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities import sriov, vf_lag
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric import intent_checks, select
from ansible_collections.nearmetal.rack.plugins.module_utils.model import REBOOT, Problem
from ansible_collections.nearmetal.rack.plugins.plugin_utils.intent import CAPABILITIES
from fabric_hosts import BOND, Rack, lag, options, pf
from simulated import OTHER, PF0, PF1, THIRD


@pytest.fixture(scope="module")
def factory() -> Rack:
    """Only looked at."""
    return Rack()


def static(wanted: dict[str, Any]) -> list[Problem]:
    intent = {name: value for name, value in wanted.items() if value is not None}
    return loop.check(intent, CAPABILITIES)


def on_host(rack: Rack, wanted: dict[str, Any], state: Any = None) -> list[Problem]:
    state = state or rack.state()
    found: list[Problem] = []
    for name, capability in (("sriov", sriov), ("vf_lag", vf_lag)):
        if wanted[name] is not None:
            decision = capability.decide({**wanted, **wanted[name]}, state)
            assert not (decision.problems and decision.call), "a host with a problem is not touched"
            found += decision.problems
    return found


def one(found: list[Problem]) -> Problem:
    assert len(found) == 1, found
    assert found[0].variable and found[0].value is not None and found[0].fix
    return found[0]


VF: dict[str, Any] = {"index": 0}

STATIC = [
    (options(sriov_pfs=[{"pf": {}, "vfs": 1}]), "no PF is named", "address"),
    (options(sriov_pfs=[{"pf": {"port": "ens3f0"}, "vfs": 1}]), "a port's name alone", "serial"),
    (options(sriov_pfs=[{"pf": {"address": 480.0}, "vfs": 1}]), "no PCI address", "in quotes"),  # 0000:08:00.0 without
    (options(sriov_pfs=[{"pf": {"mac": "02:00"}, "vfs": 1}]), "no MAC", "in quotes"),
    (options(sriov_pfs=[pf(vfs=-1)]), "cannot be made", "0 or more"),
    (options(sriov_pfs=[pf(), pf()]), "given twice", "once"),
    (options(sriov_pfs=[pf(vf=[{"index": 2}])]), "VF 2 is described, but only 2", "raise vfs"),
    (options(sriov_pfs=[pf(vf=[{"index": "x"}])]), "names no VFs", "0-3"),
    (options(sriov_pfs=[pf(vf=[{**VF, "vlan": 4095}])]), "no vlan", "4094"),
    (options(sriov_pfs=[pf(vf=[{**VF, "vlan": 5, "qos": 8}])]), "no qos", "0 to 7"),
    (options(sriov_pfs=[pf(vf=[{**VF, "qos": 3}])]), "about a VLAN", "vlan"),
    (options(sriov_pfs=[pf(vf=[{**VF, "mac": "01:00:5e:00:00:01"}])]), "multicast", "even"),
    (options(sriov_pfs=[pf(vf=[{**VF, "mac": "00:00:00:00:00:00"}])]), "no MAC", "02:"),
    (options(sriov_pfs=[pf(vf=[{"index": "0-1", "mac": "02:00:00:00:00:01"}])]), "one MAC for 2 VFs", "own entry"),
    (options(sriov_pfs=[pf(vf=[{**VF, "mac": "02:00:00:00:00:01"}]), pf(PF1, vf=[{**VF, "mac": "02-00-00-00-00-01"}])]),
     "the same MAC for two VFs", "own"),
    (options(sriov_pfs=[pf(vf=[{**VF, "min_tx_rate": 5, "max_tx_rate": 4}])]), "above max_tx_rate", "lower"),
    (options(sriov_pfs=[pf(vf=[{**VF, "node_guid": "1"}])]), "no GUID", "00:11"),
    (options(sriov_pfs=[pf(mtu=60)]), "no MTU", "9000"),
    (options(sriov_pfs=[pf(mtu=1500, vf=[{**VF, "mtu": 9000}])]), "above that of its PF", "raise"),
    (lag(mode="balance-rr"), "bond mode balance-rr", "802.3ad"),
    (lag(mode="0"), "bond mode 0 (balance-rr) cannot be offloaded", "802.3ad"),
    (lag(mode="4"), "bond mode 4 is written 802.3ad", "802.3ad"),
    (lag(mode="balanced-xor"), "balance-xor", "active-backup"),
    (lag(name="a/b"), "no name for a network device", "bond0"),
    (lag(pfs=[{"address": PF0}]), "needs two PFs", "both ports"),
    (lag(pfs=[{"address": PF0}, {"address": "17:00.0"}]), "needs two PFs, and 1 are given", "both ports"),
    (lag(lacp_rate="fast"), "lacp_rate is about LACP", "802.3ad"),
    (lag(xmit_hash_policy="layer3+4"), "nothing to hash", "remove"),
    (lag(miimon=0), "dead cable", "100"),
    (lag(addresses=["192.0.2.4"]), "no address with prefix length", "/24"),
    (lag(forwarding={"type": "ovs"}), "needs the bridge's name", "br0"),
    (lag(forwarding={"type": "external"}), "is not said", "owner"),
    (lag(forwarding={"type": "bridge", "name": "bond0"}), "name of the bond", "another name"),
    (options(vf_lag_bonds=[BOND, BOND]), "given twice", "once"),
    ({**lag(), **{"nic_firmware": options(nic_firmware_settings={"NUM_OF_VFS": 65})["nic_firmware"]}},
     "NUM_OF_VFS 65", "64 or less"),
]  # fmt: skip


@pytest.mark.parametrize("wanted, message, fix", STATIC, ids=[message for _w, message, _f in STATIC])
def test_without_a_host(wanted: dict[str, Any], message: str, fix: str) -> None:
    found = one(static(wanted))
    assert message in found.message and fix in found.fix and found.kind == "intent"


ON_HOST = [
    (options(sriov_pfs=[pf("0000:18:00.0")]), "there is no such PF", "this host has 0000:02:00.0"),
    (options(sriov_pfs=[pf("0000:17:00")]), "address 0000:17:00 names 2 PFs", "port"),
    (options(sriov_pfs=[{"pf": {"address": PF0, "mac": "02:00:00:00:00:01"}}]), "agrees with all of it: 0000:17:00.0", "has"),
    (options(sriov_pfs=[pf(), {"pf": {"address": "0000:17:00", "port": "p0"}, "vfs": 2}]), "0000:17:00.0 is given twice", "once"),
    (options(sriov_pfs=[pf(vfs=9)]), "9 VFs asked for, and ens3f0 (0000:17:00.0) can have 8", "NUM_OF_VFS"),
    (options(sriov_pfs=[pf("0000:02:00.1", 8)]), "can have 7", "lower vfs to 7"),
    (options(sriov_pfs=[pf(vf=[{**VF, "node_guid": "00:11:22:33:44:55:66:77"}])]), "no InfiniBand port", "remove"),
    (options(vf_lag_bonds=[{"name": "b", "pfs": [{"address": OTHER}, {"address": THIRD}]}]), "on different cards", "lag: false"),
    (options(vf_lag_bonds=[{"name": "b", "pfs": [{"address": "0000:02:00.0"}, {"address": "0000:02:00.1"}]}]),
     "has no VF LAG: its driver is igb", "lag: false"),
    (lag(pf(vf=[{**VF, "spoofchk": True}]), pf(PF1)), "no spoof check", "representors"),
    (lag(pf(vf=[{**VF, "trust": True}]), pf(PF1)), "not trusted", "remove trust"),
    (lag(pf(vf=[{**VF, "vlan": 5}]), pf(PF1)), "a VLAN belongs to the representor", "ovs or bridge"),
    (lag(pf(vf=[{**VF, "vlan": 5, "qos": 1}]), pf(PF1), forwarding={"type": "ovs", "name": "br0"}), "has no qos", "qos"),
    (lag(pf(vf=[{**VF, "vlan": 5, "proto": "802.1ad"}]), pf(PF1), forwarding={"type": "bridge", "name": "br0"}),
     "has no proto", "proto"),
    (lag(pf(mtu=9000), pf(PF1, mtu=1500)), "1500 and 9000 are asked for", "same mtu"),
    (lag(pf(PF0, 2), pf(PF1, 1), multiport=True), "belong to the first PF", "there"),
]  # fmt: skip


@pytest.mark.parametrize("wanted, message, fix", ON_HOST, ids=[message for _w, message, _f in ON_HOST])
def test_on_a_host(factory: Rack, wanted: dict[str, Any], message: str, fix: str) -> None:
    assert static(wanted) == []
    found = one(on_host(factory, wanted))
    assert message in found.message and fix in found.fix


def test_sriov_off_in_the_bios_is_named(factory: Rack) -> None:
    for total, capable, firmware, words in (
        (0, True, None, "SR-IOV is off in the BIOS"),
        (0, False, "", "off in the card's firmware (SRIOV_EN) or in the BIOS"),
        (0, False, "16", "has NUM_OF_VFS 16 in its firmware and shows no SR-IOV"),
        (1, True, "18", "the firmware of ens3f0 (0000:17:00.0) allows 18 VFs, but the kernel only 1"),
    ):
        state = factory.state()
        state["fabric"]["pfs"][2].update(sriov_total=total, sriov_capable=capable)
        if firmware is not None:
            value = {"default": "8", "current": firmware, "next": firmware}
            state["firmware"] = {PF0: {"tool": "mstconfig", "values": {"NUM_OF_VFS": value}, "error": ""}}
        found = one(on_host(factory, options(sriov_pfs=[pf()]), state))
        assert words in found.message and found.kind == "host" and "BIOS" in found.message + found.fix


def test_no_memory_for_vfs_is_explained() -> None:
    """openshift-docs#32619: "cannot allocate memory" says nothing to anybody."""
    rack = Rack()
    with rack.sim.machine.session() as state:
        state["bios"]["sriov"] = False
    with pytest.raises(Exception, match="Cannot allocate memory .*SR-IOV is off in the BIOS.*pci=realloc"):
        rack.run("sriov", options(sriov_pfs=[pf(OTHER)]))


@pytest.mark.parametrize("firmware, current, vfs, refused, waits", [
    (None, 65, 2, "NUM_OF_VFS is 65 in the firmware", False),  # Mellanox ovs-tests: 65 in the firmware, two VFs made
    (None, 64, 64, "", False),
    (80, 8, 2, "nic_firmware asks for NUM_OF_VFS 80", False),
    (None, 127, 65, "NUM_OF_VFS is 127", False),
    (32, 65, 2, "", True),  # too many now, and after this run's power cycle no more
    (16, 8, 16, "", True),
])  # fmt: skip
def test_64_vfs_are_counted_by_the_firmware(firmware: int | None, current: int, vfs: int, refused: str, waits: bool) -> None:
    rack = Rack(vfs=current)
    wanted = lag(pf(PF0, vfs), pf(PF1, vfs))
    if firmware:
        wanted["nic_firmware"] = options(nic_firmware_settings={"NUM_OF_VFS": firmware})["nic_firmware"]
    found = on_host(rack, wanted)
    if refused:
        assert refused in found[0].message and "64 or less" in found[0].fix
        return
    assert found == []
    steps = vf_lag.decide({**wanted, **wanted["vf_lag"]}, rack.state()).steps
    assert steps and all((REBOOT in step.requires) == waits for step in steps)


def test_firmware_settings_of_one_card(factory: Rack) -> None:
    """By address of either port, of the card, or by serial; 18 is not 8."""
    (serial,) = {p["serial"] for p in factory.fabric()["pfs"] if p["card"] == "0000:17:00"}
    for card in ({"address": PF1}, {"address": "0000:17:00"}, {"serial": serial}):
        wanted = lag(pf(PF0, 18), pf(PF1, 18))
        wanted["nic_firmware"] = options(nic_firmware_cards=[{**card, "settings": {"NUM_OF_VFS": 18}}])["nic_firmware"]
        assert on_host(factory, wanted) == []
        wanted["nic_firmware"] = options(nic_firmware_cards=[{**card, "settings": {"NUM_OF_VFS": 17}}])["nic_firmware"]
        assert "18 VFs asked for" in on_host(factory, wanted)[0].message


def test_vfio_waits_for_the_iommu() -> None:
    rack = Rack(iommu=False)
    wanted = options(sriov_pfs=[pf(driver="vfio-pci")])
    assert "vfio-pci needs an IOMMU" in one(on_host(rack, wanted)).message
    wanted["iommu"] = options(iommu_mode="passthrough")["iommu"]
    assert on_host(rack, wanted) == []
    assert all(REBOOT in step.requires for step in sriov.decide({**wanted, **wanted["sriov"]}, rack.state()).steps)


def test_the_management_path_is_kept() -> None:
    rack = Rack(management="pf")
    assert "ens3f0" in rack.fabric()["management"]
    found = one(on_host(rack, lag()))
    assert found.variable == "sriov_accept_management" and found.value == PF0 and "management path" in found.message
    for accepted in (PF0, {"address": "0000:17:00", "port": "p0"}):
        wanted = lag()
        wanted["sriov"]["accept_management"] = [accepted]
        assert "sriov_accept_management" not in {p.variable for p in on_host(rack, wanted)}
    wanted["sriov"]["accept_management"] = [PF1]
    assert "sriov_accept_management" in {p.variable for p in on_host(rack, wanted)}


@pytest.mark.parametrize("path, text, owner", [
    ("/etc/sriov-operator/pci/x", "", "sriov-network-operator"),
    ("/etc/systemd/system/sriov-config.service", "", "sriov-network-operator"),
    ("/var/lib/os-net-config/sriov_config.yaml", "", "os-net-config"),
    ("/etc/netplan/50-sriov.yaml", "network:\n  ethernets:\n    a:\n      virtual-function-count: 4\n", "netplan"),
    ("/etc/udev/rules.d/90-vfs.rules", 'ACTION=="add", ATTR{sriov_numvfs}="4"\n', "udev"),
])  # fmt: skip
def test_no_fight_with_another_owner(path: str, text: str, owner: str) -> None:
    rack = Rack()
    rack.host.write(path, text)
    found = one(on_host(rack, options(sriov_pfs=[pf()])))
    assert found.value == owner and found.kind == "host" and path.rpartition("/")[0].removesuffix("/pci") in found.message
    assert on_host(rack, options(sriov_pfs=[pf(OTHER, 0)])) == []  # nothing to do: nothing to fight about


def test_vfs_under_a_foreign_bond_are_left_alone() -> None:
    """sriov-network-operator changed VFs under a bond that somebody else had made."""
    rack = Rack()
    rack.sim.vf_lag()
    assert "in the bond bond0" in one(on_host(rack, options(sriov_pfs=[pf(PF0, 4)]))).message


def test_pci_realloc_only_where_asked(factory: Rack) -> None:
    state = factory.state()
    assert not sriov.cmdline(options(sriov_pfs=[pf()])["sriov"], state)
    asked = options(sriov_pfs=[pf()], sriov_pci_realloc=True)["sriov"]
    assert sriov.cmdline(asked, state).args == ("pci=realloc",)
    state["boot"]["configured"] = "quiet pci=noaer"
    assert sriov.cmdline(asked, state).args == ("pci=noaer", "pci=realloc")
    state["boot"]["configured"] = "quiet pci=noaer,realloc"
    assert not sriov.cmdline(asked, state)


def test_selection(factory: Rack) -> None:
    pfs = factory.fabric()["pfs"]
    (have,) = [p for p in pfs if p["address"] == PF1]
    for selector in (
        {"address": "17:00.1"}, {"address": PF1.upper()}, {"mac": have["mac"].upper()}, {"serial": have["serial"], "port": "p1"},
        {"serial": have["serial"], "port": have["netdev"]}, {"address": "0000:17:00", "port": "1"},
        {"address": PF1, "serial": have["serial"], "mac": have["mac"].replace(":", "-"), "port": "p1"},
    ):  # fmt: skip
        found, problem = select.find(selector, pfs, "v")
        assert problem is None and found is not None and found["address"] == PF1
    # What a new kernel calls the port does not matter.
    have["netdev"] = "ens3f1np1"
    assert select.find({"serial": have["serial"], "port": "p1"}, pfs, "v")[0] is have


def test_indexes() -> None:
    assert intent_checks.expand("0-2,5") == [0, 1, 2, 5] and intent_checks.expand([1, "3-4"]) == [1, 3, 4]
    for bad in ("", "a", "3-1", "1-", True, "0-99999"):
        with pytest.raises(ValueError, match="V"):
            intent_checks.expand(bad)


def test_a_role_alone_knows_its_peers() -> None:
    """The role sriov alone must not take the PFs of a LAG for its own."""
    intent = {"sriov": lag()["sriov"]}
    peers = {"vf_lag": lag()["vf_lag"]}
    assert loop.options_of("sriov", intent, CAPABILITIES, peers)["vf_lag"] == peers["vf_lag"]
    rack = Rack()
    plan = loop.decide(intent, rack.state(), CAPABILITIES, peers)
    assert plan["status"] == "ok" and loop.decide(intent, rack.state(), CAPABILITIES)["status"] == "changes"
