"""Documents of `document["fabric"]` and the PCI functions that belong to them: made-up cards, bonds and faults.

Every builder takes any key of its document as a keyword, so that a test says only what matters to it.
"""

from __future__ import annotations

import copy
from typing import Any

import report_fixtures as made
from ansible_collections.nearmetal.rack.plugins.module_utils import cpulist

FABRIC_UNITS = {"nearmetal-fabric-early.service": "active", "nearmetal-fabric-late.service": "active"}


def vf(pf: str, index: int, offset: int = 2, **more: Any) -> dict[str, Any]:
    """VF `index` of the PF at `pf`; `offset`: first VF offset of the SR-IOV capability (stride 1)."""
    head, _, device = pf.rpartition(":")
    routing = int(device[:2], 16) * 8 + int(device[3:]) + offset + index
    base = {
        "index": index, "address": f"{head}:{routing // 8:02x}.{routing % 8}", "driver": "vfio-pci",
        "driver_override": "", "netdev": "", "netdev_mac": "", "mac": f"02:00:00:{device[3:]:0>2}:00:{index:02x}", "vlan": 0, "qos": 0,
        "proto": "802.1Q", "trust": False, "spoofchk": False, "link_state": "auto", "min_tx_rate": 0, "max_tx_rate": 0,
        "node_guid": "", "port_guid": "", "mtu": None, "in_use": "", "representor": "", "representor_mtu": None,
        "representor_up": None, "representor_master": "", "representor_vlan": None,
    }  # fmt: skip
    return {**base, **more}


def pf(address: str, netdev: str, vfs: int = 0, **more: Any) -> dict[str, Any]:
    """A port of an mlx5 card in legacy mode, link up."""
    port = int(address[-1])
    base = {
        "address": address, "driver": "mlx5_core", "netdev": netdev, "port_name": f"p{port}",
        "mac": f"02:00:00:00:00:0{port}", "serial": f"MT-{address[5:7]}", "card": address[:-2], "numa_node": 0,
        "sriov_total": 16, "sriov_vfs": vfs, "sriov_capable": True, "addresses": [],
        "autoprobe": False, "mtu": 9000, "up": True, "carrier": True, "bond": "",
        "master": "",
        "eswitch": {"mode": "legacy", "steering": "dmfs", "multiport": False, "inline": "none", "encap": "basic"},
        "devlink": f"pci/{address}", "switch_id": "", "hw_tc_offload": True, "lag": None,
        "vfs": [vf(address, index, 2 + 15 * port) for index in range(vfs)],
    }  # fmt: skip
    return {**base, **more}


def bond(name: str, slaves: list[str], **more: Any) -> dict[str, Any]:
    """A bond with carrier."""
    base = {
        "name": name, "mode": "802.3ad", "slaves": slaves, "active_slave": "", "miimon": 100, "lacp_rate": "fast",
        "xmit_hash_policy": "layer3+4", "mii_status": "up", "mtu": 9000, "up": True, "mac": "02:00:00:00:00:00", "addresses": [],
        "partner_mac": "02:aa:00:00:00:01", "owner": "networkd", "owner_files": [], "master": "",
    }  # fmt: skip
    return {**base, **more}


def fabric(
    pfs: list[dict[str, Any]], bonds: list[dict[str, Any]] | None = None, **more: Any
) -> dict[str, Any]:
    """The whole section; nothing of it unread."""
    base = {
        "pfs": pfs, "bonds": bonds or [], "bridges": [], "ovs": None, "management": [], "other_owners": {},
        "units": dict(FABRIC_UNITS), "guard": {"armed": False, "deadline": "", "left": ""},
        "managers": {"units": {}, "renderer": "", "sourced": False, "claims": [], "unreadable": [], "own": {}},
    }  # fmt: skip
    return {**base, **more}


def firmware(error: str = "", **values: tuple[str, str]) -> dict[str, Any]:
    """What the firmware tool said of one function: name=(current, next)."""
    told = {name: {"default": now, "current": now, "next": then} for name, (now, then) in values.items()}
    return {"tool": "mstconfig", "values": told, "error": error}


