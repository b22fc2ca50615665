"""Parsers of the fabric on real output, and the section of a host with and without commands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils.host import Host, SnapshotHost
from ansible_collections.nearmetal.rack.plugins.module_utils.model import IntentError
from ansible_collections.nearmetal.rack.plugins.module_utils.observe import eswitch, fabric, links, management
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.reader import Reader
from fabric_hosts import Rack, lag, options, pf
from simulated import OTHER, PF0, PF1
from trees import build

pytestmark = pytest.mark.simulated

BDF = "0000:03:00.0"


def snapshot(files: dict[str, Any] | None = None, commands: dict[str, Any] | None = None, **more: Any) -> SnapshotHost:
    return SnapshotHost(files or {}, live=True, commands=commands or {}, **more)


def told(command: str, text: str) -> Reader:
    return Reader(snapshot(commands={command: (0, text, "")}))


def test_devlink_as_netplan_quotes_it(samples: Path) -> None:
    lines = (samples / "devlink" / "devlink.txt").read_text().splitlines()
    found = [line for line in lines if line.startswith('{"dev"')]
    assert len(found) == 2
    show = "devlink -j dev eswitch show pci/" + BDF
    assert eswitch.observe_eswitch(told(show, found[0]), BDF)["mode"] == "switchdev"
    assert eswitch.observe_eswitch(told(show, found[1]), BDF)["mode"] is None
    for port in (line for line in lines if line.startswith('{"port"')):
        names = [p["netdev"] for p in json.loads(port)["port"].values() if p["flavour"] == "pcivf"]
        assert names and all(re.search(r"pf0vf1\Z", name) for name in names)


def test_lag_states_as_the_driver_writes_them(samples: Path) -> None:
    text = (samples / "devlink" / "mlx5-lag-debugfs.txt").read_text()
    for word in ("active", "disabled", "roce", "switchdev", "multiport_eswitch"):
        assert word in text
    base = eswitch.LAG % BDF
    files = {base + "/state": "disabled\n", base + "/members": BDF + "\n0000:03:00.1\n"}
    host = snapshot(files, errors={base + "/type": "Invalid argument"})
    reader = Reader(host)
    assert eswitch.observe_lag(reader, BDF) == {"state": "disabled", "type": None, "members": [BDF, "0000:03:00.1"]}
    assert reader.unread() == []  # EINVAL while inactive is no failure
    hidden = Reader(snapshot(errors={base + "/state": "Operation not permitted"}))
    assert eswitch.observe_lag(hidden, BDF) is None and hidden.unread()[0]["section"] == "fabric.lag"
    assert eswitch.observe_lag(Reader(snapshot()), BDF) is None


@pytest.mark.parametrize("text, value", [
    ("Features for a:\nrx-checksumming: on\nhw-tc-offload: on\n", True), ("hw-tc-offload: off [fixed]\n", False),
    ("esp-hw-tc-offload: on\n", None), ("", None), (None, None),
])  # fmt: skip
def test_hw_tc_offload(text: str | None, value: bool | None) -> None:
    assert eswitch.hw_tc_offload(text) is value


def test_vf_attributes_of_old_and_new_iproute2() -> None:
    new = {
        "vf": 0, "link_type": "ether", "address": "02:00:00:00:00:0A", "broadcast": "ff:ff:ff:ff:ff:ff",
        "vlan_list": [{"vlan": 100, "qos": 3, "protocol": "802.1ad"}], "rate": {"max_tx": 1000, "min_tx": 10},
        "spoofchk": True, "link_state": "auto", "trust": False, "query_rss_en": False,
        "node guid": "00:11:22:33:44:55:66:77", "port guid": "00:00:00:00:00:00:00:00",
    }  # fmt: skip
    found = links.vf_attributes(new)
    assert (found["mac"], found["vlan"], found["qos"], found["proto"]) == ("02:00:00:00:00:0a", 100, 3, "802.1ad")
    assert (found["max_tx_rate"], found["min_tx_rate"], found["node_guid"]) == (1000, 10, "00:11:22:33:44:55:66:77")
    old = links.vf_attributes({"vf": 0, "mac": "00:00:00:00:00:00", "vlan_list": [{}], "tx_rate": 5})
    assert (old["mac"], old["vlan"], old["max_tx_rate"]) == ("", 0, 5)
    assert "trust" not in old and "spoofchk" not in old  # not reported is not "off"


def test_vpd() -> None:
    def large(tag: int, data: bytes) -> bytes:
        return bytes([tag, len(data) & 255, len(data) >> 8]) + data

    fields = b"PN\x03ABCSN\x0cMT2112X00001V0\x01x"
    assert fabric.vpd_serial(large(0x82, b"ConnectX SN\x03no") + large(0x90, fields) + b"\x78") == "MT2112X00001"
    for bad in (b"", b"\x82", b"\xff" * 64, large(0x90, b"SN"), b"\x78" + large(0x90, fields)):
        assert fabric.vpd_serial(bad) == ""


def test_open_vswitch() -> None:
    one, two, own = (f"{n}" * 8 for n in (1, 2, 3))
    members = ["set", [["uuid", one], ["uuid", two], ["uuid", own]]]
    bridges = {"headings": ["name", "ports"], "data": [["br0", members], ["br1", ["uuid", "9"]]]}
    ports = {"headings": ["name", "tag", "_uuid"], "data": [
        ["bond0", ["set", []], ["uuid", one]], ["rep0", 7, ["uuid", two]], ["br0", ["set", []], ["uuid", own]]]}  # fmt: skip
    reader = Reader(snapshot(commands={
        "ovs-vsctl --format=json --columns=name,ports list Bridge": (0, json.dumps(bridges), ""),
        "ovs-vsctl --format=json --columns=name,tag,_uuid list Port": (0, json.dumps(ports), ""),
        "ovs-vsctl get Open_vSwitch . other_config": (0, '{hw-offload="true", max-idle="30000"}\n', ""),
    }))  # fmt: skip
    found = eswitch.observe_ovs(reader, {})
    assert found is not None and found["hw_offload"]
    assert found["bridges"][0]["ports"] == [{"name": "bond0", "tag": None}, {"name": "rep0", "tag": 7}]
    assert found["bridges"][1]["ports"] == []
    assert eswitch.observe_ovs(Reader(snapshot()), {}) is None


def test_guests_of_libvirt() -> None:
    xml = """<domstatus><domain><name>db1</name><devices>
      <hostdev mode='subsystem' type='pci' managed='yes'><driver name='vfio'/>
        <source><address domain='0x0000' bus='0x17' slot='0x00' function='0x2'/></source>
        <address type='pci' domain='0x0000' bus='0x05' slot='0x00' function='0x0'/></hostdev></devices></domain></domstatus>"""
    assert fabric._guests(Reader(snapshot({"/run/libvirt/qemu/db1.xml": xml}))) == {"0000:17:00.2": "db1"}


def test_management_path() -> None:
    def link(name: str, **more: Any) -> Any:
        return {**links._empty(name), **more}

    devices = {x["name"]: x for x in (
        link("bond0", kind="bond"), link("a", master="bond0", pci="x"), link("bond0.5", below="bond0", kind="vlan"),
        link("br0", addresses=["10.0.0.5/24"]), link("b", pci="y"), link("c", pci="z"))}  # fmt: skip
    ovs: Any = {"hw_offload": False, "bridges": [{"name": "br0", "ports": [{"name": "b", "tag": None}], "addresses": [], "up": True}]}
    route = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\nbond0.5\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n"
    files = {"/proc/net/route": route + "c\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"}
    ssh = {"printenv SSH_CONNECTION": (0, "10.0.0.9 1234 10.0.0.5 22\n", "")}
    assert management.observe_management(Reader(snapshot(files, ssh)), devices, ovs) == ["a", "b", "bond0", "bond0.5", "br0"]
    assert management.observe_management(Reader(snapshot(files)), devices, ovs) == ["a", "bond0", "bond0.5"]
    assert management.observe_management(Reader(snapshot()), devices, ovs) == []
    # sudo hides the variable: the shell above has it.
    files = {"/proc/self/environ": "A=1\0", "/proc/self/status": "Name:\tx\nPPid:\t7\n",
             "/proc/7/environ": "B=2\0SSH_CONNECTION=10.0.0.9 1234 10.0.0.5 22\0", "/proc/7/status": "PPid:\t1\n"}  # fmt: skip
    assert management.observe_management(Reader(snapshot(files)), devices, ovs) == ["b", "br0"]


def test_a_host_without_commands_is_not_known_to_be_otherwise() -> None:
    """The probe of another capability: sysfs says what it can, and nothing reads as absent."""
    devices = [{"address": BDF, "driver": "mlx5_core", "netdev": "ens1", "vfs": (1, 8)},
               {"address": "0000:03:00.2", "driver": "vfio-pci", "physfn": BDF, "device": "0x101e"}]  # fmt: skip
    host = build(devices=devices).host(live=True)
    found = observe(host)["fabric"]
    (one,) = found["pfs"]
    assert (one["netdev"], one["sriov_total"], one["sriov_vfs"], one["mtu"]) == ("ens1", 8, 1, 1500)
    assert one["eswitch"]["mode"] is None and one["hw_tc_offload"] is None and one["lag"] is None and one["up"] is None
    (vf,) = one["vfs"]
    assert (vf["address"], vf["driver"]) == ("0000:03:00.2", "vfio-pci")
    assert vf["mac"] is None and vf["trust"] is None and vf["in_use"] is None
    assert found["ovs"] is None and found["units"]["nearmetal-fabric-late.service"] == "absent"
    assert not [note for note in observe(host)["unread"] if note["section"].startswith("fabric")]


def test_a_host_without_cards_is_asked_nothing() -> None:
    class Silent(SnapshotHost):
        def run(self, argv: Any, timeout: float = 300, stdin: str = "") -> Any:
            asked.append(" ".join(argv))
            return super().run(argv, timeout, stdin)

    asked: list[str] = []
    plain = build().host(live=True)
    host: Host = Silent(plain.files, plain.links, plain.errors, plain.folders, live=True)
    assert observe(host)["fabric"]["pfs"] == []
    assert [line for line in asked if not line.startswith(("systemctl is-active", "printenv"))] == []


def test_a_failing_command_is_noted(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    rack.sim.inject("command-hangs=devlink")
    state = rack.state()
    assert all(p["eswitch"]["mode"] is None for p in state["fabric"]["pfs"])
    assert any(note["section"] == "fabric" and "devlink" in note["reason"] for note in state["unread"])
    found = rack.choose("vf_lag", lag()).problems
    assert "the eswitch mode of bond0 could not be read" in found[0].message and found[0].kind == "host"


def test_the_section_of_a_vf_lag(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    rack.run("vf_lag", lag(mode="802.3ad", forwarding={"type": "ovs", "name": "br0"}))
    found = rack.fabric()
    have = {p["address"]: p for p in found["pfs"]}
    assert have[PF0]["lag"] == {"state": "active", "type": "switchdev", "members": [PF0, PF1]}
    assert have[PF0]["switch_id"] == have[PF1]["switch_id"] != ""
    assert have[PF0]["bond"] == "bond0" and have[PF0]["netdev"] == "ens3f0" and have[PF0]["card"] == "0000:17:00"
    vf = have[PF1]["vfs"][1]
    assert vf["representor"] == "ens3f1npf1vf1" or re.search(r"pf1vf1\Z", vf["representor"])
    assert vf["representor_master"] == "br0" and vf["representor_up"] is True and vf["driver"] == "mlx5_core"
    (bond,) = found["bonds"]
    assert (bond["mode"], bond["slaves"], bond["mii_status"], bond["miimon"]) == ("802.3ad", ["ens3f0", "ens3f1"], "up", 100)
    assert bond["partner_mac"] not in ("", "00:00:00:00:00:00")


def test_renamed_ports_are_the_same(tmp_path: Path) -> None:
    """A new kernel calls ens3f0 ens3f0np0: nothing is to be done about that."""
    rack = Rack(tmp_path)
    wanted = lag(forwarding={"type": "bridge", "name": "br0"})
    rack.run("vf_lag", wanted)
    serial = rack.fabric()["pfs"][2]["serial"]
    rack.sim.inject("ports-renamed")
    rack.sim.restart()
    assert rack.fabric()["pfs"][2]["netdev"] == "ens3f0np0"
    by_port = options(sriov_pfs=[pf(PF0), {"pf": {"serial": serial, "port": "p1"}, "vfs": 2}],
                      vf_lag_bonds=[{"name": "bond0", "pfs": [{"serial": serial, "port": "p0"}, {"address": PF1}],
                                     "forwarding": {"type": "bridge", "name": "br0"}}])  # fmt: skip
    assert rack.choose("vf_lag", by_port).desired == rack.choose("vf_lag", wanted).desired
    rack.run("vf_lag", by_port)
    assert rack.sim.show()["lag"]["type"] == "switchdev"


def test_auxiliary_devlink_handles(tmp_path: Path) -> None:
    rack = Rack(tmp_path, devlink="auxiliary")
    rack.run("vf_lag", lag())
    assert rack.sim.show()["lag"]["type"] == "switchdev" and rack.choose("vf_lag", lag()).ops == []


def test_vf_in_use(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    rack.run("sriov", options(sriov_pfs=[pf(OTHER, 3)]))
    names = [vf["netdev"] for vf in rack.sim.show()["vfs"]]
    rack.sim.ok(f"ip addr add 192.0.2.9/24 dev {names[0]}", "ip link add bond7 type bond mode active-backup miimon 100",
                f"ip link set {names[1]} down", f"ip link set {names[1]} master bond7")  # fmt: skip
    (have,) = [p for p in rack.fabric()["pfs"] if p["address"] == OTHER]
    assert [vf["in_use"] for vf in have["vfs"]] == ["192.0.2.9/24", "bond7", ""]
    step, _boot = rack.choose("sriov", options(sriov_pfs=[pf(OTHER, 4)])).steps
    assert "VF 0 is used by 192.0.2.9/24; VF 1 is used by bond7" in step.reason and step.disruption == "traffic"


def test_a_guest_that_holds_a_vf_is_seen(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    rack.run("sriov", options(sriov_pfs=[pf(OTHER, 2, driver="vfio-pci")]))
    rack.sim.inject("vf-in-use=" + rack.sim.vf(OTHER, 1)["address"])
    (have,) = [p for p in rack.fabric()["pfs"] if p["address"] == OTHER]
    assert [vf["in_use"] for vf in have["vfs"]] == ["", "a guest that has it open"]
    step, _boot = rack.choose("sriov", options(sriov_pfs=[pf(OTHER, 3)])).steps
    assert step.disruption == "drain" and "VF 1 is used by a guest that has it open" in step.reason
    with pytest.raises(IntentError, match="VF 1 of ens5 .* is held: a guest that has it open would lose it"):
        rack.run("sriov", options(sriov_pfs=[pf(OTHER, 3)]))
    assert len(rack.sim.show()["vfs"]) == 2
