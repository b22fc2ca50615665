"""Reading runs: which one is chosen, and what happens with files that are not as they should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import report_fixtures as made

from nearmetal.errors import BAD_INTENT, NearmetalError
from nearmetal.report import collect as collecting
from nearmetal.report.build import render
from nearmetal.report.collect import collect, natural


def test_latest_run_that_changed_something_and_the_quiet_one_after_it(tmp_path: Path) -> None:
    found = collect(made.lab_rack(tmp_path), None, None)
    assert found.run is not None and found.run.id == "20261130T215500Z-cafe"
    assert [r.id for r in found.later] == ["20261130T215800Z-f00d"]
    assert found.bench is not None and sorted(found.bench.hosts) == ["compute1", "compute2"]
    assert found.notes == []


def test_a_quiet_run_of_another_rack_is_no_confirmation(tmp_path: Path) -> None:
    made.lab_rack(tmp_path)
    info = tmp_path / "runs" / "20261130T215800Z-f00d" / "run.json"
    info.write_text(json.dumps({**json.loads(info.read_text()), "inventory": "elsewhere"}))
    assert collect(tmp_path, None, None).later == []


def test_named_runs(tmp_path: Path) -> None:
    made.lab_rack(tmp_path)
    found = collect(tmp_path, "20261130T215800Z-f00d", "last")
    assert found.run is not None and found.run.id == "20261130T215800Z-f00d"
    assert found.bench is not None


@pytest.mark.parametrize(("run", "bench"), [("nope", None), (None, "nope"), ("../runs", None)])
def test_unknown_runs_name_what_there_is(tmp_path: Path, run: str | None, bench: str | None) -> None:
    made.lab_rack(tmp_path)
    with pytest.raises(NearmetalError, match="20261130T") as caught:
        collect(tmp_path, run, bench)
    assert caught.value.code == BAD_INTENT


def test_nothing_at_all(tmp_path: Path) -> None:
    found = collect(tmp_path / "absent", None, None)
    assert (found.run, found.bench, found.hosts) == (None, None, [])


def test_a_cut_journal_is_read_up_to_the_cut(tmp_path: Path) -> None:
    made.lab_rack(tmp_path)
    journal = tmp_path / "runs" / "20261130T215500Z-cafe" / "journal.jsonl"
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join([*lines[:3], '{"time": "2026-11-30T21', '"no object"']))
    found = collect(tmp_path, None, None)
    assert found.run is not None and len(found.run.journal) == 3
    assert [n for n in found.notes if "line 4" in n] and [n for n in found.notes if "line 5" in n]


@pytest.mark.parametrize("damage", [{"cpu": None}, {"pci": "x"}, {"kvm": "maybe"}])
def test_a_damaged_state_is_named_and_left_out(tmp_path: Path, damage: dict[str, Any]) -> None:
    made.lab_rack(tmp_path)
    path = tmp_path / "runs" / "20261130T215500Z-cafe" / "states" / "compute1.after.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    found = collect(tmp_path, None, None)
    assert found.run is not None and "compute1" not in found.run.after
    assert any("compute1.after.json is no document of host_info: " in note for note in found.notes)
    assert "compute1.after.json" in render(found)


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in [(*at, k), *_paths(v, (*at, k))]]
    return [p for i, v in enumerate(value) for p in _paths(v, (*at, i))] if isinstance(value, list) else []


def test_a_state_of_an_older_version_is_shown_whatever_unneeded_field_it_lacks(tmp_path: Path) -> None:
    made.lab_rack(tmp_path)
    path = tmp_path / "runs" / "20261130T215500Z-cafe" / "states" / "compute1.after.json"
    whole = path.read_text()
    unneeded = [p for p in _paths(json.loads(whole)) if p[-1] not in collecting.USED and "slices" not in p]
    assert len(unneeded) > 20
    older = json.loads(whole)
    for place in sorted(unneeded, key=len, reverse=True):
        inner = older
        for key in place[:-1]:
            inner = inner[key]
        inner.pop(place[-1], None)
    path.write_text(json.dumps(older))
    found = collect(tmp_path, None, None)
    assert found.run is not None and "compute1" in found.run.after
    assert "compute1" in render(found)


def test_names_sort_as_people_count() -> None:
    assert sorted(["n10", "n2", "n1b", "n1"], key=natural) == ["n1", "n1b", "n2", "n10"]
