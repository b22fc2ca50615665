"""One benchmark run, or two of them, side by side: the document and the tables of `bench compare`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nearmetal.bench import stats
from nearmetal.bench.results import HostResults, Run, Scenario

SCHEMA = 1
BARE_METAL = "bare_metal"
NO_MEANING = "Figures and ratios of this host mean nothing; only the placement below is evidence."


def document(results: Iterable[HostResults], earlier: Iterable[HostResults] = ()) -> dict[str, Any]:
    """What `compare --json` prints.

    {schema, hosts: {HOST: {run, emulated, emulation_reason, benchmark_source, unread, benchmarks: {NAME: {unit,
    sides: {SIDE: {n, failed, median, low, high, spread, ratio, since, placement_ok, placement_problems}}}}}}}.
    `ratio` (against bare metal) and `since` (against the same side of the earlier run) are null or {value, low,
    high, n, distinguishable}.
    """
    before = {r.host: r for r in earlier}
    return {"schema": SCHEMA, "hosts": {r.host: _host(r, before.get(r.host)) for r in results}}


def _host(results: HostResults, earlier: HostResults | None) -> dict[str, Any]:
    names = dict.fromkeys(r.benchmark for r in results.runs)
    return {
        "run": results.run, "emulated": results.emulated, "emulation_reason": results.emulation_reason,
        "benchmark_source": results.benchmark_source, "unread": results.unread,
        "benchmarks": {name: _benchmark(results, earlier, name) for name in names},
    }  # fmt: skip


def _benchmark(results: HostResults, earlier: HostResults | None, name: str) -> dict[str, Any]:
    sides = stats.by_side(results, name)
    former: Mapping[str, Sequence[Run]] = stats.by_side(earlier, name) if earlier else {}
    base = sides.get(BARE_METAL, [])
    known = {s.name: s for s in results.scenarios}
    found = {
        side: {
            **_summary(runs),
            "ratio": None if side == BARE_METAL else _ratio(stats.compare(runs, base)),
            "since": _ratio(stats.compare(runs, former[side])) if side in former else None,
            "placement_ok": known[side].placement_ok, "placement_problems": known[side].placement_problems,
        }
        for side, runs in sides.items()
    }  # fmt: skip
    return {"unit": next((r.unit for r in results.runs if r.benchmark == name), ""), "sides": found}


def _summary(runs: Sequence[Run]) -> dict[str, Any]:
    summary = stats.summarize(runs)
    return {**asdict(summary), "spread": summary.spread}


def _ratio(ratio: stats.Ratio | None) -> dict[str, Any] | None:
    return None if ratio is None else {**asdict(ratio), "distinguishable": ratio.distinguishable}


def show(results: Sequence[HostResults], earlier: Sequence[HostResults], console: Console) -> None:
    """Tables of every host: figures, then where everything really ran."""
    whole = document(results, earlier)
    for one in results:
        host = whole["hosts"][one.host]
        console.print(f"\n[bold]{escape(one.host)}[/]  run {one.run}  {escape(one.benchmark_source)}")
        if one.emulated:
            console.print(f"[yellow]{escape(one.emulation_reason)}. {NO_MEANING}[/]")
        for name, benchmark in host["benchmarks"].items():
            console.print(figures(name, benchmark, one.emulated, bool(earlier)))
        console.print(placement(one))
        for side in one.scenarios:
            for text in side.placement_problems[:5]:
                console.print(f"  [red]{escape(side.name)}[/] {escape(text)}")
        for text in one.unread:
            console.print(f"  [dim]{escape(text)}[/]")


def figures(name: str, benchmark: Mapping[str, Any], emulated: bool, with_earlier: bool) -> Table:
    """Medians, spread, n and ratios of one benchmark."""
    titles = ["n", "median", "spread", "to bare metal (95 %)"]
    if with_earlier:
        titles.append("to the other run (95 %)")
    table = Table(box=None, pad_edge=False)
    table.add_column(f"{name}, {benchmark['unit']}", overflow="fold")
    for title in titles:
        table.add_column(title, justify="right")
    for side, found in benchmark["sides"].items():
        n = f"{found['n']}" + (f" ({found['failed']} failed)" if found["failed"] else "")
        row = [n, _number(found["median"]), _percent(found["spread"]), _words(found["ratio"], emulated)]
        if with_earlier:
            row.append(_words(found["since"], emulated))
        table.add_row(escape(side), *row)
    return table


def placement(results: HostResults) -> Table:
    """Where each side was meant to run and where it was seen."""
    table = Table(box=None, pad_edge=False)
    for title in ("placement", "pinned", "seen on", "migrations", "involuntary switches", "memory", "in place"):
        table.add_column(title, overflow="fold")
    for side in results.scenarios:
        runs = [r for r in results.runs if r.scenario == side.name and r.ok]
        verdict = {True: "[green]yes[/]", False: "[red]no[/]", None: "not known"}[side.placement_ok]
        table.add_row(
            escape(side.name), _pins(side), _seen(runs), _total(runs, "migrations"),
            _total(runs, "involuntary_switches"), _memory(runs), verdict,
        )  # fmt: skip
    return table


def _pins(side: Scenario) -> str:
    return ",".join(str(p.host_cpu) for p in side.pins) or side.host_cpus


def _seen(runs: Sequence[Run]) -> str:
    """CPUs on which each vCPU or worker was seen, in order."""
    threads: dict[str, set[str]] = {}
    for run in runs:
        for thread in run.threads:
            if thread.name != "emulator":
                threads.setdefault(thread.name, set()).add(thread.seen)
    names = sorted(threads, key=lambda name: (len(name), name))
    return ",".join("+".join(sorted(threads[name])) or "?" for name in names)


def _total(runs: Sequence[Run], name: str) -> str:
    counts = [getattr(t, name) for r in runs for t in r.threads if t.name != "emulator"]
    known = [c for c in counts if c is not None]
    return str(sum(known)) if known else "not kept"


def _memory(runs: Sequence[Run]) -> str:
    """Nodes and page sizes on which the side's memory was seen."""
    found = sorted({(m.node, m.page_kb) for r in runs for m in r.memory})
    return ", ".join(f"node {node} ({kb} kB pages)" for node, kb in found) or "?"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _words(ratio: Mapping[str, Any] | None, emulated: bool) -> str:
    if ratio is None:
        return "-"
    text = f"{ratio['value']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"
    if emulated:
        return f"{text} no meaning"
    return text if ratio["distinguishable"] else f"{text} no difference seen"
