"""Placement of benchmark guests."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import bench_scenarios as b
from ansible_collections.nearmetal.rack.plugins.module_utils import cpulist
from hypothesis import given, settings
from hypothesis import strategies as st


def cpu(sockets: int = 2, cores: int = 2, threads: int = 2, per_socket_nodes: int = 1) -> dict[str, Any]:
    """A host whose CPUs are numbered core by core, siblings adjacent."""
    found, number = [], 0
    for socket in range(sockets):
        for core in range(cores):
            node = socket * per_socket_nodes + core * per_socket_nodes // cores
            cpus = cpulist.format(range(number, number + threads))
            found.append({"cpus": cpus, "node": node, "socket": socket, "kind": ""})
            number += threads
    return {"online": f"0-{number - 1}", "isolated": "", "arch": "x86_64", "cores": found}


def state(isolated: str = "", system_slice: str | None = "") -> dict[str, Any]:
    return {"cpu": {**cpu(), "isolated": isolated}, "confinement": {"slices": {"system.slice": system_slice}}}


def test_matched_guest_is_the_image_of_its_cores() -> None:
    at = b.layout(cpu(), frozenset(range(2, 8)), 2)
    side = b.side("matched_pinned", at)
    assert side.pins == (4, 5, 6, 7)  # node 1 has two whole cores, node 0 only one
    assert side.topology == (1, 2, 2)
    assert side.cells == (((0, 1, 2, 3), 1),)
    assert side.emulator == {0, 1}  # no reserved CPU on node 1
    assert [p["guest_core"] for p in side.as_result()["pins"]] == [0, 0, 1, 1]


def test_emulator_stays_near_where_a_reserved_cpu_is_near() -> None:
    at = b.layout(cpu(cores=4), frozenset(range(10, 16)), 3)
    assert b.side("matched_pinned", at).emulator == {8, 9}


def test_smt_hidden_differs_only_in_what_the_guest_is_told() -> None:
    at = b.layout(cpu(), frozenset(range(4, 8)), 2)
    matched, hidden = b.side("matched_pinned", at), b.side("smt_hidden", at)
    assert hidden.topology == (1, 4, 1)
    assert (hidden.pins, hidden.cells, hidden.emulator) == (matched.pins, matched.cells, matched.emulator)


def test_shuffled_siblings_share_no_core_and_use_the_same_cpus() -> None:
    at = b.layout(cpu(), frozenset(range(4, 8)), 2)
    side = b.side("siblings_shuffled", at)
    assert side.pins == (4, 7, 6, 5)
    assert side.topology == (1, 2, 2)


def test_shuffling_stays_on_the_node() -> None:
    at = b.layout(cpu(cores=2), frozenset(range(8)), 4)
    pins = b.side("siblings_shuffled", at).pins
    assert set(pins[:4]) == {0, 1, 2, 3}
    assert set(pins[4:]) == {4, 5, 6, 7}


def test_cross_node_takes_half_of_the_cores_elsewhere() -> None:
    at = b.layout(cpu(cores=3), frozenset({2, 3, 4, 5, 8, 9, 10, 11}), 2)
    side = b.side("cross_node", at)
    assert side.pins == (2, 3, 8, 9)
    assert side.nodes == [0]


def test_one_core_on_each_node_makes_a_guest_of_two_nodes() -> None:
    at = b.layout(cpu(), frozenset({2, 3, 6, 7}), 2)
    side = b.side("matched_pinned", at)
    assert side.topology == (2, 1, 2)
    assert side.cells == (((0, 1), 0), ((2, 3), 1))
    with pytest.raises(b.NotApplicable, match="NUMA node"):
        b.side("cross_node", at)


@pytest.mark.parametrize("name", ["smt_hidden", "siblings_shuffled"])
def test_no_smt_no_smt_scenario(name: str) -> None:
    at = b.layout(cpu(threads=1), frozenset({1, 2, 3}), 2)
    with pytest.raises(b.NotApplicable, match="SMT"):
        b.side(name, at)


def test_half_a_core_is_no_core() -> None:
    with pytest.raises(b.BenchError, match=r"only 1 whole core.*isolated CPUs: 3,6-7"):
        b.layout(cpu(), frozenset({3, 6, 7}), 2)


def test_cores_of_two_kinds_are_not_mixed() -> None:
    hybrid = cpu(sockets=1, cores=3)
    hybrid["cores"][0]["kind"] = "performance"
    with pytest.raises(b.BenchError, match="only 2"):
        b.layout(hybrid, frozenset(range(6)), 3)


@pytest.mark.parametrize(
    ("isolated", "system_slice", "asked", "expected"),
    [
        ("2-7", None, "", {2, 3, 4, 5, 6, 7}),
        ("", "0-1", "", {2, 3, 4, 5, 6, 7}),
        ("2-7", "0-1", "4-5", {4, 5}),
    ],
)
def test_where_the_cpus_come_from(
    isolated: str, system_slice: str | None, asked: str, expected: set[int]
) -> None:
    assert b.isolated_cpus(state(isolated, system_slice), asked) == expected


@pytest.mark.parametrize("system_slice", [None, "", "0-7"])
def test_nothing_isolated(system_slice: str | None) -> None:
    with pytest.raises(b.BenchError, match="cpu_isolation"):
        b.isolated_cpus(state("", system_slice))


@pytest.mark.parametrize(("asked", "word"), [("6-9", "CPU 8-9 is not online"), ("x", "benchmark_vm_cpus")])
def test_bad_list(asked: str, word: str) -> None:
    with pytest.raises(b.BenchError, match=word):
        b.isolated_cpus(state("2-7"), asked)


def test_workers_take_every_core_before_any_sibling() -> None:
    at = b.layout(cpu(), frozenset(range(4, 8)), 2)
    assert b.worker_cpus(at, 5) == [4, 6, 5, 7, 4]


@settings(deadline=None)
@given(
    sockets=st.integers(1, 3), cores=st.integers(1, 5), threads=st.sampled_from([1, 2, 4]),
    count=st.integers(1, 8), data=st.data(),
)  # fmt: skip
def test_every_side_uses_each_cpu_once_and_shows_as_many_vcpus(
    sockets: int, cores: int, threads: int, count: int, data: st.DataObject
) -> None:
    host = cpu(sockets, cores, threads)
    isolated = data.draw(st.frozensets(st.integers(0, sockets * cores * threads - 1)))
    try:
        at = b.layout(host, isolated, count)
    except b.BenchError:
        whole = sum(cpulist.parse(c["cpus"]) <= isolated for c in host["cores"])
        assert whole < count
        return
    for name in b.SCENARIOS:
        try:
            side = b.side(name, at)
        except b.NotApplicable:
            continue
        s, c, t = side.topology
        assert s * c * t == len(side.pins) == len(set(side.pins)) == count * threads
        assert set(side.pins) <= isolated
        assert not side.emulator & isolated
        assert sorted(v for vcpus, _node in side.cells for v in vcpus) == list(range(count * threads))
    matched = b.side("matched_pinned", at)
    for vcpus, node in matched.cells:
        assert all(at.node_of[matched.pins[v]] == node for v in vcpus)
