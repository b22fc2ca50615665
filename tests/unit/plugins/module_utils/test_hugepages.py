"""Huge pages: sizes and command lines, what is wanted and refused, and that it comes to rest."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import hugepage_sizes as sizes
from ansible_collections.nearmetal.rack.plugins.module_utils import hugepages as runtime
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities import hugepages
from ansible_collections.nearmetal.rack.plugins.module_utils.model import REBOOT, IntentError
from host_states import GIB, changed, machines, state, unhurried
from hypothesis import given
from hypothesis import strategies as st

M2, G1 = 2048, 1 << 20


def options(pages: list[dict[str, Any]], **given_options: Any) -> dict[str, Any]:
    full = [{"node": None, **page} for page in pages]
    return {"pages": full, "default_size": "", "method": "auto", "persist": True, **given_options}


def with_pools(machine: dict[str, Any], **pools: tuple[int, int]) -> dict[str, Any]:
    """pools: n0_2048=(total, free)."""
    new = changed(machine)
    for pool in new["memory"]["hugepages"]:
        total, free = pools.get(f"n{pool['node']}_{pool['size_kb']}", (pool["total"], pool["free"]))
        pool.update(total=total, free=free)
    return new


def converged(wanted: dict[str, Any], machine: dict[str, Any]) -> dict[str, Any]:
    """The machine after all that was decided was done, and after a reboot."""
    new = changed(machine)
    request = hugepages.cmdline(wanted, machine)
    kept = [w for w in machine["kernel"]["cmdline"].split() if not w.startswith("hugepages")]
    same = machine["kernel"]["cmdline"].split() if not request else None
    line = " ".join(same or [*kept, *request.args])
    new["kernel"]["cmdline"] = new["boot"]["configured"] = line
    for (node, kb), count in runtime.resolve(wanted["pages"], machine).items():
        new = with_pools(new, **{f"n{node}_{kb}": (count, count)})
    call = hugepages.decide(wanted, machine).call
    if call is not None:
        pools = runtime.resolve(call.args["pages"], machine)
        files = runtime.files(pools, call.args["persist"])
        new["confinement"]["files"] = {p: t for p, t in files.items() if t is not None}
    return new


@st.composite
def wishes(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    machine = draw(machines())
    nodes = [n["id"] for n in machine["cpu"]["nodes"]]
    pages = []
    for size, most in (("2M", 200), ("1GB", 5)):
        if draw(st.booleans()):
            pages.append({"size": size, "count": draw(st.integers(0, most))})
        else:
            chosen = draw(st.lists(st.sampled_from(nodes), unique=True))
            pages += [{"size": size, "node": n, "count": draw(st.integers(0, most))} for n in chosen]
    machine["kernel"]["release"] = draw(st.sampled_from(["6.12.5", "5.14.0-503.el9", "5.16.0"]))
    line = draw(st.sampled_from(["quiet", "hugepagesz=1G hugepages=2 hugepagesz=2M hugepages=512", "hugepages=64"]))
    machine["kernel"]["cmdline"] = machine["boot"]["configured"] = line
    method = draw(st.sampled_from(["auto", "runtime", "boot"]))
    return options(pages, method=method, persist=draw(st.booleans())), machine


@unhurried
@given(wishes())
def test_what_was_done_is_not_done_again(wish: tuple[dict[str, Any], dict[str, Any]]) -> None:
    wanted, machine = wish
    assert hugepages.problems(wanted) == []
    done = converged(wanted, machine)
    again = hugepages.decide(wanted, done)
    assert (again.steps, again.problems, again.call) == ((), (), None)
    before, after = hugepages.cmdline(wanted, done), done["kernel"]["cmdline"]
    words = [w for w in after.split() if w.startswith("hugepages")]
    assert list(before.args) in ([], words)
    assert not before.absent or not words


@unhurried
@given(st.integers(0, 10000), st.sets(st.integers(0, 50), min_size=1, max_size=8))
def test_spread_is_even_and_complete(total: int, nodes: set[int]) -> None:
    counts = sizes.spread(total, frozenset(nodes))
    assert sum(counts.values()) == total
    assert max(counts.values()) - min(counts.values()) <= 1
    assert list(counts) == sorted(nodes)


@pytest.mark.parametrize(
    ("text", "size"), [("2M", M2), ("2MB", M2), (" 2MiB ", M2), ("2048kB", M2), ("1g", G1), ("1GB", G1), ("64K", 64)]
)
def test_sizes(text: str, size: int) -> None:
    assert sizes.parse(text) == size
    assert sizes.parse(sizes.format(size)) == size


@pytest.mark.parametrize("text", ["", "2", "2X", "0M", "-2M", "1.5G", "2M,"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="no page size"):
        sizes.parse(text)


def test_pools_of_a_command_line() -> None:
    line = "quiet hugepages=8 hugepagesz=1G hugepages=0:2,1:3 console=ttyS0 hugepagesz=2M"
    assert [(p.size_kb, p.counts) for p in sizes.pairs(line, M2)] == [(M2, 8), (G1, {0: 2, 1: 3}), (M2, 0)]
    assert sizes.default_size("default_hugepagesz=1G") == G1
    assert sizes.default_size("quiet") is None


@pytest.mark.parametrize(
    ("release", "knows"),
    [("5.16.0", True), ("6.1", True), ("5.15.9", False), ("4.18.0-513.el8", False), ("", False)],
)
def test_counts_per_node_need_linux_5_16(release: str, knows: bool) -> None:
    assert sizes.per_node(release) is knows


def test_uneven_1g_pages_are_asked_for_at_boot_and_wait_for_it() -> None:
    wanted = options([{"size": "1G", "node": 0, "count": 4}, {"size": "1G", "node": 1, "count": 8}])
    assert hugepages.cmdline(wanted, state()).args == ("hugepagesz=1G", "hugepages=0:4,1:8")
    found = hugepages.decide(wanted, state())
    assert [(s.key, s.after, s.disruption) for s in found.steps] == [
        ("node0-1048576kB", "4 pages", "reboot"), ("node1-1048576kB", "8 pages", "reboot"),
    ]  # fmt: skip
    assert all(REBOOT in s.requires for s in found.steps)
    assert found.call is None


def test_2m_pages_are_reserved_now_and_kept() -> None:
    wanted = options([{"size": "2M", "count": 5}])
    assert not hugepages.cmdline(wanted, state())
    found = hugepages.decide(wanted, state())
    assert [s.key for s in found.steps] == ["node0-2048kB", "node1-2048kB", "persist"]
    assert {s.disruption for s in found.steps} == {"none"}
    assert found.call.args["pages"] == [{"size": "2M", "node": 0, "count": 3}, {"size": "2M", "node": 1, "count": 2}]


def test_pages_are_not_spread_over_nodes_without_cpus() -> None:
    pools = runtime.resolve(options([{"size": "2M", "count": 10}])["pages"], state(extra_nodes=[8, 250]))
    assert pools == {(0, M2): 5, (1, M2): 5}


def test_arguments_of_other_sizes_stay_exactly() -> None:
    line = "hugepages=16 quiet hugepagesz=1G hugepages=2"
    machine = state(cmdline=line)
    wanted = options([{"size": "1G", "node": 1, "count": 6}])
    assert hugepages.cmdline(wanted, machine).args == ("hugepages=16", "hugepagesz=1G", "hugepages=0:1,1:6")
    same = options([{"size": "1G", "node": 0, "count": 1}, {"size": "1G", "node": 1, "count": 1}])
    assert hugepages.cmdline(same, machine).args == ("hugepages=16", "hugepagesz=1G", "hugepages=2")


def test_size_that_run_time_manages_leaves_the_command_line() -> None:
    machine = state(cmdline="hugepagesz=2M hugepages=512 hugepagesz=1G hugepages=2")
    assert hugepages.cmdline(options([{"size": "2M", "count": 8}]), machine).args == ("hugepagesz=1G", "hugepages=2")
    alone = state(cmdline="hugepages=512")
    assert hugepages.cmdline(options([{"size": "2M", "count": 8}]), alone).absent == ("hugepagesz", "hugepages")


def test_removing_boot_pages_frees_them_now_and_takes_the_arguments_away() -> None:
    machine = with_pools(state(cmdline="hugepagesz=1G hugepages=4"), n0_1048576=(2, 2), n1_1048576=(2, 2))
    wanted = options([{"size": "1G", "count": 0}])
    assert hugepages.cmdline(wanted, machine).absent == ("hugepagesz", "hugepages")
    found = hugepages.decide(wanted, machine)
    assert [(s.key, s.after, s.disruption) for s in found.steps] == [
        ("node0-1048576kB", "0 pages", "none"), ("node1-1048576kB", "0 pages", "none"),
    ]  # fmt: skip
    assert {(p["node"], p["count"]) for p in found.call.args["pages"]} == {(0, 0), (1, 0)}


def test_kernel_that_gave_fewer_pages_than_it_was_booted_for() -> None:
    machine = with_pools(state(cmdline="hugepagesz=1G hugepages=0:4,1:4"), n0_1048576=(4, 4), n1_1048576=(3, 3))
    found = hugepages.decide(options([{"size": "1G", "count": 8}]), machine)
    assert found.steps == ()
    assert [(p.kind, p.message) for p in found.problems] == [
        ("host", "node 1: the kernel was booted for 4 pages of 1G and has 3"),
    ]  # fmt: skip


def test_old_kernel_takes_even_counts_only() -> None:
    old = state(release="5.14.0-503.el9")
    even = options([{"size": "1G", "count": 8}])
    assert hugepages.cmdline(even, old).args == ("hugepagesz=1G", "hugepages=8")
    uneven = options([{"size": "1G", "node": 1, "count": 8}])
    assert not hugepages.cmdline(uneven, old)
    found = hugepages.decide(uneven, old)
    assert found.call.args["pages"] == [{"size": "1G", "node": 1, "count": 8}]
    assert "takes no counts per node" in found.warnings[0]


def test_default_size() -> None:
    assert hugepages.cmdline(options([], default_size="1GB"), state()).args == ("default_hugepagesz=1G",)
    assert not hugepages.cmdline(options([]), state())


def test_never_below_the_pages_in_use() -> None:
    machine = with_pools(state(), n0_2048=(64, 20))
    problem = hugepages.decide(options([{"size": "2M", "node": 0, "count": 10}]), machine).problems[0]
    assert (problem.kind, problem.variable) == ("host", "hugepages_pages")
    assert problem.message == "node 0: 44 of 64 pages of 2M are in use, 10 were asked for"
    assert "at least 44" in problem.fix
    assert hugepages.decide(options([{"size": "2M", "node": 0, "count": 44}]), machine).problems == ()


@pytest.mark.parametrize(
    ("page", "fragment"),
    [
        ({"size": "16M", "count": 1}, "this host has no huge pages of 16M"),
        ({"size": "2M", "node": 7, "count": 1}, "NUMA node 7 is not there"),
        ({"size": "2M", "count": -1}, "-1 pages cannot be reserved"),
        ({"size": "big", "count": 1}, "no page size"),
        (
            {"size": "1G", "node": 0, "count": 61},
            "node 0: huge pages of 62464 MiB (61 x 1G) do not fit into 95 % of its memory of 65536 MiB",
        ),
    ],
)
def test_what_cannot_be_is_one_clear_problem(page: dict[str, Any], fragment: str) -> None:
    with pytest.raises(IntentError) as caught:
        hugepages.cmdline(options([page]), state())
    (problem,) = caught.value.found
    assert (problem.variable, problem.kind) == ("hugepages_pages", "intent")
    assert fragment in problem.message
    assert problem.fix


def test_pools_that_are_not_listed_count_against_the_memory() -> None:
    machine = with_pools(state(memory=8 * GIB), n0_2048=(2048, 2048))
    runtime.resolve([{"size": "1G", "node": 0, "count": 3}], machine)
    with pytest.raises(IntentError, match="3 pages|4 x 1G"):
        runtime.resolve([{"size": "1G", "node": 0, "count": 4}], machine)


@pytest.mark.parametrize(
    "pages",
    [
        [{"size": "2M", "count": 1}, {"size": "2MB", "count": 2}],
        [{"size": "2M", "node": 0, "count": 1}, {"size": "2M", "node": 0, "count": 1}],
        [{"size": "2M", "node": 0, "count": 1}, {"size": "2M", "count": 1}],
    ],
)
def test_the_same_pool_twice_is_found_without_a_host(pages: list[dict[str, Any]]) -> None:
    assert [p.message for p in hugepages.problems(options(pages))] == ["pages of 2M are given twice for the same node"]
    with pytest.raises(IntentError):
        runtime.resolve(options(pages)["pages"], state())


def test_bad_default_size_is_found_without_a_host() -> None:
    assert [p.variable for p in hugepages.problems(options([], default_size="huge"))] == ["hugepages_default_size"]


def test_image_without_sys_takes_named_nodes_only() -> None:
    image = changed(state(live=False), memory={"hugepages": [], "hugepage_sizes_kb": []})
    assert runtime.resolve([{"size": "2M", "node": 1, "count": 9}], image) == {(1, M2): 9}
    with pytest.raises(IntentError, match="spread"):
        runtime.resolve([{"size": "2M", "node": None, "count": 9}], image)


def script(tmp_path: Path, pools: runtime.Pools) -> subprocess.CompletedProcess[str]:
    text = runtime.files(pools, True)[runtime.SCRIPT]
    assert text is not None
    path = tmp_path / "script"
    path.write_text(text.replace("=/sys/", f"={tmp_path}/sys/").replace("> /proc/", f"> {tmp_path}/proc/"))
    return subprocess.run(["sh", str(path)], capture_output=True, text=True, check=False)


def pool_file(tmp_path: Path, node: int) -> Path:
    path = tmp_path / f"sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages"
    path.parent.mkdir(parents=True)
    path.write_text("0\n")
    return path


def test_boot_script_fills_the_pools(tmp_path: Path) -> None:
    files = [pool_file(tmp_path, 0), pool_file(tmp_path, 1)]
    done = script(tmp_path, {(0, M2): 64, (1, M2): 128})
    assert (done.returncode, done.stderr) == (0, "")
    assert [f.read_text() for f in files] == ["64\n", "128\n"]


def test_boot_script_fails_where_the_kernel_gives_fewer(tmp_path: Path) -> None:
    file = pool_file(tmp_path, 1)
    file.unlink()
    file.symlink_to("/dev/null")  # takes the number and gives none
    (tmp_path / "proc/sys/vm").mkdir(parents=True)
    done = script(tmp_path, {(1, M2): 128})
    assert done.returncode == 1
    assert "node 1: asked for 128 huge pages of 2048 kB, got" in done.stderr
    assert (tmp_path / "proc/sys/vm/compact_memory").read_text() == "1\n"
