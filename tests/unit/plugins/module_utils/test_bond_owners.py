"""Who owns a bond, what the owners' files say, and what ours say: expectations written by hand from their manuals."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric.shapes import DesiredBond, Forwarding
from ansible_collections.nearmetal.rack.plugins.module_utils.fabric_boot import (
    bondview,
    own_ifupdown,
    own_netplan,
    own_networkd,
    own_nm,
    owners,
    persist,
)
from ansible_collections.nearmetal.rack.plugins.module_utils.host import SnapshotHost
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.managers import observe_managers
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.reader import Reader

PF0, PF1 = "0000:08:00.0", "0000:08:00.1"
MAC0, MAC1 = "b8:ce:f6:00:00:01", "b8:ce:f6:00:00:02"
NETWORKD, NM, NETPLAN = "networkd", "NetworkManager", "netplan"
UNITS = {"networkd": own_networkd.UNIT, "NetworkManager": own_nm.UNIT, "ifupdown": own_ifupdown.UNIT}


def bond(**more: Any) -> DesiredBond:
    """bond0 of the two PFs; LACP by default."""
    given = {"mode": "802.3ad", "lacp_rate": "fast", "xmit_hash_policy": "layer3+4", "mtu": 9000, **more}
    return DesiredBond("bond0", (PF0, PF1), **given)


def fabric(files: dict[str, str], *running: str, commands: bool = True) -> Any:
    """The fabric section as far as owners are concerned. running: active managers."""
    said = {f"systemctl is-active {unit}": (0, "active\n", "") if owner in running else (3, "inactive\n", "")
            for owner, unit in UNITS.items()}  # fmt: skip
    host = SnapshotHost(dict(files), live=True, commands=said if commands else {})
    pfs = [
        {"address": PF0, "netdev": "ens3f0np0", "mac": MAC0}, {"address": PF1, "netdev": "ens3f1np1", "mac": MAC1},
    ]  # fmt: skip
    return {"pfs": pfs, "units": {}, "managers": observe_managers(Reader(host))}


def choose(files: dict[str, str], *running: str, **more: Any) -> owners.Choice:
    return owners.choose(bond(**more), fabric(files, *running))


def view(**more: Any) -> bondview.View:
    return bondview.view(bond(**more), fabric({}))


# --- what we write

NETWORKD_NETDEV = """# Written by nearmetal: changes are lost
[NetDev]
Name=bond0
Kind=bond
MTUBytes=9000

[Bond]
Mode=802.3ad
MIIMonitorSec=100ms
LACPTransmitRate=fast
TransmitHashPolicy=layer3+4
"""
NETWORKD_PORT = """# Written by nearmetal: changes are lost
[Match]
PermanentMACAddress=b8:ce:f6:00:00:01

[Network]
Bond=bond0
LinkLocalAddressing=no
"""
NETWORKD_NETWORK = """# Written by nearmetal: changes are lost
[Match]
Name=bond0

[Link]
MTUBytes=9000

[Network]
Address=192.0.2.4/24
Address=2001:db8::4/64
"""


def test_networkd() -> None:
    made = own_networkd.render(view(addresses=("192.0.2.4/24", "2001:db8::4/64")))
    folder = "/etc/systemd/network/05-nearmetal-bond0"
    ports = [f"{folder}-{port}.network" for port in ("0000-08-00.0", "0000-08-00.1")]
    assert sorted(made) == [*ports, f"{folder}.netdev", f"{folder}.network"]
    assert made[f"{folder}.netdev"] == (NETWORKD_NETDEV, 0o644)
    assert made[f"{folder}.network"][0] == NETWORKD_NETWORK
    assert made[f"{folder}-0000-08-00.0.network"][0] == NETWORKD_PORT


def test_networkd_with_forwarders() -> None:
    bridged = own_networkd.render(view(forwarding=Forwarding("bridge", "br0", addresses=("192.0.2.4/24",))))
    assert "Bridge=br0\n" in bridged["/etc/systemd/network/05-nearmetal-bond0.network"][0]
    assert "VLANFiltering=yes\n" in bridged["/etc/systemd/network/05-nearmetal-br0.netdev"][0]
    assert "Address=192.0.2.4/24\n" in bridged["/etc/systemd/network/05-nearmetal-br0.network"][0]
    joined = own_networkd.render(view(forwarding=Forwarding("ovs", "br0")))
    assert "KeepMaster=yes\n" in joined["/etc/systemd/network/05-nearmetal-bond0.network"][0]
    assert not any("br0" in path for path in joined)


NM_BOND = """# Written by nearmetal: changes are lost
[connection]
id=nearmetal-bond0
uuid={uuid}
type=bond
autoconnect-priority=100
interface-name=bond0
autoconnect-slaves=1

