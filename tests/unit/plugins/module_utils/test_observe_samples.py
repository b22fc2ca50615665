"""Observers on captured trees of real machines, against what other tools say of them."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import cpulist

from nearmetal import archives, core


@functools.cache
def observe(samples: Path, name: str) -> dict[str, Any]:
    path = samples / "topology" / name
    if not path.exists():
        pytest.skip(f"no sample {name}")
    return core.observe(archives.tree_host(path))


Rows = list[dict[str, str]]


def lscpu(text: str) -> tuple[dict[str, str], list[Rows]]:
    """The fields of lscpu, and its parsable tables: with logical numbers, then with physical ones."""
    fields = dict(re.findall(r"(?m)^([^#\n:]+):\s+(.*)$", text))
    tables: list[Rows] = []
    head: list[str] = []
    for line in text.splitlines():
        if line.startswith("# CPU,"):
            head = line[2:].split(",")
            tables.append([])
        elif head and re.match(r"\d+,", line):
            tables[-1].append(dict(zip(head, line.split(","), strict=False)))
    return fields, tables


@pytest.mark.parametrize("name", ["x86_64-64cpu-linux6.2", "x86_64-epyc_7451"])
def test_against_lscpu(samples: Path, name: str) -> None:
    cpu = observe(samples, f"util-linux-dump-{name}.tar.gz")["cpu"]
    fields, (rows, physical) = lscpu((samples / "topology" / f"util-linux-expected-{name}.txt").read_text())
    assert cpu["online"] == fields["On-line CPU(s) list"]
    assert cpu["vendor"] == fields["Vendor ID"] and cpu["model"] == fields["Model name"]
    assert cpu["threads_per_core"] == int(fields["Thread(s) per core"])
    assert cpu["sockets"] == int(fields["Socket(s)"])
    assert len(cpu["cores"]) == int(fields["Core(s) per socket"]) * cpu["sockets"]
    for node in cpu["nodes"]:
        assert node["cpus"] == fields[f"NUMA node{node['id']} CPU(s)"]
    assert len(cpu["nodes"]) == int(fields["NUMA node(s)"])
    groups: dict[str, set[int]] = {}
    for row in rows:
        groups.setdefault(row["Core"], set()).add(int(row["CPU"]))
    assert {cpulist.parse(c["cpus"]) for c in cpu["cores"]} == {frozenset(g) for g in groups.values()}
    core_ids = {int(row["CPU"]): int(row["Core"]) for row in physical}
    assert all(core_ids[c] == found["core_id"] for found in cpu["cores"] for c in cpulist.parse(found["cpus"]))
    place = {int(row["CPU"]): (row.get("Node") or "0", row["Socket"]) for row in rows}
    for found in cpu["cores"]:
        for number in cpulist.parse(found["cpus"]):
            assert (str(found["node"]), str(found["socket"])) == place[number]


def test_against_the_performance_profile_creator(samples: Path) -> None:
    cpu = observe(samples, "nto-must-gather-worker1.internal-sysinfo.tgz")["cpu"]
    pools = json.loads((samples / "topology" / "nto-ppc-expected-must-gather.bare-metal.json").read_text())
    (expected,) = [n for pool in pools for n in pool["nodes"] if n["name"] == "worker1.internal"]
    assert (cpu["threads_per_core"] > 1) is expected["smt_enabled"]
    assert len(cpulist.parse(cpu["online"])) == expected["cpus_count"]
    cells = {node["id"]: sorted(cpulist.parse(node["cpus"])) for node in cpu["nodes"]}
    assert cells == {cell["id"]: sorted(cell["cores"]) for cell in expected["numa_cells"]}


def test_offline_cpus_of_an_old_kernel(samples: Path) -> None:
    cpu = observe(samples, "hwloc-16em64t-4s2c2t-offlines.tar.bz2")["cpu"]
    assert (cpu["online"], cpu["offline"], cpu["sockets"]) == ("0-1,3-4,6-12,15", "2,5,13-14", 4)
    assert [c["cpus"] for c in cpu["cores"]] == ["0,8", "1,9", "3,11", "4,12", "6", "7,15", "10"]


def test_interleaved_nodes_and_devices_near_them(samples: Path) -> None:
    state = observe(samples, "hwloc-40intel64-2g2n4c+pcilocality.tar.bz2")
    assert [n["cpus"] for n in state["cpu"]["nodes"]][1] == "1,5,9,13,17,21,25,29,33,37"
    assert state["cpu"]["offline"] == ""  # 40-79 are possible, not present
    by_name = {d["name"]: d for d in state["net"]}
    assert by_name["ib0"]["pci"] == "0000:43:00.0"
    assert next(f for f in state["pci"] if f["address"] == "0000:43:00.0")["netdevs"] == ["ib0"]


def test_gpu_memory_nodes_and_sparse_ids(samples: Path) -> None:
    state = observe(samples, "hwloc-nvidiagpunumanodes.tar.bz2")
    nodes = state["cpu"]["nodes"]
    assert [n["id"] for n in nodes] == [0, 8, 250, 251, 252, 253, 254, 255]
    assert [n["kind"] for n in nodes] == ["cpu"] * 2 + ["gpu"] * 6
    assert [n["cpus"] for n in nodes[:3]] == ["0-15", "88-103", ""]
    assert state["cpu"]["threads_per_core"] == 4
    assert [f["numa_node"] for f in state["pci"]] == [0, 0, 0, 8, 8, 8]


@pytest.mark.parametrize("cpus", [8])
def test_virtual_machine_with_gpus(samples: Path, cpus: int) -> None:
    state = observe(samples, "ghw-linux-amd64-accel-nvidia.tar.gz")
    assert len(state["cpu"]["cores"]) == cpus and state["kernel"]["cmdline"] is None
    assert {n["section"] for n in state["unread"]} >= {"kernel.cmdline", "iommu", "net"}
    assert sum(f["vendor"] == "0x10de" for f in state["pci"]) > 0
    assert next(f for f in state["pci"] if f["address"] == "0000:02:00.0")["parent"] == "0000:00:01.1"


def test_interrupts_have_names(samples: Path) -> None:
    irqs = observe(samples, "nto-must-gather-worker1.internal-sysinfo.tgz")["confinement"]["irqs"]
    assert len(irqs) == 554
    named = [irq for irq in irqs if irq["name"]]
    assert {"timer"} <= {irq["name"] for irq in named}
    assert any("i40e" in irq["name"] for irq in named) and not any("PCI-MSI" in irq["name"] for irq in named)


def test_every_sample_can_be_observed(samples: Path) -> None:
    archives_found = [p for p in sorted((samples / "topology").iterdir()) if ".t" in p.name and p.suffix not in (".txt", ".json")]
    assert archives_found
    for path in archives_found:
        state = observe(samples, path.name)
        online = cpulist.parse(state["cpu"]["online"])
        covered = [cpu for c in state["cpu"]["cores"] for cpu in cpulist.parse(c["cpus"])]
        assert online and sorted(covered) == sorted(online), path.name
