"""The picture of a host: every CPU once, in its role; devices and memory at their nodes."""

from __future__ import annotations

from typing import Any, cast

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import cpulist
from hypothesis import given
from hypothesis import strategies as st
from support import report_fixtures as made

from nearmetal.bench.results import Scenario
from nearmetal.report.hostmap import Map, host_map
from nearmetal.report.partition import partition
from nearmetal.report.views import facts


def drawn(picture: Map) -> dict[int, str]:
    cells = [c for _, nodes in picture.sockets for n in nodes for core in n.cores for c in core.cells]
    assert len({c.cpu for c in cells}) == len(cells)
    return {c.cpu: c.role for c in [*cells, *picture.offline]}


def test_the_virtual_rack() -> None:
    scenario = Scenario.model_validate(made.LAB_SCENARIOS[1])
    picture = host_map(cast("Any", made.lab_host("c1", converged=True)), scenario)
    assert drawn(picture) == {0: "reserved", 1: "reserved", 2: "isolated", 3: "isolated",
                              4: "reserved", 5: "reserved", 6: "guest", 7: "guest"}  # fmt: skip
    first, second = picture.sockets[0][1][0], picture.sockets[1][1][0]
    assert [d.name for d in first.devices] == ["enp33s0"]
    assert [d.name for d in second.devices] == ["enp65s0"]  # its VF is counted, not drawn
    assert "2 of 7 VFs" in second.devices[0].detail
    assert [(p.size, p.total, p.bytes) for p in second.pages] == [("2 MiB", 128, "256 MiB")]
    assert [d.kind for d in picture.loose] == ["display"]
    assert picture.roomy
    assert "v0 on CPU 6" in picture.summary and "reserved for the host: 0-1,4-5" in picture.summary
    labels = {c.cpu: c.label for _, nodes in picture.sockets for n in nodes for k in n.cores for c in k.cells}
    assert labels == {0: "E", 1: "E", 2: "", 3: "", 4: "", 5: "", 6: "v0", 7: "v1"}


def test_a_large_server_is_drawn_small_with_its_gpus() -> None:
    picture = host_map(cast("Any", made.big_host("g")), None)
    assert len(drawn(picture)) == 256 and not picture.roomy
    assert [len(nodes) for _, nodes in picture.sockets] == [4, 4]
    kinds = [d.kind for _, nodes in picture.sockets for n in nodes for d in n.devices]
    assert (kinds.count("GPU"), kinds.count("NIC")) == (8, 10)


def test_nodes_without_cpus_and_offline_cpus() -> None:
    state = made.state("h", made.adjacent_cores(1, 2), offline="4-5")
    state["cpu"]["nodes"].append(
        {"id": 7, "cpus": "", "memory_bytes": 80 * made.GIB, "distances": [40, 10], "kind": "gpu"}
    )
    state["pci"] = [made.function("0000:01:00.0", "0x030200", 7, vendor="0x10de")]
    picture = host_map(cast("Any", state), None)
    assert [(n.id, n.kind, n.memory) for n in picture.cpuless] == [(7, "gpu", "80 GiB")]
    assert [d.kind for d in picture.cpuless[0].devices] == ["GPU"]
    assert {c.cpu: c.role for c in picture.offline} == {4: "offline", 5: "offline"}
    assert picture.loose == []


def test_without_numa_everything_stands_in_one_box() -> None:
    state = made.state("h", made.adjacent_cores(1, 2), pages={})
    for core in state["cpu"]["cores"]:
        core["node"] = None
    state["cpu"]["nodes"] = []
    state["pci"] = [made.function("0000:01:00.0", "0x020000", None, netdevs=["eth0"])]
    picture = host_map(cast("Any", state), None)
    (box,) = picture.sockets[0][1]
    assert box.id is None and [d.name for d in box.devices] == ["eth0"] and box.memory == "1 GiB"


@pytest.mark.parametrize(
    ("isolated", "slices", "how", "reserved"),
    [
        ("2-3", {}, "kernel", "0-1"),
        ("", {"init.scope": "0-1", "system.slice": "0", "user.slice": None}, "cgroup", "0-1"),
        ("", {"init.scope": "0-3", "system.slice": "0"}, "none", ""),  # one slice may go everywhere
        ("", {}, "none", ""),
        (None, {}, "unknown", ""),
    ],
)
def test_partition_says_how_it_is_known(isolated: str | None, slices: dict[str, Any], how: str, reserved: str) -> None:
    state = made.state("h", made.adjacent_cores(1, 2), slices=slices)
    state["cpu"]["isolated"] = isolated
    state["confinement"]["slices"] = slices
    found = partition(cast("Any", state))
    assert (found.how, cpulist.format(found.reserved)) == (how, reserved)


def test_what_is_in_force_counts_more_than_what_is_set() -> None:
    state = made.state("h", made.adjacent_cores(1, 2), slices={"system.slice": "0-1"})
    state["confinement"]["effective"] = {"system.slice": "0-3"}
    assert partition(cast("Any", state)).how == "none"


def test_what_could_not_be_read_is_not_absent() -> None:
    state = made.state("h", made.adjacent_cores(1, 2))
    state["unread"] = [{"section": name, "reason": "r"} for name in ("confinement.slices", "memory", "iommu")]
    assert partition(cast("Any", state)).how == "unknown"
    picture = host_map(cast("Any", state), None)
    assert picture.sockets[0][1][0].no_pages == "huge pages not known"
    assert dict(facts(cast("Any", state)))["IOMMU"] == "not known"


@given(st.data())
def test_every_cpu_is_drawn_once_in_exactly_one_role(data: st.DataObject) -> None:
    sockets, nodes, cores = (data.draw(st.integers(1, 3)) for _ in range(3))
    every = made.core_list(sockets, nodes, cores, data.draw(st.booleans()))
    online = {c for core in every for c in cpulist.parse(core["cpus"])}
    isolated = data.draw(st.sets(st.sampled_from(sorted(online))))
    state = made.state("h", every, isolated=cpulist.format(isolated), offline="900")
    roles = drawn(host_map(cast("Any", state), None))
    assert set(roles) == online | {900}
    assert {cpu for cpu, role in roles.items() if role == "isolated"} == isolated
    assert {role for cpu, role in roles.items() if cpu not in isolated} <= {"reserved", "shared", "offline"}
