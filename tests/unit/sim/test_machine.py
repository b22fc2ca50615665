"""Boots, units, timers, programs, owners of the network, what the controller may do with a simulated host."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import collector, host
from ansible_collections.nearmetal.rack.plugins.module_utils.observe import fabric
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe
from ansible_collections.nearmetal.rack.plugins.plugin_utils import probe as real
from simulated import DEVICES, NET0, NET1, PF0, PF1, Sim

from nearmetal.sim import probe, remote, sandbox
from nearmetal.sim.machine import Machine
from nearmetal.sim.store import SimError, Store

pytestmark = pytest.mark.simulated

COMMANDS = (
    *fabric.COMMANDS,
    ("mstconfig", "-d", "{mlx5}", "-e", "q"),
    ("nmcli",),
    ("foo",),
)


def lines(*words: str) -> str:
    """A file of these lines."""
    return "\n".join(words) + "\n"


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    return Sim(tmp_path)


def asked(sim: Sim, program: str) -> host.SnapshotHost:
    text = remote.execute(collector, sim.machine, "python3 -", program.encode())[1]
    return real.snapshot({"rc": 0, "stdout": text, "stderr": ""}, "/", "", "")


def test_the_probe_sees_what_modules_see(sim: Sim) -> None:
    sim.vf_lag()
    every = tuple(dict.fromkeys(c for commands in real.probe_commands().values() for c in commands))
    state = observe(asked(sim, collector.program("/", real.probe_paths(), every)))
    direct = observe(sim.host)
    state["kernel"]["uptime_s"] = direct["kernel"]["uptime_s"] = None
    assert state == direct
    assert state["unread"] == []
    assert state["boot"]["configured"] in sim.read("/proc/cmdline")
    assert len([f for f in state["pci"] if f["physfn"] == PF0]) == 2
    (card,) = [f for f in state["pci"] if f["address"] == PF0]
    assert card["capabilities"] == ["pm", "vpd", "msix", "pcie", "aer", "ari", "sriov"]
    assert card["numa_node"] == 0


def test_the_probe_brings_commands(sim: Sim) -> None:
    snapshot = asked(sim, collector.program("/", (), COMMANDS))
    assert "NUM_OF_VFS" in snapshot.run(["mstconfig", "-d", PF1, "-e", "q"]).stdout
    assert "hw-tc-offload: off" in snapshot.run(["ethtool", "-k", NET0]).stdout
    for program in ("nmcli", "foo"):
        with pytest.raises(host.Missing):
            snapshot.run([program])
    sim.inject("command-hangs=mstconfig")
    with pytest.raises(host.HostError, match="no end after"):
        asked(sim, collector.program("/", (), COMMANDS)).run(["mstconfig", "-d", PF0, "-e", "q"])


def test_the_probe_asks_cards_whose_firmware_has_sriov_off(tmp_path: Path) -> None:
    sim = Sim(tmp_path, sriov=False)
    snapshot = asked(sim, collector.program("/", real.probe_paths(), COMMANDS))
    assert "SRIOV_EN" in snapshot.run(["mstconfig", "-d", PF1, "-e", "q"]).stdout
    (card,) = [f for f in observe(snapshot)["pci"] if f["address"] == PF1]
    assert card["sriov_total"] == 0


def test_only_the_collectors_own_program_is_run(sim: Sim) -> None:
    good = collector.program("/", ())
    for bad in (
        good + "\nimport os\n",
        good.replace("M = ", "os = open('/etc/passwd')\nM = "),
        collector.program("/srv", ()),
    ):
        with pytest.raises(probe.NotTheProbe):
            probe.answer(collector, sim.machine, bad)


@pytest.mark.parametrize(
    "command",
    [
        "id",
        "cat /etc/shadow",
        "rm -rf /",
        "shutdown -h now",
        "cat /proc/sys/kernel/random/boot_id; id",
        "/bin/sh -c 'id'",
    ],
)
def test_other_commands_are_refused_by_name(sim: Sim, command: str) -> None:
    code, _out, err = remote.execute(collector, sim.machine, command, None)
    assert code == 127
    assert "refused" in err
    assert "boot_id" in err


def test_other_modules_are_refused_by_name(sim: Sim) -> None:
    for text in (
        "module_fqn='ansible.modules.command',",
        "module_fqn='ansible_collections.nearmetal.rack.plugins.modules.benchmark_vm',",
        "x",
    ):
        code, _out, err = remote.execute(collector, sim.machine, "python3", text.encode())
        assert code == 127
        assert "refused" in err


def test_reboot_over_the_connection(sim: Sim) -> None:
    code, before, _err = remote.execute(collector, sim.machine, "cat /proc/sys/kernel/random/boot_id", None)
    assert code == 0
    wrapped = "/bin/sh -c 'sudo -H -S -n -u root /bin/sh -c '\"'\"'echo BECOME-SUCCESS-abc ; PATH=$PATH:/sbin shutdown -r now'\"'\"''"
    assert remote.execute(collector, sim.machine, wrapped, None)[:2] == (0, "BECOME-SUCCESS-abc\n")
    with pytest.raises(remote.Lost, match="restarting"):
        remote.execute(collector, sim.machine, "cat /proc/sys/kernel/random/boot_id", None)
    sim.advance(5)
    assert remote.execute(collector, sim.machine, "cat /proc/sys/kernel/random/boot_id", None)[1] != before


def test_a_broken_grub_cfg_does_not_boot(sim: Sim) -> None:
    sim.host.write("/boot/grub/grub.cfg", "nothing\n")
    sim.restart()
    with pytest.raises(remote.Lost, match="does not boot"):
        remote.execute(collector, sim.machine, "true", None)


def test_update_grub_agrees_with_our_own_reader(sim: Sim) -> None:
    name = "GRUB_CMDLINE_LINUX_DEFAULT"
    text = lines('GRUB_CMDLINE_LINUX="a=1"', '%s="${%s:+$%s }b=\\"x y\\" c"' % (name, name, name))  # noqa: UP031
    sim.host.write("/etc/default/grub.d/50-more.cfg", text)
    sim.ok("/usr/sbin/update-grub")
    configured = observe(sim.host)["boot"]["configured"]
    sim.restart()
    assert configured.endswith('ro a=1 quiet b="x y" c')
    assert sim.read("/proc/cmdline").endswith('ro a=1 quiet "b=x y" c')
    sim.host.write("/etc/default/grub", "GRUB_CMDLINE_LINUX='open\n")
    sim.no("update-grub", "unterminated")


PROGRAM = """
import sys
from ansible_collections.nearmetal.rack.plugins.module_utils import host
here = host.tree("/")
assert here.live
here.poke("@ATTRIBUTE@", "3")
here.write("/etc/nearmetal/said", " ".join(sys.argv[1:]))
try:
    here.read("/no/such")