[bond]
mode=802.3ad
miimon=100
lacp_rate=fast
xmit_hash_policy=layer3+4

[ethernet]
mtu=9000

[ipv4]
method=manual
address1=192.0.2.4/24

[ipv6]
method=link-local
"""
NM_PORT = """# Written by nearmetal: changes are lost
[connection]
id=nearmetal-bond0-0000-08-00.1
uuid={uuid}
type=ethernet
autoconnect-priority=100
master={bond}
slave-type=bond

[ethernet]
mac-address=B8:CE:F6:00:00:02
mtu=9000
"""


def test_network_manager() -> None:
    made = own_nm.render(view(addresses=("192.0.2.4/24",)))
    folder = "/etc/NetworkManager/system-connections/nearmetal-bond0"
    text, mode = made[f"{folder}.nmconnection"]
    uuid = text.split("uuid=")[1].split("\n")[0]
    assert text == NM_BOND.format(uuid=uuid)
    assert mode == 0o600  # NetworkManager refuses a profile that others may read
    port = made[f"{folder}-0000-08-00.1.nmconnection"][0]
    other = port.split("uuid=")[1].split("\n")[0]
    assert other != uuid and port == NM_PORT.format(uuid=other, bond=uuid)
    assert made == own_nm.render(view(addresses=("192.0.2.4/24",)))


IFUPDOWN = """# Written by nearmetal: changes are lost
auto bond0
iface bond0 inet static
    address 192.0.2.4/24
    bond-slaves none
    bond-mode 802.3ad
    bond-miimon 100
    bond-lacp-rate fast
    bond-xmit-hash-policy layer3+4
    post-up /usr/bin/python3 /usr/local/lib/nearmetal/fabric.pyz enslave bond0
    post-up ip link set dev bond0 mtu 9000

iface bond0 inet6 static
    address 2001:db8::4/64
"""


def test_ifupdown() -> None:
    made = own_ifupdown.render(view(addresses=("192.0.2.4/24", "2001:db8::4/64")))
    assert made == {"/etc/network/interfaces.d/nearmetal-bond0": (IFUPDOWN, 0o644)}
    bare = own_ifupdown.render(view(mode="active-backup"))["/etc/network/interfaces.d/nearmetal-bond0"][0]
    assert "iface bond0 inet manual\n" in bare and "lacp" not in bare and "xmit" not in bare


NETPLAN_FILE = """# Written by nearmetal: changes are lost
network:
  version: 2
  ethernets:
    nearmetal-0000-08-00.0:
      match:
        macaddress: "b8:ce:f6:00:00:01"
      mtu: 9000
      dhcp4: false
      dhcp6: false
      link-local: []
    nearmetal-0000-08-00.1:
      match:
        macaddress: "b8:ce:f6:00:00:02"
      mtu: 9000
      dhcp4: false
      dhcp6: false
      link-local: []
  bonds:
    bond0:
      interfaces: [nearmetal-0000-08-00.0, nearmetal-0000-08-00.1]
      mtu: 9000
      parameters:
        mode: 802.3ad
        mii-monitor-interval: 100
        lacp-rate: fast
        transmit-hash-policy: layer3+4
      addresses:
        - "192.0.2.4/24"
