"""Statistics, store and command line of the benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from nearmetal.bench import cli, comparison, stats, store
from nearmetal.bench.results import HostResults
from nearmetal.errors import BAD_INTENT, NearmetalError

BASE = [100.0, 101, 99, 100.5, 99.5]


def results(
    host: str = "n1", vm: list[float] | None = None, emulated: bool = False, ok: bool = True
) -> dict[str, Any]:
    values = {"bare_metal": BASE, "matched_pinned": vm or [80.0, 81, 79, 80.5, 79.5]}
    threads = {"allowed": "4", "seen": "4", "migrations": None, "involuntary_switches": 2}
    runs = [
        {
            "scenario": name, "round": i, "position": 0, "benchmark": "stress-ng matrix", "value": v, "unit": "bogo ops/s",
            "seconds": 1.0, "ok": True, "threads": [{"name": "vcpu0", **threads}],
            "memory": [{"node": 1, "bytes": 2**27, "page_kb": 2048}],
        }
        for name, figures in values.items()
        for i, v in enumerate(figures)
    ]  # fmt: skip
    runs.append({**runs[0], "value": 0.0, "ok": False, "error": "odd", "threads": [], "memory": []})
    scenarios = [
        {"name": "bare_metal", "number": 0, "title": "", "description": "", "host_cpus": "4-7"},
        {
            "name": "matched_pinned", "number": 1, "title": "", "description": "", "placement_ok": ok,
            "pins": [{"vcpu": 0, "host_cpu": 4}], "placement_problems": [] if ok else ["round 0: vcpu0 was seen on 5"],
        },
    ]  # fmt: skip
    return {
        "schema": 1, "run": "r1", "host": host, "started": "2026-11-30T00:00:00Z", "emulated": emulated,
        "emulation_reason": "this host is emulated" if emulated else "", "benchmark_source": "stress-ng 1", "kernel": "6",
        "qemu": "10", "libvirt": "11", "scenarios": scenarios, "runs": runs, "unread": ["nr_migrations: not kept"],
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEARMETAL_STATE_DIR", str(tmp_path))
    return tmp_path / "bench"


def save(folder: Path, run: str, document: dict[str, Any]) -> None:
    (folder / run).mkdir(parents=True, exist_ok=True)
    (folder / run / f"{document['host']}.json").write_text(json.dumps(document))


def test_failed_runs_are_counted_not_averaged() -> None:
    runs = HostResults.model_validate(results()).runs
    summary = stats.summarize([r for r in runs if r.scenario == "bare_metal"])
    assert (summary.n, summary.failed, summary.median) == (5, 1, 100.0)
    assert summary.spread == pytest.approx(0.01)
    assert stats.summarize([]).median is None
    assert stats.summarize(runs[:1]).spread is None


def test_a_clear_difference_is_distinguishable_and_noise_is_not() -> None:
    slower = stats.ratio([80, 81, 79, 80.5, 79.5], BASE)
    assert slower is not None
    assert slower.value == 0.8
    assert slower.distinguishable
    same = stats.ratio([99, 102, 98, 101, 100], BASE)
    assert same is not None
    assert not same.distinguishable


def test_lower_is_better_turns_the_ratio_round() -> None:
    found = stats.ratio([2.0, 2.0, 2.0], [1.0, 1.0, 1.0], higher_is_better=False)
    assert found is not None
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(("side", "base"), [([], [1.0, 2.0]), ([1.0], [1.0, 2.0]), ([0.0, 1.0], [1.0, 2.0])])
def test_too_little_for_a_ratio(side: list[float], base: list[float]) -> None:
    assert stats.ratio(side, base) is None


figures = st.lists(st.floats(1, 1e6), min_size=2, max_size=7)


@settings(deadline=None, max_examples=30)
@given(figures, figures)
def test_the_ratio_lies_in_its_interval_and_its_inverse_is_the_other_way(
    side: list[float], base: list[float]
) -> None:
    there, back = stats.ratio(side, base), stats.ratio(base, side)
    assert there is not None
    assert back is not None
    assert there.low <= there.high
    assert min(side) / max(base) * 0.999 <= there.low
    assert there.value * back.value == pytest.approx(1)


def test_store_finds_runs_with_results_only(folder: Path) -> None:
    save(folder, "a", results())
    (folder / "b" / "ansible").mkdir(parents=True)
    assert store.runs() == ["a"]
    assert [r.host for r in store.load("last")] == ["n1"]
    with pytest.raises(NearmetalError, match="no benchmark run b; there are: a") as err:
        store.load("b")
    assert err.value.code == BAD_INTENT


def test_store_names_the_damaged_file(folder: Path) -> None:
    save(folder, "a", {**results(), "emulated": "perhaps"})
    with pytest.raises(NearmetalError, match=r"n1.json is no benchmark result: emulated"):
        store.load("a")


def test_no_runs_at_all(folder: Path) -> None:
    with pytest.raises(NearmetalError, match="none yet"):
        store.load("last")
    assert "no benchmark runs yet" in CliRunner().invoke(cli.app, ["list"]).output


def test_comparison_document(folder: Path) -> None:
    now, before = HostResults.model_validate(results()), HostResults.model_validate(results(vm=BASE))
    side = comparison.document([now], [before])["hosts"]["n1"]["benchmarks"]["stress-ng matrix"]["sides"]
    assert side["bare_metal"]["ratio"] is None
    assert side["bare_metal"]["failed"] == 1
    assert side["matched_pinned"]["ratio"]["value"] == 0.8
    assert side["matched_pinned"]["ratio"]["distinguishable"] is True
    assert side["matched_pinned"]["since"]["value"] == 0.8
    assert side["bare_metal"]["since"]["distinguishable"] is False


def test_compare_prints_figures_and_placement(folder: Path) -> None:
    save(folder, "a", results(ok=False))
    output = CliRunner().invoke(cli.app, ["compare", "a"]).output
    assert "0.800 (0.7" in output
    assert "vcpu0 was seen on 5" in output
    assert "node 1 (2048 kB" in output
    assert "not kept" in output
    assert all(len(line) <= 100 for line in output.splitlines())


def test_emulated_hosts_have_figures_without_meaning(folder: Path) -> None:
    save(folder, "a", results(emulated=True))
    output = " ".join(CliRunner().invoke(cli.app, ["compare"]).output.split())
    assert "this host is emulated" in output
    assert "mean nothing" in output
    assert "no meaning" in output


def test_two_runs_without_a_common_host(folder: Path) -> None:
    save(folder, "a", results())
    save(folder, "b", results("n2"))
    result = CliRunner().invoke(cli.app, ["compare", "a", "b"])
    assert isinstance(result.exception, NearmetalError)
    assert "no host in common" in result.exception.message


def test_list_json(folder: Path) -> None:
    save(folder, "a", results())
    rows = json.loads(CliRunner().invoke(cli.app, ["list", "--json"]).output)
    assert rows == [
        {
            "run": "a", "hosts": ["n1"], "scenarios": ["bare_metal", "matched_pinned"], "runs": 11, "failed": 1,
            "emulated": False,
        }
    ]  # fmt: skip


def test_run_needs_an_inventory_that_is_there(folder: Path) -> None:
    result = CliRunner().invoke(cli.app, ["run", "-i", str(folder / "none")])
    assert isinstance(result.exception, NearmetalError)
    assert result.exception.code == BAD_INTENT
