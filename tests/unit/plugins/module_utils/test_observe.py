"""Observers on made-up hosts of every shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trees
from ansible_collections.nearmetal.rack.plugins.module_utils import cpulist
from ansible_collections.nearmetal.rack.plugins.module_utils.host import FileHost, SnapshotHost
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.topology import identify
from hypothesis import given, settings
from hypothesis import strategies as st


def sections(state: Any) -> set[str]:
    return {note["section"] for note in state["unread"]}


shapes = st.fixed_dictionaries(
    {
        "sockets": st.integers(1, 2), "nodes": st.integers(1, 4), "cores": st.integers(1, 4),
        "threads": st.integers(1, 4), "numbering": st.sampled_from(trees.NUMBERINGS), "old_kernel": st.booleans(),
        "arm": st.booleans(), "memory_nodes": st.integers(0, 2),
    }
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(shape=shapes, data=st.data())
def test_cores_are_found_whatever_the_numbering(shape: dict[str, Any], data: st.DataObject) -> None:
    every = shape["nodes"] * shape["cores"] * shape["threads"]
    offline = data.draw(st.frozensets(st.integers(1, max(1, every - 1)), max_size=every - 1)) if every > 1 else frozenset()
    state = observe(trees.build(**shape, offline=offline).host())
    cpu = state["cpu"]
    expected = {}
    for node, row in enumerate(trees.layout(shape["nodes"], shape["cores"], shape["threads"], shape["numbering"])):
        for cpus in row:
            if up := frozenset(cpus) - offline:
                expected[up] = node
    assert {cpulist.parse(c["cpus"]): c["node"] for c in cpu["cores"]} == expected
    assert cpulist.parse(cpu["online"]) == frozenset().union(*expected)
    assert cpulist.parse(cpu["offline"]) == offline
    assert cpu["threads_per_core"] == max(map(len, expected))
    firsts = [min(cpulist.parse(c["cpus"])) for c in cpu["cores"]]
    assert firsts == sorted(firsts)
    assert cpu["boot_cpu"] == 0
    assert len(cpu["nodes"]) == shape["nodes"] + shape["memory_nodes"]
    assert all(len(n["distances"]) == len(cpu["nodes"]) for n in cpu["nodes"])
    if shape["arm"]:
        assert cpu["arch"] == "aarch64"
        assert {c["socket"] for c in cpu["cores"]} == {0}


def test_nodes_without_cpus_and_gpu_memory_and_sparse_ids() -> None:
    tree = trees.build(nodes=2, memory_nodes=1, gpu_nodes=1, node_ids=[0, 8, 9, 252], memory_gib=16)
    nodes = observe(tree.host())["cpu"]["nodes"]
    assert [(n["id"], n["kind"]) for n in nodes] == [(0, "cpu"), (8, "cpu"), (9, "memory"), (252, "gpu")]
    assert nodes[2]["cpus"] == "" and nodes[1]["distances"] == [21, 10, 21, 21]
    assert all(n["memory_bytes"] == 4 << 30 for n in nodes)


def test_kernel_without_numa() -> None:
    state = observe(trees.build(numa=False).host())
    assert state["cpu"]["nodes"] == []
    assert {c["node"] for c in state["cpu"]["cores"]} == {None}


def test_hybrid_processor() -> None:
    state = observe(trees.build(cores=4, threads=1, efficiency=[2, 3]).host())
    assert [c["kind"] for c in state["cpu"]["cores"]] == ["performance", "performance", "efficiency", "efficiency"]


def test_arm_capacity_tells_kinds_apart() -> None:
    capacity = {f"{trees.CPU}/cpu{c}/cpu_capacity": f"{1024 if c else 400}\n" for c in range(3)}
    state = observe(trees.build(cores=3, threads=1, arm=True, files=capacity).host())
    assert [c["kind"] for c in state["cpu"]["cores"]] == ["efficiency", "performance", "performance"]


def test_cores_by_id_where_the_kernel_has_no_sibling_file() -> None:
    tree = trees.build(cores=2, threads=2)
    for path in [p for p in tree.files if "thread_siblings" in p]:
        del tree.files[path]
    assert [c["cpus"] for c in observe(tree.host())["cpu"]["cores"]] == ["0,2", "1,3"]


def test_boot_cpu_offline() -> None:
    tree = trees.build(cores=2, threads=1, files={f"{trees.CPU}/online": "1\n"})
    cpu = observe(tree.host())["cpu"]
    assert (cpu["boot_cpu"], cpu["online"], cpu["offline"]) == (1, "1", "0")


def test_isolated_is_unknown_in_a_tree_and_empty_on_a_kernel_without_it() -> None:
    tree = trees.build()
    del tree.files[trees.CPU + "/nohz_full"]
    assert observe(tree.host())["cpu"]["nohz_full"] is None
    assert "cpu.nohz_full" in sections(observe(tree.host()))
    assert observe(tree.host(live=True))["cpu"]["nohz_full"] == ""
    tree.files[trees.CPU + "/nohz_full"] = " (null)\n"
    assert observe(tree.host())["cpu"]["nohz_full"] == ""


def test_pci_from_uevent_and_from_single_files() -> None:
    device = {
        "address": "0000:17:00.0", "bridge": "0000:16:00.0", "driver": "mlx5_core", "vfs": (2, 8), "netdev": "ens1",
        "group": 7, "node": 1,
    }  # fmt: skip
    found = [observe(trees.build(devices=[{**device, "uevent": u}]).host()) for u in (True, False)]
    for state in found:
        (function,) = state["pci"]
        assert {k: function[k] for k in ("address", "vendor", "device", "class", "driver", "numa_node", "parent")} == {
            "address": "0000:17:00.0", "vendor": "0x15b3", "device": "0x101d", "class": "0x020000",
            "driver": "mlx5_core", "numa_node": 1, "parent": "0000:16:00.0",
        }  # fmt: skip
        assert (function["sriov_total"], function["sriov_vfs"], function["iommu_group"]) == (8, 2, 7)
        assert function["netdevs"] == ["ens1"]
        assert state["net"][0]["pci"] == "0000:17:00.0" and state["net"][0]["speed_mbps"] == 100000
        assert state["iommu"]["types"] == {"identity": 1}


def test_pci_node_minus_one_is_null_and_vf_knows_its_pf() -> None:
    devices = [{"address": "0000:17:00.0", "node": None}, {"address": "0000:17:00.2", "physfn": "0000:17:00.0"}]
    pf, vf = observe(trees.build(devices=devices).host())["pci"]
    assert pf["numa_node"] is None and vf["physfn"] == "0000:17:00.0"


def test_node_from_local_cpus_where_the_tree_has_no_numa_node() -> None:
    tree = trees.build(nodes=2, devices=[{"address": "0000:17:00.0"}, {"address": "0000:18:00.0"}])
    for address, cpus in (("0000:17", "2-3,6-7"), ("0000:18", "0-7")):
        base = f"/sys/devices/pci{address}/{address}:00.0/"
        del tree.files[base + "numa_node"]
        tree.files[base + "local_cpulist"] = cpus
    assert [f["numa_node"] for f in observe(tree.host())["pci"]] == [1, None]


def config(extended: bool) -> bytes:
    data = bytearray(4096 if extended else 64)
    data[6], data[0x34] = 0x10, 0x40
    if extended:
        data[0x40], data[0x41] = 0x10, 0x60
        data[0x60] = 0x11
        data[0x100:0x104] = (0x0001 | 0x150 << 20).to_bytes(4, "little")
        data[0x150:0x154] = (0x000F).to_bytes(4, "little")
        data[0x157] = 0x80
    return bytes(data)


def test_capabilities_need_more_than_64_bytes() -> None:
    tree = trees.build(devices=[{"address": "0000:17:00.0"}])
    path = "/sys/devices/pci0000:17/0000:17:00.0/config"
    full = observe(SnapshotHost({**tree.files, path: config(True)}, tree.links))
    assert full["pci"][0]["capabilities"] == ["pcie", "msix", "aer", "ats"]
    assert full["pci"][0]["ats_enabled"] is True
    short = observe(SnapshotHost({**tree.files, path: config(False)}, tree.links))
    assert short["pci"][0]["capabilities"] is None
    assert "pci.config" in sections(short)


def test_a_broken_link_is_unread_not_absent() -> None:
    tree = trees.build(devices=[{"address": "0000:17:00.0"}])
    tree.links["/sys/bus/pci/devices/0000:18:00.0"] = "../../../devices/pci0000:18/0000:18:00.0"
    state = observe(tree.host())
    assert [f["address"] for f in state["pci"]] == ["0000:17:00.0"]
    assert "pci.0000:18:00.0" in sections(state)


@pytest.mark.parametrize(
    ("path", "section", "value"),
    [
        ("/proc/cmdline", "kernel.cmdline", lambda s: s["kernel"]["cmdline"]),
        ("/proc/meminfo", "memory", lambda s: s["memory"]["total_bytes"]),
        ("/proc/irq/default_smp_affinity", "confinement.irqs", lambda s: s["confinement"]["default_irq_affinity"]),
        (trees.CPU + "/isolated", "cpu.isolated", lambda s: s["cpu"]["isolated"]),
        ("/sys/fs/cgroup/system.slice/cpuset.cpus", "confinement.slices", lambda s: s["confinement"]["slices"]["system.slice"]),
    ],
)  # fmt: skip
def test_unreadable_is_null_with_the_reason(path: str, section: str, value: Any) -> None:
    tree = trees.build()
    tree.files.pop(path, None)
    state = observe(SnapshotHost(tree.files, tree.links, {path: "Permission denied"}, tree.folders, live=True))
    assert value(state) is None
    assert any(n["section"] == section and "Permission denied" in n["reason"] for n in state["unread"])


@pytest.mark.parametrize(
    ("path", "text", "section"),
    [
        (trees.CPU + "/online", "0-x\n", "cpu.online"),
        (trees.CPU + "/isolated", "7-1\n", "cpu.isolated"),
        (trees.NODE + "/node0/cpulist", "zz\n", "cpu.nodes"),
        (trees.NODE + "/node0/distance", "10 20 30\n", "cpu.nodes.distances"),
        ("/proc/irq/default_smp_affinity", "xyz\n", "confinement.irqs"),
        ("/var/lib/nearmetal/reboot.json", "{", "last_reboot"),
    ],
)
def test_nonsense_is_unread(path: str, text: str, section: str) -> None:
    assert section in sections(observe(trees.build(files={path: text}).host()))


def test_confinement() -> None:
    files = {
        "/sys/fs/cgroup/system.slice/cpuset.cpus": "0,2\n",
        "/sys/fs/cgroup/system.slice/cpuset.cpus.effective": "0,2\n",
        "/usr/lib/systemd/system/irqbalance.service": "",
    }
    tree = trees.build(irqs=3, files=files)
    found = observe(tree.host())["confinement"]
    assert found["cgroup"] == "v2"
    assert found["slices"]["system.slice"] == "0,2" and found["slices"]["user.slice"] == ""
    assert found["effective"]["system.slice"] == "0,2" and found["effective"]["user.slice"] is None
    assert found["irqs"][0] == {"irq": 24, "name": "nic-24", "affinity": "0-3", "effective": "0"}
    assert found["irqbalance"] == "inactive" and found["default_irq_affinity"] == "0-3"
    tree.folders.append("/sys/fs/cgroup/system.slice/irqbalance.service")
    assert observe(tree.host())["confinement"]["irqbalance"] == "active"


def test_hugepages_and_system() -> None:
    state = observe(trees.build(nodes=2, hugepages={(0, 1048576): 4, (1, 2048): 16}).host(live=True))
    pools = {(p["node"], p["size_kb"]): p["total"] for p in state["memory"]["hugepages"]}
    assert pools == {(0, 2048): 0, (0, 1048576): 4, (1, 2048): 16, (1, 1048576): 0}
    assert state["memory"]["hugepage_default_kb"] == 2048 and state["memory"]["thp"] == "madvise"
    assert state["os"]["name"] == "Debian GNU/Linux 13 (trixie)" and state["kvm"] is True
    assert state["kernel"]["uptime_s"] == 1000.25 and state["kernel"]["lockdown"] == "none"
    assert state["unread"] == [] or sections(state) == {"boot"}


def test_last_reboot() -> None:
    text = json.dumps({"boot_id": "b", "reason": "d", "wanted": "isolcpus=2"})
    state = observe(trees.build(files={"/var/lib/nearmetal/reboot.json": text}).host())
    assert state["last_reboot"] == {"boot_id": "b", "reason": "d", "wanted": "isolcpus=2"}


def test_file_host_and_snapshot_agree(tmp_path: Path) -> None:
    tree = trees.build(nodes=2, irqs=4, devices=[{"address": "0000:17:00.0", "netdev": "ens1", "group": 1}])
    assert observe(FileHost(str(tree.write(tmp_path)))) == observe(tree.host())


@pytest.mark.parametrize(
    ("info", "arch", "expected"),
    [
        ("cpu\t\t: POWER9, altivec supported\n", "", ("ppc64le", "IBM", "POWER9", "")),
        ("vendor_id       : IBM/S390\nmachine : 3931\n", "", ("s390x", "IBM", "3931", "")),
        ("vendor_id\t: AuthenticAMD\nmodel name\t: EPYC\nflags\t: lm svm\n", "", ("x86_64", "AuthenticAMD", "EPYC", "svm")),
        (trees.ARM_INFO, "", ("aarch64", "ARM", "part 0xd4f", "")),
        ("", "riscv64", ("riscv64", "", "", "")),
    ],
)
def test_identify(info: str, arch: str, expected: tuple[str, ...]) -> None:
    assert identify(info, arch) == expected