"""


def test_netplan() -> None:
    assert own_netplan.render(view(addresses=("192.0.2.4/24",))) == {"/etc/netplan/90-nearmetal-bond0.yaml": (NETPLAN_FILE, 0o600)}
    assert own_netplan.load("networkd") == [["netplan", "generate"], ["networkctl", "reload"]]
    assert own_netplan.load("NetworkManager") == [["netplan", "generate"], ["nmcli", "connection", "reload"]]


@pytest.mark.parametrize("mode", ["active-backup", "balance-xor", "802.3ad"])
def test_every_owner_reads_back_what_we_write(mode: str) -> None:
    """Our files, read by the same readers as those of others, are the bond that was wanted, ports and all."""
    wanted = bond(mode=mode, addresses=("192.0.2.4/24",))
    here = fabric({})
    seen = bondview.view(wanted, here)
    read = {
        NETWORKD: own_networkd.claims, NM: own_nm.claims, "ifupdown": own_ifupdown.claims,
        NETPLAN: lambda files: own_netplan.read(files).claims,
    }  # fmt: skip
    for owner, reader in read.items():
        claims = reader({path: text for path, (text, _mode) in owners.render(owner, seen).items()})
        (made,) = [c for c in claims if c["kind"] == "bond"]
        assert made["device"] == "bond0"
        assert bondview.same_options({k: v for k, v in made["options"].items() if k != "mtu"}, wanted) == [], owner
        if owner != "ifupdown":  # its ports are added by the boot program
            ports = [c for c in claims if c["master"] == "bond0"]
            assert [bondview.strength(c, here["pfs"][0]) for c in ports] == ["exact", ""], owner
            renamed = {**here["pfs"][0], "netdev": "eth7"}
            assert bondview.strength(ports[0], renamed) == "exact"


# --- who owns

NETPLAN_YAML = "network:\n  version: 2\n  renderer: networkd\n  ethernets:\n    eno1: {dhcp4: true}\n"
NETPLAN_NM = NETPLAN_YAML.replace("networkd", "NetworkManager")


@pytest.mark.parametrize(
    "files, running, owner",
    [
        ({}, [NETWORKD], NETWORKD),
        ({}, [NM], NM),
        ({"/etc/network/interfaces": "source /etc/network/interfaces.d/*\n"}, ["ifupdown"], "ifupdown"),
        ({"/etc/netplan/50-cloud-init.yaml": NETPLAN_YAML}, [NETWORKD], NETPLAN),
        ({"/etc/netplan/01.yaml": NETPLAN_NM}, [NM], NETPLAN),
        ({"/etc/netplan/01.yaml": NETPLAN_NM}, [NETWORKD], NETWORKD),  # its renderer does not run: nobody reads the file
        ({}, [NETWORKD, "ifupdown"], NETWORKD),
        ({"/etc/systemd/network/10-eno1.network": "[Match]\nName=eno1\n"}, [NETWORKD, NM], NETWORKD),
        ({}, [], ""),
    ],
)
def test_auto(files: dict[str, str], running: list[str], owner: str) -> None:
    choice = choose(files, *running)
    assert (choice.owner, choice.problems) == (owner, [])
    assert bool(choice.files) == bool(owner) and choice.why


def test_two_managers_without_files_have_to_be_told_apart() -> None:
    (problem,) = choose({}, NETWORKD, NM).problems
    assert "who shall make the bond" in problem.message and "set owner of bond0" in problem.fix
    assert choose({}, NETWORKD, NM, owner=NM).problems == []


def test_the_named_owner_must_run() -> None:
    (problem,) = choose({}, NETWORKD, owner=NM).problems
    assert "NetworkManager.service is inactive" in problem.message
    (problem,) = choose({}, NETWORKD, owner=NETPLAN).problems
    assert "no file in /etc/netplan" in problem.message


def test_external_is_left_alone() -> None:
    choice = choose({"/etc/systemd/network/20.netdev": "[NetDev]\nName=bond0\nKind=bond\n"}, NETWORKD, owner="external")
    assert (choice.owner, choice.files, choice.problems) == ("external", {}, [])
    assert choice.foreign == "/etc/systemd/network/20.netdev:2"


FOREIGN = {
    NETWORKD: {
        "/etc/systemd/network/20-bond0.netdev": "[NetDev]\nName=bond0\nKind=bond\nMTUBytes=9000\n[Bond]\nMode=802.3ad\n"
        "MIIMonitorSec=0.1\nLACPTransmitRate=fast\nTransmitHashPolicy=layer3+4\n",
        "/etc/systemd/network/20-a.network": "[Match]\nPath=pci-0000:08:00.0\n[Network]\nBond=bond0\n",
        "/etc/systemd/network/20-b.network": f"[Match]\nMACAddress={MAC1.upper()}\n[Network]\nBond=bond0\n",
    },
    NM: {
        "/etc/NetworkManager/system-connections/b": "[connection]\nid=b\nuuid=u-1\ntype=bond\ninterface-name=bond0\n[bond]\nmode=4\n"
        "lacp_rate=fast\nxmit_hash_policy=layer3+4\n",
        "/etc/NetworkManager/system-connections/p0": "[connection]\ntype=ethernet\nmaster=u-1\ninterface-name=ens3f0np0\n",
        "/etc/sysconfig/network-scripts/ifcfg-p1": f"TYPE=Ethernet\nHWADDR={MAC1.upper()}\nMASTER=bond0\nSLAVE=yes\n",
    },
    "ifupdown": {
        "/etc/network/interfaces": "auto lo\niface lo inet loopback\nauto bond0\niface bond0 inet manual\n"
        "  bond-slaves ens3f0np0 ens3f1np1\n"
        "  bond_mode 802.3ad\n  bond-lacp-rate 1\n  bond-xmit-hash-policy layer3+4\n",
    },
    NETPLAN: {
        "/etc/netplan/50-a.yaml": "network:\n  ethernets:\n    a:\n      match: {macaddress: '" + MAC0 + "'}\n"
        "    ens3f1np1: {}\n  bonds:\n    bond0:\n      interfaces: [a, ens3f1np1]\n      parameters:\n"
        "        mode: 802.3ad\n        lacp-rate: fast\n        transmit-hash-policy: layer3+4\n",
    },
}  # fmt: skip


@pytest.mark.parametrize("owner", FOREIGN)
def test_what_somebody_configured_as_wanted_stays_his(owner: str) -> None:
    choice = choose(FOREIGN[owner], NETWORKD if owner == NETPLAN else owner)
    assert (choice.owner, choice.files, choice.problems) == (owner, {}, [])
    assert choice.foreign.rpartition(":")[0] in FOREIGN[owner]


@pytest.mark.parametrize("owner", FOREIGN)
def test_what_somebody_configured_otherwise_is_refused(owner: str) -> None:
    choice = choose(FOREIGN[owner], NETWORKD if owner == NETPLAN else owner, mode="active-backup")
    assert choice.files == {}
    (problem,) = choice.problems
    assert "mode 802.3ad, not active-backup" in problem.message and problem.kind == "host"
    assert next(iter(FOREIGN[owner])) in problem.message and owner in problem.message and "owner: external" in problem.fix


@pytest.mark.parametrize(
    "file, text, running, said",
    [
        ("/etc/systemd/network/10-lan.network", "[Match]\nName=ens3f0np0\n[Network]\nDHCP=yes\n", NETWORKD, "by itself (DHCP)"),
        ("/etc/systemd/network/01-all.network", "[Match]\nName=ens*\n[Network]\nDHCP=yes\n", NETWORKD, "by itself (DHCP)"),
        ("/etc/systemd/network/10-lan.network", "[Match]\nPath=pci-0000:08:00.0\n[Network]\nBond=bond9\n", NETWORKD, "into bond9"),
        ("/etc/NetworkManager/system-connections/x",
         f"[connection]\ntype=ethernet\n[ethernet]\nmac-address={MAC0}\n[ipv4]\nmethod=auto\n", NM, "by itself (DHCP)"),
        ("/etc/sysconfig/network-scripts/ifcfg-x", "DEVICE=ens3f0np0\nIPADDR=192.0.2.7\nPREFIX=24\n", NM, "(192.0.2.7/24)"),
        ("/etc/network/interfaces", "auto ens3f0np0\niface ens3f0np0 inet dhcp\nsource /etc/network/interfaces.d/*\n", "ifupdown",
         "by itself (DHCP)"),
    ],
)  # fmt: skip
def test_ports_that_somebody_else_has(file: str, text: str, running: str, said: str) -> None:
    problem = choose({file: text}, running).problems[0]
    assert said in problem.message and file in problem.message and PF0 in problem.message


@pytest.mark.parametrize(
    "file, text, running",
    [
        ("/etc/systemd/network/80-all.network", "[Match]\nName=ens*\n[Network]\nDHCP=yes\n", NETWORKD),  # ours sort before it
        ("/etc/systemd/network/10-x.network", "[Match]\nName=eno1\n[Network]\nDHCP=yes\n", NETWORKD),
        ("/etc/systemd/network/10-x.network", "[Match]\nName=ens3f0np0\n[Network]\nDHCP=yes\n", NM),  # nobody reads it
        ("/etc/NetworkManager/system-connections/any", "[connection]\ntype=ethernet\n[ipv4]\nmethod=auto\n", NM),
        ("/etc/NetworkManager/system-connections/off",
         "[connection]\ntype=ethernet\ninterface-name=ens3f0np0\nautoconnect=false\n[ipv4]\nmethod=auto\n", NM),
    ],
)  # fmt: skip
def test_what_does_not_concern_the_ports(file: str, text: str, running: str) -> None:
    choice = choose({file: text}, running)
    assert choice.problems == [] and choice.owner == running


def test_a_file_that_is_not_understood_is_not_guessed_at() -> None:
    files = {"/etc/netplan/50.yaml": "network:\n  ethernets: &all\n    a: {}\n"}
    assert "not known what it says" in choose(files, NETWORKD, owner=NETPLAN).problems[0].message


def test_ifupdown_must_read_our_file() -> None:
    (problem,) = choose({"/etc/network/interfaces": "auto lo\n"}, "ifupdown").problems
    assert "would never read" in problem.message and "source /etc/network/interfaces.d/*" in problem.fix


def test_a_pf_without_a_mac_is_refused() -> None:
    here = fabric({}, NETWORKD)
    here["pfs"][1].update(mac="", netdev="")
    (problem,) = owners.choose(bond(), here).problems
    assert problem.value == PF1 and "no MAC" in problem.message


def test_an_absent_bond_that_comes_back() -> None:
    here = fabric(FOREIGN["ifupdown"], "ifupdown")
    (problem,) = owners.choose(bond(absent=True), here).problems
    assert "makes it again at the next boot" in problem.message
    assert persist.wanted("vf_lag", persist.Desired((), (bond(absent=True),)), fabric({}, NETWORKD)).changes == {}


def test_nothing_is_asked_of_a_tree() -> None:
    assert set(fabric({}, commands=False)["managers"]["units"].values()) == {""}