def lag_card(
    bus: str = "17", vfs: int = 16, number: int = 0, bridge: str = "br0", node: int = 0
) -> tuple[list[Any], Any]:
    """A healthy card under a bond: (its two PFs, the bond); half of the VFs for guests, half for the host."""
    card = f"0000:{bus}:00"
    addresses = [f"{card}.0", f"{card}.1"]
    pfs = []
    for port, address in enumerate(addresses):
        netdev = f"ens{number}f{port}np{port}"
        one = pf(address, netdev, vfs, numa_node=node, bond=f"bond{number}", master=f"bond{number}", switch_id=f"c0ffee{bus}",
                 lag={"state": "active", "type": "switchdev", "members": addresses})  # fmt: skip
        one["eswitch"].update(mode="switchdev", steering="smfs")
        for function in one["vfs"]:
            index = function["index"]
            function.update(
                representor=f"{netdev[:-3]}pf{port}vf{index}",
                representor_mtu=9000,
                representor_up=True,
                representor_master=bridge,
                representor_vlan=100 + 100 * (index >= vfs // 2),
            )
            if index < vfs // 2:
                function["in_use"] = "vfio group opened"
            else:
                function.update(driver="mlx5_core", netdev=f"ens{number}f{port}v{index}", mtu=9000)
        pfs.append(one)
    return pfs, bond(f"bond{number}", [one["netdev"] for one in pfs], master=bridge)


def linux_bridge(name: str, fabric_pfs: list[dict[str, Any]], uplinks: list[str]) -> dict[str, Any]:
    """A VLAN-aware bridge over the uplinks and every representor of the PFs."""
    reps = [function["representor"] for one in fabric_pfs for function in one["vfs"]]
    ports = [{"name": port, "pvid": None, "vids": [100, 200]} for port in [*uplinks, *reps]]
    return {"name": name, "vlan_filtering": True, "ports": ports, "addresses": [], "up": True}


def healthy(vfs: int = 16) -> dict[str, Any]:
    """One card of two ports, 2 x `vfs` VFs, VF LAG active, everything forwarded by a bridge: no finding."""
    pfs, one = lag_card(vfs=vfs)
    return fabric(pfs, [one], bridges=[linux_bridge("br0", pfs, ["bond0"])])


def changed(document: dict[str, Any], *path: Any, value: Any) -> dict[str, Any]:
    """A copy of the document with another value at `path`."""
    out = copy.deepcopy(document)
    at = out
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return out


def each_vf(document: dict[str, Any], **values: Any) -> dict[str, Any]:
    """A copy with these values in every VF."""
    out = copy.deepcopy(document)
    for one in out["pfs"]:
        for function in one["vfs"]:
            function.update(values)
    return out


def each_pf(document: dict[str, Any], **values: Any) -> dict[str, Any]:
    """A copy with these values in every PF."""
    out = copy.deepcopy(document)
    for one in out["pfs"]:
        one.update(copy.deepcopy(values))
    return out


def ovs(document: dict[str, Any], hw_offload: bool = True) -> dict[str, Any]:
    """The same document with Open vSwitch in the place of the Linux bridges."""
    out = copy.deepcopy(document)
    bridges = [
        {
            "name": one["name"],
            "ports": [{"name": port["name"], "tag": None} for port in one["ports"]],
            "addresses": [],
            "up": True,
        }
        for one in out["bridges"]
    ]
    out.update(bridges=[], ovs={"hw_offload": hw_offload, "bridges": bridges})
    for one in out["bonds"]:
        one["master"] = "ovs-system"
    for one in out["pfs"]:
        for function in one["vfs"]:
            function["representor_master"] = "ovs-system"
    return out


def switches(gpus: list[tuple[str, int]], nics: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """PCI functions: GPU and NIC number i below one PCIe switch each, its ports included. (address, node) of each."""
    found = []
    for at in range(max(len(gpus), len(nics))):
        node = (gpus + nics)[at][1] if at < len(gpus) else nics[at][1]
        root, up = f"00{at + 1:02x}:00:01.0", f"00{at + 1:02x}:01:00.0"
        ports = [made.function(root, "0x060400", node, driver="pcieport"),
                 made.function(up, "0x060400", node, driver="pcieport", parent=root)]  # fmt: skip
        for number, group in enumerate((gpus, nics)):
            if at >= len(group):
                continue
            port = f"00{at + 1:02x}:02:{number:02x}.0"
            address = group[at][0]
            what = {"vendor": "0x10de", "device": "0x2330", "driver": "vfio-pci"} if number == 0 else {
                "vendor": "0x15b3", "device": "0x1021", "driver": "mlx5_core"}  # fmt: skip
            ports.append(made.function(port, "0x060400", node, driver="pcieport", parent=up))
            functions = [address] if number == 0 else [address, address[:-1] + "1"]
            ports += [
                made.function(a, "0x020000" if number else "0x030200", node, parent=port, **what)
                for a in functions
            ]
        found += ports
    return found


def gpu_host(
    name: str = "gpu-01", vfs: int = 16, nodes: int = 2, cards: int = 8, gpus: int = 8
) -> dict[str, Any]:
    """A state document: 8 GPUs and 8 two-port NICs, each pair below a PCIe switch, VF LAG on every card."""
    document = made.big_host(name)
    per = max(1, cards // nodes)
    buses = [f"{0x17 + 0x10 * i:02x}" for i in range(cards)]
    pfs: list[dict[str, Any]] = []
    bonds = []
    for number, bus in enumerate(buses):
        two, one = lag_card(bus, vfs, number, bridge=f"br{number}", node=min(number // per, nodes - 1))
        pfs += two
        bonds.append(one)
    bridges = [
        linux_bridge(f"br{n}", [p for p in pfs if p["bond"] == one["name"]], [one["name"]])
        for n, one in enumerate(bonds)
    ]
    nics = [(f"0000:{bus}:00.0", min(n // per, nodes - 1)) for n, bus in enumerate(buses)]
    each = max(1, gpus // nodes)
    cards_of = [(f"0000:{0x18 + 0x10 * i:02x}:00.0", min(i // each, nodes - 1)) for i in range(gpus)]
    document["pci"] = switches(cards_of, nics)
    by_address = {f["address"]: f for f in document["pci"]}
    for one in pfs:
        by_address[one["address"]].update(netdevs=[one["netdev"]], sriov_total=16, sriov_vfs=vfs)
    document["net"] = [
        {"name": one["netdev"], "pci": one["address"], "mac": "", "mtu": 9000, "operstate": "up", "speed_mbps": 200000,
         "bond": one["bond"]} for one in pfs
    ]  # fmt: skip
    _fewer_nodes(document, nodes)
    document["fabric"] = fabric(pfs, bonds, bridges=bridges)
    return document


def _fewer_nodes(document: dict[str, Any], nodes: int) -> None:
    """The same CPUs on so many NUMA nodes."""
    cores = document["cpu"]["cores"]
    for at, core in enumerate(cores):
        core["node"] = at * nodes // len(cores)
    document["cpu"]["nodes"] = [
        {"id": n, "kind": "cpu", "memory_bytes": 96 * made.GIB, "distances": [10 if m == n else 21 for m in range(nodes)],
         "cpus": cpulist.format({c for core in cores if core["node"] == n for c in cpulist.parse(core["cpus"])})}
        for n in range(nodes)
    ]  # fmt: skip
    for pool in document["memory"]["hugepages"]:
        pool["node"] %= nodes
    seen = {(p["node"], p["size_kb"]): p for p in document["memory"]["hugepages"]}
    document["memory"]["hugepages"] = list(seen.values())


def lab_host(name: str = "compute1") -> dict[str, Any]:
    """A node of the virtual rack: two igb PFs on two NUMA nodes under one bond, management on a virtio NIC."""
    document = made.lab_host(name, converged=True)
    first = pf("0000:21:00.0", "enp33s0", 2, driver="igb", port_name="", sriov_total=7, mtu=1500, numa_node=0,
               hw_tc_offload=None, bond="bond0", master="bond0")  # fmt: skip
    second = pf("0000:41:00.0", "enp65s0", 2, driver="igb", port_name="", sriov_total=7, mtu=1500, numa_node=1,
                hw_tc_offload=None, bond="bond0", master="bond0")  # fmt: skip
    for one in (first, second):
        one["eswitch"] = {"mode": None, "steering": None, "multiport": None, "inline": None, "encap": None}
        one["devlink"] = ""
        for function in one["vfs"]:
            function["driver"] = "igbvf"
    document["pci"].append(made.function("0000:00:02.0", "0x020000", None, vendor="0x1af4", driver="virtio-pci",
                                         netdevs=["enp0s2"]))  # fmt: skip
    document["net"].append({"name": "enp0s2", "pci": "0000:00:02.0", "mac": "", "mtu": 1500, "operstate": "up",
                            "speed_mbps": None, "bond": ""})  # fmt: skip
    document["fabric"] = fabric([first, second], [bond("bond0", ["enp33s0", "enp65s0"], mode="active-backup", mtu=1500,
                                                       active_slave="enp33s0")], management=["enp0s2"])  # fmt: skip
    return document


def broken_host(name: str = "gpu-02") -> dict[str, Any]:
    """A GPU host with several faults: roce LAG with bound VFs, a dark port, no forwarding, small MTU, far VFs."""
    document = gpu_host(name)
    section = document["fabric"]
    for one in section["pfs"][:2]:
        one["lag"]["type"] = "roce"
        for function in one["vfs"]:
            function["driver"] = "vfio-pci" if function["index"] in (3, 5) else ""
            function["in_use"] = ""
    section["pfs"][5].update(up=False, carrier=False)
    section["bridges"][1]["ports"] = section["bridges"][1]["ports"][:1]
    for one in section["pfs"][2:4]:
        for function in one["vfs"]:
            function["representor_master"] = ""
    section["bonds"][3].update(mtu=1500)
    section["pfs"][8]["hw_tc_offload"] = False
    section["management"] = ["ens7f0np0"]
    section["units"]["nearmetal-fabric-late.service"] = "failed"
    section["guard"] = {"armed": True, "deadline": "2026-11-30T21:59:00+00:00", "left": ""}
    return document
