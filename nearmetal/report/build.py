"""Write the report: one HTML file that opens without a network and asks for nothing outside itself."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

from nearmetal.errors import FAILED, NearmetalError
from nearmetal.paths import state_dir
from nearmetal.report import changes, charts, why, words
from nearmetal.report.collect import Collected, collect
from nearmetal.report.explain import explain
from nearmetal.report.measured import Figures, figures
from nearmetal.report.partition import node_of_cpu, siblings
from nearmetal.report.placement import pin_picture, placements
from nearmetal.report.views import HostView, host_views, ratio_groups, summary

OPEN_HOSTS = 4
"""Up to so many hosts their sections start open."""


def build_report(out: Path, run: str | None, bench: str | None) -> Path:
    """Write the report of an apply run and a benchmark run (the latest where None) to `out`.

    What is missing is said on the page with the command that makes it. Raises NearmetalError where
    a named run does not exist or `out` cannot be written.
    """
    page = render(collect(state_dir(), run, bench))
    try:
        draft = out.with_name(out.name + ".new")
        draft.write_text(page, encoding="utf-8")
        draft.replace(out)
    except OSError as error:
        raise NearmetalError(f"cannot write the report to {out}: {error.strerror}", FAILED) from error
    return out


def render(found: Collected) -> str:
    """The page as text."""
    env = Environment(
        loader=PackageLoader("nearmetal.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    env.globals.update(words=words, OUTCOMES=changes.OUTCOMES)
    plotly, script = _js(get_plotlyjs()), _js(_resource("report.js"))
    drawn: dict[str, charts.Figure] = {}
    return env.get_template("report.html.j2").render(
        **_context(found, drawn),
        css=Markup(_resource("report.css")),  # noqa: S704 - our own file
        plotly=plotly,
        script=script,
        charts=_json(drawn),
        script_sources=" ".join(_digest(part) for part in (plotly, script)),
    )


def _resource(name: str) -> str:
    return resources.files("nearmetal.report").joinpath("templates", name).read_text(encoding="utf-8")


def _js(text: str) -> Markup:
    """A script of ours, in the form in which the browser hashes it (line ends normalized)."""
    return Markup(text.replace("\r\n", "\n").replace("\r", "\n"))  # noqa: S704 - not from hosts


def _digest(script: Markup) -> str:
    """Source expression of the content security policy that lets exactly this script run."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"


def _json(value: Any) -> Markup:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704


def _context(found: Collected, drawn: dict[str, charts.Figure]) -> dict[str, Any]:
    """Everything that the templates show; figures go to `drawn` by the id of their place."""
    changed = changes.host_changes(found)
    hosts = host_views(found, changed)
    every = [f for h in hosts if h.bench for f in figures(h.bench)]
    spans = changes.timeline(found.run) if found.run else []
    timed = [h.name for h in hosts if any(s.host == h.name for s in spans)]
    if timed:
        drawn["timeline"] = charts.timeline([s for s in spans if s.host], timed)
    benches = [_bench(host, every, drawn) for host in hosts if host.bench]
    head = summary(found, hosts)
    return {
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "run": found.run,
        "bench": found.bench,
        "head": head,
        "hosts": hosts,
        "open_hosts": len(hosts) <= OPEN_HOSTS,
        "groups": changes.grouped(changed),
        "ratios": [_ratio_chart(i, *group, any(f.emulated for f in every), drawn) for i, group in enumerate(ratio_groups(every))],
        "benches": benches,
        "failovers": found.failovers,
        "whys": why.sections(explain([h.bench for h in hosts if h.bench], found.states), every),
        "notes": found.notes + [f"{h.name}: {note}" for h in hosts if h.bench for note in h.bench.unread],
        "drawn": drawn,
        "drawn_height": {place: figure["layout"]["height"] for place, figure in drawn.items()},
    }


def _ratio_chart(
    index: int, name: str, base: str, pairs: list[Any], emulated: bool, drawn: dict[str, charts.Figure]
) -> dict[str, Any]:
    chart = f"ratio-{index}"
    drawn[chart] = charts.ratios(pairs, base, emulated)
    return {"chart": chart, "benchmark": name, "base": words.name(base), "emulated": emulated}


def _bench(host: HostView, every: list[Figures], drawn: dict[str, charts.Figure]) -> dict[str, Any]:
    """Charts, tables and placement of one host."""
    assert host.bench is not None
    own = [f for f in every if f.host == host.name]
    parts = []
    for index, one in enumerate(own):
        chart = f"{host.anchor}-dots-{index}"
        drawn[chart] = charts.dots(one.sides, one.unit, one.emulated)
        parts.append({"chart": chart, "figures": one})
    together = siblings(host.state) if host.state else {}
    nodes = node_of_cpu(host.state) if host.state else {}
    evidence = [
        {"place": place, "cores": pin_picture(place.scenario, together, nodes)} for place in placements(host.bench)
    ]
    return {"host": host, "parts": parts, "evidence": evidence}