except host.Missing:
    print("missing is ours")
try:
    open(sys.argv[2], "w")
except OSError as err:
    print("kept away:", err.strerror)
sys.exit(int(sys.argv[1] == "late"))
""".replace("@ATTRIBUTE@", f"{DEVICES}/{PF0}/sriov_numvfs")


def zipapp() -> bytes:
    """A program with the collection's own code in it, as it lies on a host."""
    data = io.BytesIO()
    package = "ansible_collections/nearmetal/rack/plugins/module_utils"
    with zipfile.ZipFile(data, "w") as archive:
        parts = package.split("/")
        for depth in range(1, len(parts) + 1):
            archive.writestr("/".join(parts[:depth]) + "/__init__.py", "")
        archive.write(host.__file__, f"{package}/host.py")
        archive.writestr("__main__.py", PROGRAM)
    return b"#!/usr/bin/env python3\n" + data.getvalue()


PYZ = "/usr/local/lib/nearmetal/fabric.pyz"
UNIT = lines(
    "[Unit]", "Before=network-pre.target", "Wants=network-pre.target", "[Service]", "Type=oneshot", "RemainAfterExit=yes",
    "ExecStart=/usr/bin/python3 {} {} {}", "[Install]", "WantedBy=multi-user.target",
)  # fmt: skip


