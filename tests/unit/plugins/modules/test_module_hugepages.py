"""The module hugepages on a small running system, and on a tree."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import hugepages
from ansible_collections.nearmetal.rack.plugins.module_utils.host import FileHost, HostError
from ansible_collections.nearmetal.rack.plugins.module_utils.model import IntentError
from ansible_collections.nearmetal.rack.plugins.modules.hugepages import converge
from fake_system import NODE, System, tree

POOL = NODE + "/node%d/hugepages/hugepages-2048kB/nr_hugepages"


def params(*counts: int, persist: bool = True) -> dict[str, Any]:
    pages = [{"size": "2M", "node": node, "count": count} for node, count in enumerate(counts)]
    return {"pages": pages, "persist": persist, "root": "/"}


def test_uneven_pools_and_rest() -> None:
    system = System(tree())
    first = converge(system, params(64, 128), check=False)
    assert [s["key"] for s in first["steps"]] == ["node0-2048kB", "node1-2048kB", "persist"]
    assert [(p["node"], p["total"]) for p in first["pools"]] == [(0, 64), (1, 128)]
    assert "pool 1 2048 128\n" in system.read(hugepages.SCRIPT)
    system.log.clear()
    second = converge(system, params(64, 128), check=False)
    assert (second["changed"], second["diff"], system.log) == (False, [], [])


def test_check_mode_says_the_same_and_does_nothing() -> None:
    system = System(tree(pages=8))
    before = copy.deepcopy(system.files)
    checked = converge(system, params(64, 8), check=True)
    assert (system.files, system.log) == (before, [])
    done = converge(system, params(64, 8), check=False)
    assert {k: checked[k] for k in ("changed", "steps", "diff")} == {k: done[k] for k in ("changed", "steps", "diff")}
    assert checked["diff"][0]["before"].splitlines()[0] == "node0-2048kB: 8 pages of 2M (8 free)"
    assert checked["diff"][0]["after"].splitlines()[0] == "node0-2048kB: 64 pages"


def test_shrinks_before_it_grows() -> None:
    system = System(tree(pages=100))
    converge(system, params(200, 10), check=False)
    pokes = [line for line in system.log if "nr_hugepages" in line]
    assert pokes == [f"poke {POOL % 1} 10", f"poke {POOL % 0} 200"]


def test_kernel_gives_fewer_after_all_was_tried() -> None:
    system = System(tree(), room=50)
    with pytest.raises(HostError) as caught:
        converge(system, params(64), check=False)
    assert "node 0: asked for 64 pages of 2M, got 50" in str(caught.value)
    tried = [line.split()[1] for line in system.log if line.startswith("poke /proc")]
    assert [path.rpartition("/")[2] for path in tried] == ["compact_memory", "drop_caches", "compact_memory"]


def test_without_persist_nothing_is_kept() -> None:
    system = System(tree())
    converge(system, params(4, 4), check=False)
    assert converge(system, params(4, 4, persist=False), check=False)["changed"]
    assert not set(hugepages.FILES) & set(system.files)


def test_count_0_gives_all_back() -> None:
    system = System(tree())
    paths = set(system.files)
    converge(system, params(4, 4), check=False)
    converge(system, params(0, 0), check=False)
    assert set(system.files) == paths
    assert system.get(POOL % 0) == "0"
    assert not converge(system, params(0, 0), check=False)["changed"]


def test_pages_in_use_are_refused_before_anything_is_touched() -> None:
    files = tree(pages=64)
    files[(POOL % 0).replace("nr_", "free_")] = "10\n"
    system = System(files)
    with pytest.raises(IntentError, match="54 of 64 pages of 2M are in use"):
        converge(system, params(20, 64), check=False)
    assert system.log == []


def test_beyond_the_memory_of_a_node() -> None:
    with pytest.raises(IntentError, match="node 1: huge pages of 4000 MiB"):
        converge(System(tree()), params(10, 2000), check=False)


def test_tree_gets_the_files_only(tmp_path: Path) -> None:
    host = FileHost(str(tmp_path))
    (tmp_path / "etc").mkdir()
    assert converge(host, params(64, 128), check=False)["changed"]
    assert "pool 0 2048 64\npool 1 2048 128\n" in (tmp_path / hugepages.SCRIPT.lstrip("/")).read_text()
    assert (tmp_path / hugepages.WANTED.lstrip("/")).exists()
    assert not converge(host, params(64, 128), check=False)["changed"]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ({"size": "2M", "node": -1, "count": 1}, "NUMA node -1 cannot be"),
        ({"size": "3M", "node": 0, "count": 1}, "no machine has pages of 3M"),
        ({"size": "2M", "count": 1}, "no /sys to spread pages by"),
    ],
)
def test_image_refuses_what_no_machine_has(tmp_path: Path, page: dict[str, Any], message: str) -> None:
    with pytest.raises(IntentError, match=message):
        converge(FileHost(str(tmp_path)), {"pages": [page], "persist": True}, check=False)
    assert not list(tmp_path.iterdir())


def test_total_without_a_node_to_spread_over(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel/mm/hugepages/hugepages-2048kB").mkdir(parents=True)
    (tmp_path / "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").write_text("0\n")
    with pytest.raises(IntentError, match="no NUMA node with CPUs and memory is known"):
        converge(FileHost(str(tmp_path)), {"pages": [{"size": "2M", "count": 4}], "persist": True}, check=False)
