"""Running sides in rounds, and talking to virsh and to a guest; with stand-ins for the programs."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import bench_guest, bench_runner, bench_sides
from ansible_collections.nearmetal.rack.plugins.module_utils.bench_scenarios import (
    BARE_METAL,
    BenchError,
    Side,
)
from ansible_collections.nearmetal.rack.plugins.module_utils.host import FileHost, SnapshotHost

OPTIONS = bench_runner.Options(
    scenarios=["matched_pinned"], cores=2, cpus="", memory_mb=128, hugepages="auto", workers=0, stressor="matrix",
    stressor_args=[], seconds=1, rounds=2, max_rounds=6, interval=0.05, boot_timeout=10,
)  # fmt: skip


def a_side(name: str) -> Side:
    return Side(name, 1, "", "", (1, 1, 1), (), (((0,), 0),), frozenset({1}), frozenset())


class Fake:
    """A side that gives the figures it is told to, or raises them."""

    def __init__(self, name: str, values: list[float | Exception], log: list[str]) -> None:
        self.side, self.values, self.log = a_side(name), values, log

    def run(self, load: bench_sides.Load) -> bench_sides.Outcome:
        self.log.append(self.side.name)
        value = self.values.pop(0) if len(self.values) > 1 else self.values[0]
        if isinstance(value, Exception):
            raise value
        return bench_sides.Outcome(value, 1.0, {"threads": [], "memory": [], "interrupts": {}})

    def problems(self, run: Mapping[str, Any]) -> list[str]:
        return ["moved"] if run["value"] == 99 else []

    def close(self) -> None: ...


def rounds(**values: list[float | Exception]) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    log: list[str] = []
    sides: dict[str, Any] = {name: Fake(name, v, log) for name, v in values.items()}
    runs, notes = bench_runner.run_rounds(sides, OPTIONS.load(), OPTIONS)
    return runs, notes, log


def test_rounds_alternate_and_stop_when_the_ratio_is_known() -> None:
    runs, notes, log = rounds(bare_metal=[100], vm=[98])
    assert log == ["bare_metal", "vm", "vm", "bare_metal"]
    assert [(r["round"], r["position"]) for r in runs] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert notes == []


def test_noise_runs_on_to_the_limit() -> None:
    runs, _notes, _log = rounds(bare_metal=[100, 60, 140, 90, 130, 70], vm=[98, 50, 120])
    assert max(r["round"] for r in runs) == OPTIONS.max_rounds - 1


def test_a_failed_run_is_kept_and_the_side_goes_on() -> None:
    runs, notes, _log = rounds(bare_metal=[100], vm=[ValueError("odd output"), 98])
    failed = [r for r in runs if not r["ok"]]
    assert [(r["scenario"], r["error"], r["value"]) for r in failed] == [("vm", "odd output", 0.0)]
    assert notes == []
    assert sum(r["scenario"] == "vm" for r in runs) > 1


def test_a_lost_guest_is_noted_and_the_others_go_on() -> None:
    runs, notes, log = rounds(bare_metal=[100], vm=[98], other=[BenchError("the guest is gone")])
    assert log.count("other") == 1
    assert notes == ["other was lost in round 0: the guest is gone"]
    assert sum(r["scenario"] == "vm" for r in runs) == 2


@pytest.mark.parametrize("lost", ["bare_metal", "vm"])
def test_nothing_left_to_compare(lost: str) -> None:
    sides: dict[str, list[float | Exception]] = {"bare_metal": [100], "vm": [98]}
    sides[lost] = [BenchError("gone")]
    with pytest.raises(BenchError, match="nothing is left to compare.*gone"):
        rounds(**sides)


def test_a_benchmark_that_never_works_is_an_error() -> None:
    with pytest.raises(BenchError, match="never succeeded: no such option"):
        rounds(bare_metal=[100], vm=[ValueError("no such option")])


def test_judgement_lists_every_problem_and_says_nothing_without_a_good_run() -> None:
    side: Any = Fake("vm", [99], [])
    document = {"placement_problems": ["sees too much"]}
    bench_runner._judge(
        document, side, [{"ok": True, "value": 99, "round": 3}, {"ok": False, "value": 99, "round": 4}]
    )
    assert document == {"placement_problems": ["sees too much", "round 3: moved"], "placement_ok": False}
    unknown: dict[str, Any] = {"placement_problems": []}
    bench_runner._judge(unknown, side, [])
    assert unknown["placement_ok"] is None


FAKE_VIRSH = """#!/bin/sh
while read -r word rest; do
  echo "virsh # $word $rest"
  case $word in
  echo) echo "$rest" ;;
  create) echo "error: Failed to create domain"; echo "error: no room" ;;
  list) echo nearmetal-bench-a; echo other ;;
  destroy) echo "$rest" >>"$DESTROYED" ;;
  quit) exit 3 ;;
  esac
