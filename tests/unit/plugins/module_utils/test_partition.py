"""CPU partition: properties on any topology, the rules one by one, and captured machines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import cpulist
from ansible_collections.nearmetal.rack.plugins.module_utils.model import IntentError
from ansible_collections.nearmetal.rack.plugins.module_utils.partition import (
    Request,
    cores_per_node,
    normal_address,
    partition,
)
from host_states import machines, state, unhurried
from hypothesis import assume, given
from hypothesis import strategies as st


def cores_of(machine: dict[str, Any], node: int) -> list[frozenset[int]]:
    return [cpulist.parse(c["cpus"]) for c in machine["cpu"]["cores"] if c["node"] == node]


def nodes_of(machine: dict[str, Any]) -> list[int]:
    return sorted({c["node"] for c in machine["cpu"]["cores"]})


def check_is_partition(machine: dict[str, Any], found: Any) -> None:
    online = cpulist.parse(machine["cpu"]["online"])
    assert found.reserved | found.isolated == online
    assert not found.reserved & found.isolated
    assert found.reserved
    assert found.isolated
    for core in machine["cpu"]["cores"]:
        cpus = cpulist.parse(core["cpus"])
        assert cpus <= found.reserved or cpus <= found.isolated
        part = found.nodes[core["node"]]
        assert cpus <= part.reserved or cpus <= part.isolated
    assert machine["cpu"]["boot_cpu"] in found.reserved
    assert sum(len(p.reserved) + len(p.isolated) for p in found.nodes.values()) == len(online)


@unhurried
@given(machines(), st.integers(0, 5))
def test_equal_number_per_node(machine: dict[str, Any], count: int) -> None:
    nodes = nodes_of(machine)
    fits = all(count < len(cores_of(machine, n)) for n in nodes)
    try:
        found = partition(machine, Request(count))
    except IntentError as err:
        only_boot = count == 0 and len(machine["cpu"]["cores"]) == 1
        assert not fits or only_boot
        assert err.found[0].kind == "intent"
        return
    assert fits
    check_is_partition(machine, found)
    boot = machine["cpu"]["boot_cpu"]
    boot_node = next(c["node"] for c in machine["cpu"]["cores"] if boot in cpulist.parse(c["cpus"]))
    for node in nodes:
        reserved = [c for c in cores_of(machine, node) if c <= found.reserved]
        assert len(reserved) == (max(count, 1) if node == boot_node else count)


@unhurried
@given(machines(), st.data())
def test_listed_numbers_per_node(machine: dict[str, Any], data: st.DataObject) -> None:
    nodes = nodes_of(machine)
    asked = {n: data.draw(st.integers(0, len(cores_of(machine, n)))) for n in nodes if data.draw(st.booleans())}
    try:
        found = partition(machine, Request(asked))
    except IntentError:
        left = sum(len(cores_of(machine, n)) - asked.get(n, 0) for n in nodes)
        assert left <= 1  # nothing is left for guests once the boot CPU's core is taken
        return
    check_is_partition(machine, found)
    for node in nodes:
        reserved = sum(c <= found.reserved for c in cores_of(machine, node))
        assert reserved in (asked.get(node, 0), 1 if not asked.get(node, 0) else reserved)


@unhurried
@given(machines(), st.integers(1, 12), st.sampled_from(["guests", "interrupts"]), st.data())
def test_number_for_the_host(machine: dict[str, Any], count: int, policy: str, data: st.DataObject) -> None:
    nodes = nodes_of(machine)
    near = data.draw(st.sampled_from(nodes))
    machine["pci"] = [{"address": "0000:17:00.0", "numa_node": near}]
    request = Request(cores=count, near=["17:00.0"], near_policy=policy)
    try:
        found = partition(machine, request)
    except IntentError:
        assert count > sum(len(cores_of(machine, n)) - 1 for n in nodes)
        return
    check_is_partition(machine, found)
    assert sum(c <= found.reserved for n in nodes for c in cores_of(machine, n)) == count
    assert found.near == {"0000:17:00.0": frozenset().union(*cores_of(machine, near))}
    assume(count > 1)
    taken_near = sum(c <= found.reserved for c in cores_of(machine, near))
    opposite = "interrupts" if policy == "guests" else "guests"
    other = partition(machine, Request(cores=count, near=["17:00.0"], near_policy=opposite))
    taken_other = sum(c <= other.reserved for c in cores_of(machine, near))
    assert (taken_near <= taken_other) if policy == "guests" else (taken_near >= taken_other)


@unhurried
@given(machines())
def test_explicit_cpus_give_the_same_partition(machine: dict[str, Any]) -> None:
    try:
        found = partition(machine, Request(1))
    except IntentError:
        return
    assert partition(machine, Request(cpus=cpulist.format(found.reserved))) == found


def test_lowest_core_of_each_node_first() -> None:
    found = partition(state(), Request(1))
    assert found.as_dict() == {
        "reserved": "0,2,4,6",
        "isolated": "1,3,5,7",
        "nodes": {"0": {"reserved": "0,4", "isolated": "1,5"}, "1": {"reserved": "2,6", "isolated": "3,7"}},
    }


def test_node_without_cpus_is_passed_over() -> None:
    found = partition(state(extra_nodes=[2, 250]), Request(1))
    assert sorted(found.nodes) == [0, 1]


def test_host_without_numa_is_node_0() -> None:
    machine = state([("0,2", 0, ""), ("1,3", 0, "")])
    for core in machine["cpu"]["cores"]:
        core["node"] = None
    assert partition(machine, Request(1)).as_dict()["nodes"] == {"0": {"reserved": "0,2", "isolated": "1,3"}}


def test_efficiency_cores_are_reserved_before_performance_cores() -> None:
    performance = [("0-1", 0, "performance"), ("2-3", 0, "performance")]
    hybrid = state([*performance, ("4", 0, "efficiency"), ("5", 0, "efficiency")])
    assert partition(hybrid, Request(3)).as_dict()["reserved"] == "0-1,4-5"


def test_offline_boot_cpu_is_replaced_by_the_lowest_online_one() -> None:
    machine = state([("1", 0, ""), ("2", 0, "")], offline="0")
    assert partition(machine, Request(0)).as_dict() == {
        "reserved": "1", "isolated": "2", "nodes": {"0": {"reserved": "1", "isolated": "2"}},
    }  # fmt: skip


def test_number_for_the_host_comes_from_far_or_near_nodes() -> None:
    machine = state([(str(i), i // 4, "") for i in range(8)], pci={"0000:17:00.0": 0, "0000:9a:00.0": 1})
    far = partition(machine, Request(cores=3, near=["0000:17:00.0"]))
    assert far.as_dict()["reserved"] == "0,4-5"
    near = partition(machine, Request(cores=3, near=["0000:9A:00.0"], near_policy="interrupts"))
    assert near.as_dict()["reserved"] == "0,4-5"
    assert partition(machine, Request(cores=3)).as_dict()["reserved"] == "0-2"


def test_device_of_unknown_node_is_near_to_nothing() -> None:
    found = partition(state(pci={"0000:17:00.0": None}), Request(1, near=["17:00.0"]))
    assert found.near == {"0000:17:00.0": frozenset()}


@pytest.mark.parametrize(
    ("request_", "variable", "fragment"),
    [
        (Request(2), "reserved_cores_per_node", "NUMA node 0 has 2 online cores: 2 cannot be reserved"),
        (Request(-1), "reserved_cores_per_node", "-1 cannot be reserved"),
        (Request({0: 3}), "reserved_cores_per_node", "NUMA node 0 has 2 online cores: 3 cannot"),
        (Request({5: 1}), "reserved_cores_per_node", "NUMA node 5 is not there"),
        (Request({0: 2, 1: 2}), "reserved_cores_per_node", "every core would be reserved"),
        (Request(cores=3), "reserved_cores", "3 cores cannot be reserved"),
        (Request(cpus="0"), "reserved_cpus", "torn apart: CPUs 4 are siblings"),
        (Request(cpus="1,5"), "reserved_cpus", "core of the boot CPU (0,4)"),
        (Request(cpus="0,4,9"), "reserved_cpus", "CPUs 9 are offline or not there"),
        (Request(cpus="0-7"), "reserved_cpus", "every core would be reserved"),
        (Request(cpus="0,x"), "reserved_cpus", "neither a CPU number"),
        (Request(1, near=["0000:99:00.0"]), "near", "no PCI function 0000:99:00.0"),
    ],
)
def test_what_cannot_be_is_one_clear_problem(request_: Request, variable: str, fragment: str) -> None:
    with pytest.raises(IntentError) as caught:
        partition(state(pci={"0000:17:00.0": 0}), request_)
    problem = caught.value.found[0]
    assert problem.variable == variable
    assert fragment in problem.message
    assert problem.fix


def test_all_problems_at_once() -> None:
    with pytest.raises(IntentError) as caught:
        partition(state(), Request({0: 9, 7: 1}, near=["99:00.0"]))
    assert len(caught.value.found) == 3


@pytest.mark.parametrize(
    ("value", "meaning"),
    [(2, 2), ("2", 2), ({0: 1, "1": "2"}, {0: 1, 1: 2}), ("x", None), (True, None), ({"a": 1}, None), ([1], None)],
)
def test_numbers_as_yaml_and_extra_vars_give_them(value: Any, meaning: Any) -> None:
    assert cores_per_node(value) == meaning


def test_address_with_and_without_domain() -> None:
    assert normal_address("17:00.0") == normal_address(" 0000:17:00.0") == "0000:17:00.0"
    assert normal_address("10000:E1:00.0") == "10000:e1:00.0"


def lscpu_siblings(samples: Path, name: str) -> dict[int, set[int]]:
    """CPU to its siblings, from the expected output of lscpu: the first table (logical numbers)."""
    text = (samples / "topology" / name).read_text().split("# CPU,Core")[1]
    rows = [line.split(",") for line in re.findall(r"^\d+,\d+,\d+,.*$", text, re.MULTILINE)]
    assert rows
    by_core: dict[str, set[int]] = {}
    for row in rows:
        by_core.setdefault(row[1], set()).add(int(row[0]))
    return {cpu: cpus for cpus in by_core.values() for cpu in cpus}


def observed(path: Path) -> dict[str, Any]:
    from nearmetal import archives, core

    return core.observe(archives.tree_host(path))


@pytest.mark.parametrize("name", ["x86_64-64cpu-linux6.2", "x86_64-epyc_7451"])
def test_captured_machines_against_lscpu(samples: Path, name: str) -> None:
    machine = observed(samples / "topology" / f"util-linux-dump-{name}.tar.gz")
    siblings = lscpu_siblings(samples, f"util-linux-expected-{name}.txt")
    found = partition(machine, Request(1))
    check_is_partition(machine, found)
    assert found.reserved | found.isolated == set(siblings)
    for cpus in (found.reserved, found.isolated):
        assert all(siblings[cpu] <= cpus for cpu in cpus)
    for part in found.nodes.values():
        first = min(part.reserved | part.isolated)
        assert part.reserved == siblings[first]


@pytest.mark.parametrize(
    ("name", "reserved"),
    [
        ("ghw-linux-amd64-accel-nvidia.tar.gz", {"0": "0"}),
        ("hwloc-16em64t-4s2c2t-offlines.tar.bz2", {"0": "0,8"}),
        ("hwloc-40intel64-2g2n4c+pcilocality.tar.bz2", {"0": "0", "1": "1", "2": "2", "3": "3"}),
        ("hwloc-nvidiagpunumanodes.tar.bz2", {"0": "0-3", "8": "88-91"}),
        ("nto-must-gather-sno-sysinfo.tgz", {"0": "0"}),
        ("nto-must-gather-worker1.internal-sysinfo.tgz", {"0": "0,40", "1": "1,41"}),
    ],
)
def test_captured_machines(samples: Path, name: str, reserved: dict[str, str]) -> None:
    machine = observed(samples / "topology" / name)
    found = partition(machine, Request(1))
    check_is_partition(machine, found)
    assert {node: part["reserved"] for node, part in found.as_dict()["nodes"].items()} == reserved