@pytest.mark.parametrize(("word", "state"), [("early", "active"), ("late", "failed")])
def test_a_program_runs_at_boot(sim: Sim, tmp_path: Path, word: str, state: str) -> None:
    outside = tmp_path / "outside"
    name = "nearmetal-fabric-early.service"
    sim.host.write(PYZ, zipapp().decode("utf-8", "surrogateescape"), mode=0o755)
    sim.host.write(f"/etc/systemd/system/{name}", UNIT.format(PYZ, word, outside))
    sim.ok("systemctl daemon-reload", f"systemctl enable {name}")
    assert sim.run(f"systemctl is-enabled {name}").stdout == "enabled\n"
    sim.restart()
    assert sim.run(f"systemctl is-active {name}").stdout == f"{state}\n"
    assert sim.pf(PF0)["sriov_vfs"] == 3
    assert sim.read("/etc/nearmetal/said") == f"{word} {outside}"
    words = sim.show()["units"][name].get("words", "")
    if state == "failed":
        assert "missing is ours" in words
        assert not outside.exists() or os.geteuid() != 0, (
            "a program of a simulated host wrote on this machine"
        )


def test_a_guard_runs_out(sim: Sim) -> None:
    sim.host.write(PYZ, zipapp().decode("utf-8", "surrogateescape"))
    command = f"systemd-run --unit=nearmetal-guard --on-active=60 --timer-property=AccuracySec=1s /usr/bin/python3 {PYZ} restore /x"
    sim.ok(command)
    sim.no(command, "already loaded")
    assert sim.run("systemctl is-active nearmetal-guard.timer").stdout == "active\n"
    sim.advance(50)
    assert sim.pf(PF0)["sriov_vfs"] == 0
    sim.advance(20)
    assert sim.pf(PF0)["sriov_vfs"] == 3
    assert sim.run("systemctl is-active nearmetal-guard.timer").stdout == "inactive\n"
    sim.ok(command, "systemctl stop nearmetal-guard.timer")
    sim.vfs(PF0, 0)
    sim.advance(100)
    assert sim.pf(PF0)["sriov_vfs"] == 0