done
echo ended >>"$DESTROYED"
"""


@pytest.fixture
def virsh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    program = tmp_path / "virsh"
    program.write_text(FAKE_VIRSH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("DESTROYED", str(tmp_path / "destroyed"))
    found = bench_guest.Virsh(str(tmp_path / "log"))
    yield found
    found.close()


def test_virsh_errors_are_raised_with_its_words(virsh: bench_guest.Virsh) -> None:
    with pytest.raises(BenchError, match="create x: error: Failed to create domain error: no room"):
        virsh.run("create x")
    assert "other" in virsh.run("list")  # the connection goes on


def test_only_our_leftovers_are_destroyed(virsh: bench_guest.Virsh, tmp_path: Path) -> None:
    assert bench_guest.remove_leftovers(virsh) == ["nearmetal-bench-a"]
    assert (tmp_path / "destroyed").read_text() == "nearmetal-bench-a\n"


def test_virsh_that_ends_is_noticed(virsh: bench_guest.Virsh) -> None:
    with pytest.raises(BenchError, match="no answer|ended"):
        virsh.run("quit", timeout=10)


def test_closing_ends_virsh(virsh: bench_guest.Virsh, tmp_path: Path) -> None:
    virsh.close()
    assert (tmp_path / "destroyed").read_text() == "ended\n"


@pytest.fixture
def line(tmp_path: Path) -> Any:
    """(console, the guest's end of its serial line)."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        console = bench_guest.Console(path)
        guest, _address = server.accept()
        yield console, guest
        console.close()
        guest.close()


def test_answers_are_told_from_kernel_messages(line: Any) -> None:
    console, guest = line
    guest.sendall(b'[ 1.0] boot\r\n{"broken\n{"ready": tr')
    threading.Timer(0.05, guest.sendall, [b'ue}\n{"id": 1}\n']).start()
    assert console.answer(5) == {"ready": True}
    assert console.answer(5) == {"id": 1}
    assert console.answer(0.01) is None
    assert "boot" in console.last_words


def test_a_guest_that_ends_leaves_its_last_words(line: Any) -> None:
    console, guest = line
    guest.sendall(b"Kernel panic - not syncing\n")
    guest.close()
    with pytest.raises(BenchError, match="last words: Kernel panic"):
        console.answer(5)


def test_no_console(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="cannot reach the guest's console"):
        bench_guest.Console(str(tmp_path / "none"), timeout=0.05)


FAKE_STRESS = """#!/bin/sh
echo "stress-ng: metrc: [1] matrix 100 2.0 2.0 0.0 50.0 50.0"
"""


def test_bare_metal_adds_its_workers_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "stress-ng"
    program.write_text(FAKE_STRESS)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(bench_sides, "_in_slice", lambda: False)
    cpu = min(os.sched_getaffinity(0))
    bare = bench_sides.BareMetalSide(FileHost(), a_side(BARE_METAL), [cpu, cpu], str(tmp_path))
    assert bare.run(bench_sides.Load("matrix", (), 2, 1)).value == 100


def test_a_worker_that_cannot_be_pinned_is_a_failed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_sides, "_in_slice", lambda: False)
    bare = bench_sides.BareMetalSide(FileHost(), a_side(BARE_METAL), [8000], str(tmp_path))
    with pytest.raises(ValueError, match="gave no figures for matrix.*taskset"):
        bare.run(bench_sides.Load("matrix", (), 1, 1))


def test_the_plan_says_why_a_scenario_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = [{"cpus": str(c), "node": 0, "socket": 0, "kind": ""} for c in range(4)]
    state = {
        "cpu": {"arch": "x86_64", "online": "0-3", "isolated": "1-3", "cores": cores},
        "memory": {"hugepages": [{"node": 0, "size_kb": 2048, "free": 512, "total": 512, "surplus": 0}]},
    }
    host = SnapshotHost({"/proc/cpuinfo": ""})
    monkeypatch.setattr(host, "run", lambda argv, **_k: bench_guest_result(argv))
    options = bench_runner.Options(**{**vars(OPTIONS), "scenarios": ["matched_pinned", "smt_hidden"]})
    plan = bench_runner.make_plan(host, state, options)
    assert [s.name for s in plan.sides] == [BARE_METAL, "matched_pinned"]
    assert plan.notes == ["scenario smt_hidden left out: the host has no SMT, or it is off"]
    assert plan.guest.hugepages_kb == 2048
    with pytest.raises(BenchError, match="no scenario asked for makes sense"):
        bench_runner.make_plan(
            host, state, bench_runner.Options(**{**vars(OPTIONS), "scenarios": ["smt_hidden"]})
        )


def bench_guest_result(argv: list[str]) -> Any:
    from ansible_collections.nearmetal.rack.plugins.module_utils.host import Result

    assert argv[-1] == "capabilities"
    return Result(0, "<machine>q35</machine>", "")


def test_run_documents_fit_the_result_file() -> None:
    from nearmetal.bench.results import Run

    document = bench_sides.run_document(OPTIONS.load(), a_side("vm"), (0, 1), None, 2.0, "why")
    assert Run.model_validate(json.loads(json.dumps(document))).error == "why"
