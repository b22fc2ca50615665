"""The page: complete in itself, says what is missing, and shows hostile text as text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from support import report_fixtures as made

from nearmetal.errors import NearmetalError
from nearmetal.lab import failover
from nearmetal.report import charts
from nearmetal.report.build import build_report, render
from nearmetal.report.changes import Span
from nearmetal.report.collect import collect

EVIL = "<script>alert('x')</script>"


def page_of(top: Path) -> str:
    return render(collect(top, None, None))


def body(page: str) -> str:
    """The page without its scripts and styles."""
    return re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)


def figures_of(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="chart-data">(.*?)</script>', page, re.S)
    assert match
    return dict(json.loads(match[1]))


def test_the_page_of_the_virtual_rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_STATE_DIR", str(made.lab_rack(tmp_path / "state")))
    out = build_report(tmp_path / "report.html", None, None)
    text = body(out.read_text())
    assert text.index("Emulated hardware.") < text.index("<h1>")
    for said in ("ratios mean nothing", "12 of 12", "compute1", "compute2", "enp33s0", "isolcpus=managed_irq,domain,2-3,6-7",
                 "SMT is hidden from the guest", "both vCPU threads were seen only on", "not judged: emulated"):  # fmt: skip
        assert said in text
    assert list(tmp_path.glob("*.new")) == []


def test_what_a_cut_cable_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_STATE_DIR", str(tmp_path))
    times = [n / 10 for n in range(100)]
    changes = [failover.Change(2.0, "node1", "f0", False), failover.Change(5.0, "node1", "f0", True)]
    for lost, label in ((2.3, "802.3ad"), (2.5, "802.3ad"), (99.0, EVIL)):
        back = [None if 2.0 <= t < lost or lost > 90 else t for t in times]
        result = failover.document("node1", "node2", "10.77.0.2", {"sent": times, "back": back}, changes)
        failover.keep(result, label, "a bond of VFs in the guest")
    (tmp_path / "failover" / "damaged.json").write_text("{")
    text = body(page_of(tmp_path))
    assert text.count("<h3>802.3ad: node1 to 10.77.0.2 on node2</h3>") == 1, "the latest of each label"
    assert "500 ms" in text and "300 ms" not in text and "did not end" in text
    assert "<b>Stand-in.</b> a bond of VFs in the guest" in text
    assert "damaged.json" in text and EVIL not in text


def test_real_hardware_has_no_emulation_notice(tmp_path: Path) -> None:
    text = body(page_of(made.big_rack(tmp_path, hosts=3)))
    assert "Emulated" not in text and "emulated" not in text
    assert "1 of 3 hosts did not get there: gpu-01." in text
    assert "likely cause" in text


def test_every_figure_is_valid_plotly_and_has_its_place(tmp_path: Path) -> None:
    page = page_of(made.lab_rack(tmp_path))
    drawn = figures_of(page)
    assert set(drawn) == {"timeline", "ratio-0", "host-1-dots-0", "host-2-dots-0"}
    assert set(re.findall(r'data-chart="([^"]+)"', page)) == set(drawn)
    for figure in drawn.values():
        go.Figure(json.loads(json.dumps(figure).replace('"inherit"', '"Arial"')))
    dots = [t for t in drawn["host-1-dots-0"]["data"] if t["mode"] == "markers" and len(t["x"]) > 1]
    assert [len(t["x"]) for t in dots] == [6, 6, 6]  # every run of each side is a dot


def test_colours_of_figures_are_variables_of_the_style_sheet(tmp_path: Path) -> None:
    page = page_of(made.lab_rack(tmp_path))
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    assert style
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", json.dumps(figures_of(page))))
    assert used and used <= set(re.findall(r"(--[a-z0-9-]+):", style[1]))


def test_scripts_run_only_by_their_digest_and_nothing_is_loaded(tmp_path: Path) -> None:
    page = page_of(made.lab_rack(tmp_path))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy and "default-src &#39;none&#39;" in policy[1] or policy and "default-src 'none'" in policy[1]
    allowed = set(re.findall(r"sha256-[A-Za-z0-9+/=]+", policy[1]))
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    digests = {"sha256-" + base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts}
    assert len(scripts) == 2 and digests == allowed
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", body(page))
    assert "@import" not in page.split("</style>")[0] and "url(" not in page.split("</style>")[0]


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("none", ["No apply run was found", "nearmetal apply -i INVENTORY", "No benchmark was run", "No host was seen"]),
        ("bench", ["No benchmark was run", "nearmetal bench run -i INVENTORY", "not run"]),
        ("runs", ["No apply run was found", "This host was not observed"]),
    ],
)
def test_what_is_missing_is_said_with_its_command(tmp_path: Path, kind: str, missing: list[str]) -> None:
    if kind != "none":
        made.lab_rack(tmp_path)
        (tmp_path / kind).rename(tmp_path / "away")
    text = body(page_of(tmp_path))
    for said in missing:
        assert said in text


def test_without_a_benchmark_an_emulated_host_is_known_by_its_processor(tmp_path: Path) -> None:
    made.lab_rack(tmp_path)
    (tmp_path / "bench").rename(tmp_path / "away")
    assert "the processor calls itself QEMU TCG CPU version 2.5+" in body(page_of(tmp_path))


def test_a_rack_that_is_emulated_in_part_says_where(tmp_path: Path) -> None:
    made.lab_rack(tmp_path)
    path = tmp_path / "bench" / "20261130T220100Z-beef" / "host1.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "emulated": False}))
    text = body(page_of(tmp_path))
    assert "Emulated hardware on 1 of 2 hosts." in text and "their ratios mean nothing" in text


def test_hostile_text_is_shown_as_text(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    state = made.lab_host("h", converged=True)
    state["kernel"]["cmdline"] += f" {evil}"
    state["os"]["name"] = state["cpu"]["model"] = evil
    state["pci"][0].update(driver=evil, netdevs=[evil])
    state["unread"] = [{"section": evil, "reason": evil}]
    steps = [made.step(evil, "hugepages", evil, evil, evil, evil, "none", evil)]
    events = [{"time": 5, "host": evil, "event": "failed", "task": evil, "step": evil, "message": evil}]
    told = {"problems": [{"message": evil, "fix": evil}], "warnings": [evil], "status": "problems"}
    folder = made.write_run(tmp_path, "r", {}, {}, steps, events, hosts={evil: told})
    (folder / "states" / "h.after.json").write_text(json.dumps(state))
    document = made.results(evil, made.LAB_SCENARIOS, made.runs(made.LAB_SCENARIOS, dict.fromkeys(
        ("bare_metal", "matched_pinned", "smt_hidden"), 1.0)), emulation_reason=evil, qemu=evil, unread=[evil])  # fmt: skip
    for run in document["runs"]:
        run.update(benchmark=evil, unit=evil)
    made.write_bench(tmp_path, "b", [document])
    page = page_of(tmp_path)
    assert page.count("<script") - page.count("<script>") == 1  # the data; the others are ours
    assert len(re.findall(r"<script>", body(page))) == 0 and "<img" not in body(page)
    assert "&lt;img src=x onerror=alert(2)&gt;" in page
    assert not any("<img" in text or "<script" in text for text in _texts(figures_of(page)))


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [t for v in value.values() for t in _texts(v)]
    return [t for v in value for t in _texts(v)] if isinstance(value, list) else [value] if isinstance(value, str) else []


def test_an_unwritable_place_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_STATE_DIR", str(tmp_path))
    with pytest.raises(NearmetalError, match="cannot write the report to .*absent/report.html: No such file"):
        build_report(tmp_path / "absent" / "report.html", None, None)


def test_time_line_has_a_row_per_host_and_round_ticks() -> None:
    spans = [Span("a", "step", 0, 3, "x"), Span("b", "reboot", 3, 61, "reboot"), Span("b", "verified", 64, 0, "ok")]
    figure = charts.timeline(spans, ["a", "b"])
    assert figure["layout"]["yaxis"]["ticktext"] == ["a", "b"]
    assert figure["layout"]["xaxis"]["ticktext"] == ["0:00", "0:15", "0:30", "0:45", "1:00"]
    assert [t["name"] for t in figure["data"]] == ["step", "reboot", "verified"]