def test_sandbox(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    sandbox.prepare()
    pid = os.fork()
    if not pid:
        if not sandbox.enter(str(inside)):
            os._exit(77)
        try:
            (inside / "x").write_text("1")
            outside.write_text("1")
        except OSError:
            os._exit(0)
        os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == (77 if not outside.exists() and not (inside / "x").exists() else 0)
    assert code == 77 or (inside / "x").exists()


NM = "/etc/NetworkManager/system-connections"
PORT = ("type=ethernet", "controller=bond0", "port-type=bond", "[ethernet]")
CONFIG = {
    "networkd": {
        "/etc/systemd/network/20-bond0.netdev": lines(
            "[NetDev]",
            "Name=bond0",
            "Kind=bond",
            "[Bond]",
            "Mode=802.3ad",
            "MIIMonitorSec=100ms",
            "LACPTransmitRate=fast",
        ),
        "/etc/systemd/network/21-bond0.network": lines(
            "[Match]", "Name=bond0", "[Network]", "Address=192.168.7.1/24", "[Link]", "MTUBytes=9000"
        ),
        "/etc/systemd/network/20-ports.network": lines(
            "[Match]", "PermanentMACAddress={0} {1}", "[Network]", "Bond=bond0"
        ),
    },
    "NetworkManager": {
        f"{NM}/bond0.nmconnection": lines(
            "[connection]",
            "id=bond0",
            "type=bond",
            "interface-name=bond0",
            "autoconnect-ports=1",
            "[bond]",
            "mode=802.3ad",
            "miimon=100",
            "lacp_rate=fast",
            "[ethernet]",
            "mtu=9000",
            "[ipv4]",
            "method=manual",
            "address1=192.168.7.1/24",
        ),  # fmt: skip
        f"{NM}/p0.nmconnection": lines("[connection]", "id=p0", *PORT, "mac-address={0}"),
        f"{NM}/p1.nmconnection": lines("[connection]", "id=p1", *PORT, "mac-address={1}"),
    },
    "ifupdown": {
        "/etc/network/interfaces.d/bond0": lines(
            "auto bond0",
            "iface bond0 inet static",
            "    address 192.168.7.1/24",
            "    mtu 9000",
            "    bond-mode 802.3ad",
            "    bond-miimon 100",
            "    bond-lacp-rate fast",
            "    bond-slaves ens3f0 ens3f1",
        ),  # fmt: skip
    },
    "netplan": {
        "/etc/netplan/60-bond0.yaml": lines(
            "network:",
            "  version: 2",
            "  ethernets:",
            "    p0:",
            "      match: {{macaddress: '{0}'}}",
            "    p1:",
            "      match: {{macaddress: '{1}'}}",
            "  bonds:",
            "    bond0:",
            "      interfaces: [p0, p1]",
            "      mtu: 9000",
            "      addresses: [192.168.7.1/24]",
            "      parameters: {{mode: 802.3ad, mii-monitor-interval: 100, lacp-rate: fast}}",
        ),  # fmt: skip
    },
}
BRING_UP = {
    "networkd": ["networkctl reload"],
    "NetworkManager": ["nmcli connection reload", "nmcli connection up bond0"],
    "ifupdown": ["ifup bond0"],
    "netplan": ["netplan apply"],
}


@pytest.mark.parametrize("owner", list(CONFIG))
@pytest.mark.parametrize("how", ["running", "booted"])
def test_owners_make_bonds(tmp_path: Path, owner: str, how: str) -> None:
    sim = Sim(tmp_path, owner=owner)
    assert sim.show()["reachable"]
    macs = [sim.pf(pf)["mac"] for pf in (PF0, PF1)]
    for path, text in CONFIG[owner].items():
        sim.host.write(path, text.format(*macs))
    if how == "running":
        sim.ok(*BRING_UP[owner])
    else:
        sim.restart()
    (bond,) = sim.show()["bonds"]
    assert [bond["mode"], bond["slaves"], bond["mtu"], bond["lacp_rate"], bond["miimon"]] == [
        "802.3ad",
        [NET0, NET1],
        9000,
        "fast",
        100,
    ]
    assert bond["addresses"] == ["192.168.7.1/24"]
    assert bond["by"] == owner
    assert [sim.pf(PF0)["mtu"], sim.show()["lag"]["type"]] == [9000, "roce"]
    assert sim.show()["reachable"]


def test_management_on_the_fabric_can_be_lost(tmp_path: Path) -> None:
    sim = Sim(tmp_path, management="pf")
    assert sim.show()["management"]["device"] == NET0
    sim.ok(
        f"ip link set {NET0} down",
        "ip link add bond0 type bond mode active-backup miimon 100",
        f"ip link set {NET0} master bond0",
    )
    with pytest.raises(remote.Lost, match="is a member of bond0"):
        remote.execute(collector, sim.machine, "true", None)


@pytest.mark.parametrize("owner", list(CONFIG))
def test_the_default_route_goes_with_its_device(tmp_path: Path, owner: str) -> None:
    sim = Sim(tmp_path, owner=owner)
    (line,) = [line for line in sim.run("ip -4 route show").stdout.splitlines() if line.startswith("default")]
    assert [f["management"] for f in [observe(sim.host)["fabric"]]] == [["eno1"]]
    sim.ok("ip link set eno1 down", "ip link set eno1 up")
    assert sim.show()["reachable"] is (owner != "ifupdown")
    sim.ok(f"ip -4 route replace {line}")
    assert sim.show()["reachable"]


def test_udev_rules_at_boot(sim: Sim) -> None:
    gpu, port = "0000:18:00.0", "0000:16:01.0"
    rules = lines(
        f'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="{gpu}", ATTR{{driver_override}}="vfio-pci", RUN{{builtin}}+="kmod load vfio-pci"',
        f'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="{port}", RUN+="/bin/sh -c \'exec setpci -s {port} ECAP_ACS+6.w=0000:0007\'"',
    )
    sim.host.write("/etc/udev/rules.d/10-x.rules", rules)
    sim.host.write("/etc/modprobe.d/x.conf", "blacklist nouveau\ninstall nouveau /bin/false\n")
    text = sim.host.read("/etc/default/grub").replace('"quiet"', '"quiet intel_iommu=on iommu=pt"')
    sim.host.write("/etc/default/grub", text)
    sim.ok("update-grub", "update-initramfs -u -k all")
    sim.restart()
    assert sim.host.readlink(f"{DEVICES}/{gpu}/driver").endswith("/vfio-pci")
    assert sim.run(f"setpci -s {port} ECAP_ACS+6.w").stdout == "0018\n"
    assert not sim.host.exists(f"{DEVICES}/0000:19:00.0/driver")


def test_auxiliary_ports(tmp_path: Path) -> None:
    sim = Sim(tmp_path, devlink="auxiliary")
    assert sorted(sim.json("devlink -j port show")["port"])[:2] == [
        "auxiliary/mlx5_core.eth.0/65535",
        "auxiliary/mlx5_core.eth.1/65535",
    ]
    assert sim.json(f"devlink -j dev eswitch show pci/{PF0}")["dev"][f"pci/{PF0}"]["mode"] == "legacy"


def test_forwarding(sim: Sim) -> None:
    sim.vf_lag()
    name = sim.vf(PF0, 0)["representor"]
    sim.ok(
        "ip link add name br0 type bridge vlan_filtering 1",
        f"ip link set {name} master br0",
        "ip link set bond0 master br0",
    )
    sim.ok(f"bridge vlan add dev {name} vid 7 pvid untagged master")
    (entry,) = [e for e in sim.json("bridge -j vlan show") if e["ifname"] == name]
    assert entry["vlans"] == [
        {"vlan": 1, "flags": ["Egress Untagged"]},
        {"vlan": 7, "flags": ["PVID", "Egress Untagged"]},
    ]
    sim.ok(f"bridge vlan del dev {name} vid 1")
    sim.no(f"bridge vlan add dev {NET0} vid 7", "Operation not supported")
    sim.ok(
        "ovs-vsctl --may-exist add-br b",
        f"ovs-vsctl --may-exist add-port b {sim.vf(PF1, 1)['representor']} tag=7",
    )
    table = sim.json("ovs-vsctl --format=json --columns=name,tag,_uuid list Port")
    assert {row[1]: row[2] for row in table["data"]} == {"b": ["set", []], sim.vf(PF1, 1)["representor"]: 7}


def test_unknown_words_are_never_taken_for_done(sim: Sim) -> None:
    for command in (
        "ip rule show",
        "tc qdisc show",
        "devlink dev reload pci/x",
        "systemctl mask x",
        "ethtool -i eth0",
        "lspci",
    ):
        said = sim.run(command)
        assert said.rc == 127
        assert "not simulated" in said.stderr


def test_two_programs_on_one_host(sim: Sim) -> None:
    other = Machine(Store(sim.machine.store.top), "h")
    sim.vfs(PF0, 2)
    with other.session() as state:
        assert len(state["pfs"][PF0]["vfs"]) == 2
        state["pfs"][PF1]["autoprobe"] = False
    assert sim.read(f"{DEVICES}/{PF1}/sriov_drivers_autoprobe") == "0"
    with pytest.raises(SimError), Machine(sim.machine.store, "nobody").session():
        pass


def test_two_hosts_differ(tmp_path: Path) -> None:
    first, second = Sim(tmp_path, "a"), Sim(tmp_path, "b")
    for key in ("serial", "mac"):
        assert first.pf(PF0)[key] != second.pf(PF0)[key]
    assert first.read("/etc/machine-id") != second.read("/etc/machine-id")
    assert first.show()["boot_id"] != second.show()["boot_id"]
