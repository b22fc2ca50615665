"""Plotly figures as plain data, coloured by names of CSS variables.

The page's script replaces every "var(--x)" by the value of the variable in the theme in use, so
that one figure serves light, dark and print. Texts are escaped: Plotly reads a subset of HTML.
"""

from __future__ import annotations

import html
import math
from typing import Any

from nearmetal.report import words
from nearmetal.report.changes import Span
from nearmetal.report.measured import Pair, Side

Figure = dict[str, Any]
"""{"data": [...], "layout": {...}} as in Plotly's JSON, and "height" in pixels."""

ROW = 46
"""Height of a row of dots in pixels."""

SYMBOLS = {"bare": "diamond", "vm": "circle"}

SPAN_STYLES = {
    "step": ("step", "var(--accent)", ""),
    "reboot": ("reboot", "var(--reboot)", "/"),
    "look": ("observe, read back", "var(--muted)", ""),
    "open": ("began, did not end", "var(--bad)", "x"),
}
"""Kind of a span: name in the legend, colour, pattern."""

POINT_STYLES = {
    "verified": ("verified", "var(--ok)", "triangle-up"),
    "problem": ("problem", "var(--bad)", "x"),
}


def safe(text: str) -> str:
    """Text for a label, tick or hover box."""
    return html.escape(text, quote=False)


def wrapped(text: str, width: int = 16) -> str:
    """A label broken into lines of about `width` characters."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "<br>".join(safe(line) for line in lines)


def _layout(height: int, **more: Any) -> Figure:
    base: Figure = {
        "height": height,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "inherit", "size": 12, "color": "var(--ink)"},
        "margin": {"l": 8, "r": 16, "t": 8, "b": 8},
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": "var(--raised)", "bordercolor": "var(--line)", "font": {"color": "var(--ink)"}},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.0, "yanchor": "bottom"},
        "dragmode": False,
    }
    return {**base, **more}


def _axis(**more: Any) -> Figure:
    base: Figure = {
        "gridcolor": "var(--grid)",
        "linecolor": "var(--line)",
        "zeroline": False,
        "automargin": True,
        "fixedrange": True,
        "tickfont": {"color": "var(--muted)"},
    }
    return {**base, **more}


def timeline(spans: list[Span], hosts: list[str]) -> Figure:
    """Steps, reboots, verifications of every host over the time of the run."""
    rows = {host: index for index, host in enumerate(hosts)}
    data: list[Figure] = []
    for kind, (name, colour, pattern) in SPAN_STYLES.items():
        some = [s for s in spans if s.kind == kind]
        if some:
            data.append({
                "type": "bar", "orientation": "h", "name": name, "width": 0.5,
                "y": [rows[s.host] for s in some], "base": [s.start for s in some],
                "x": [s.seconds for s in some],
                "marker": {"color": colour, "line": {"width": 1, "color": colour},
                           "pattern": {"shape": pattern, "fgcolor": "var(--bg)", "size": 7, "fillmode": "overlay"}},
                "text": [_span_words(s) for s in some], "textposition": "none", "hoverinfo": "text",
            })  # fmt: skip
    for kind, (name, colour, symbol) in POINT_STYLES.items():
        some = [s for s in spans if s.kind == kind]
        if some:
            data.append({
                "type": "scatter", "mode": "markers", "name": name,
                "x": [s.start for s in some], "y": [rows[s.host] + 0.4 for s in some],
                "marker": {"color": colour, "symbol": symbol, "size": 9},
                "text": [_span_words(s) for s in some], "hoverinfo": "text",
            })  # fmt: skip
    end = max((s.start + s.seconds for s in spans), default=1.0) or 1.0
    ticks = _ticks(end)
    return {
        "data": data,
        "layout": _layout(
            78 + 34 * len(hosts),
            barmode="overlay",
            xaxis=_axis(range=[-0.01 * end, 1.02 * end], tickvals=ticks, ticktext=[words.clock(t) for t in ticks]),
            yaxis=_axis(tickvals=list(rows.values()), ticktext=[safe(h) for h in hosts], showgrid=False,
                        range=[len(hosts) - 0.4, -0.6], tickfont={"color": "var(--ink)"}),
        ),
    }  # fmt: skip


def _span_words(span: Span) -> str:
    when = f"{words.clock(span.start)} after the start"
    took = f", {words.duration(span.seconds)}" if span.kind in SPAN_STYLES else ""
    return f"{safe(span.host)}: {safe(span.label[:120])}<br>{when}{took}"


def _ticks(end: float) -> list[float]:
    """Round times up to `end`, about five."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)
    step = next((s for s in steps if end / s <= 6), 43200)
    return [float(step * i) for i in range(math.floor(end / step) + 1)]


def dots(sides: list[Side], unit: str, emulated: bool) -> Figure:
    """Every single run as a dot, with median and spread; one row per side, bare metal first."""
    data: list[Figure] = []
    for row, side in enumerate(sides):
        colour = "var(--metal)" if side.bare else "var(--accent)"
        good = [r for r in side.runs if r.ok]
        bad = [r for r in side.runs if not r.ok]
        if side.low is not None and side.high is not None:
            data.append(_line([side.low, side.high], row, colour))
        data.append({
            "type": "scatter", "mode": "markers", "showlegend": False,
            "x": [r.value for r in good], "y": [row + _jitter(i) for i in range(len(good))],
            "marker": {"color": colour, "size": 9, "opacity": 0.8, "symbol": SYMBOLS["bare" if side.bare else "vm"],
                       "line": {"width": 1, "color": "var(--bg)"}},
            "text": [f"{safe(side.name)}, round {r.round}, place {r.position}<br>{words.number(r.value)} {safe(unit)}"
                     f" in {words.duration(r.seconds)}" for r in good],
            "hoverinfo": "text",
        })  # fmt: skip
        if bad:
            data.append({
                "type": "scatter", "mode": "markers", "showlegend": False,
                "x": [r.value for r in bad], "y": [row] * len(bad),
                "marker": {"color": "var(--bad)", "size": 10, "symbol": "x"},
                "text": [f"{safe(side.name)}, round {r.round}: failed" for r in bad], "hoverinfo": "text",
            })  # fmt: skip
        if side.median is not None:
            data.append({
                "type": "scatter", "mode": "markers", "showlegend": False, "x": [side.median], "y": [row],
                "marker": {"symbol": "line-ns", "size": 26, "line": {"width": 3, "color": "var(--ink)"}},
                "text": [f"{safe(side.name)}: median {words.number(side.median)} {safe(unit)}"], "hoverinfo": "text",
            })  # fmt: skip
    return {
        "data": data,
        "layout": _layout(
            64 + ROW * len(sides),
            showlegend=False,
            xaxis=_axis(title={"text": safe(unit), "font": {"color": "var(--muted)"}}, nticks=5),
            yaxis=_axis(tickvals=list(range(len(sides))), ticktext=[wrapped(s.name) for s in sides], showgrid=True,
                        range=[len(sides) - 0.5, -0.5], tickfont={"color": "var(--ink)"}),
            annotations=_watermark() if emulated else [],
        ),
    }  # fmt: skip


def _line(ends: list[float], row: int, colour: str) -> Figure:
    return {
        "type": "scatter", "mode": "lines", "showlegend": False, "hoverinfo": "skip", "opacity": 0.3,
        "x": ends, "y": [row, row], "line": {"width": 12, "color": colour},
    }  # fmt: skip


def _jitter(index: int) -> float:
    """A small shift that keeps equal runs apart: the same for the same place in every drawing."""
    return ((index * 0.618034) % 1 - 0.5) * 0.44


def _watermark() -> list[Figure]:
    return [{
        "text": "emulated: not a result", "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5,
        "showarrow": False, "font": {"size": 18, "color": "var(--watermark)"},
    }]  # fmt: skip


def ratios(pairs: list[Pair], base: str, emulated: bool) -> Figure:
    """Ratio of each scenario to `base` with its confidence interval; 1 means as fast."""
    ticks: list[str] = []
    rows: list[tuple[int, Pair]] = []
    last = ""
    for pair in pairs:
        if pair.side != last:
            ticks.append(f"<b>{safe(words.name(pair.side))}</b>")
            last = pair.side
        rows.append((len(ticks), pair))
        ticks.append(safe(pair.host))
    known = [(row, p) for row, p in rows if p.ratio is not None]
    points = [p.ratio or 0.0 for _, p in known]
    highs = [(p.high if p.high is not None else x) - x for (_, p), x in zip(known, points, strict=True)]
    lows = [x - (p.low if p.low is not None else x) for (_, p), x in zip(known, points, strict=True)]
    edges = [x + h for x, h in zip(points, highs, strict=True)] + [x - w for x, w in zip(points, lows, strict=True)]
    low, high = min([0.9, *edges]), max([1.1, *edges])
    marker = {"size": 9, "color": "var(--accent)", "symbol": "circle", "line": {"width": 1, "color": "var(--bg)"}}
    return {
        "data": [{
            "type": "scatter", "mode": "markers", "showlegend": False, "x": points, "y": [row for row, _ in known],
            "marker": marker,
            "error_x": {"type": "data", "symmetric": False, "array": highs, "arrayminus": lows,
                        "color": "var(--accent)", "thickness": 1.5, "width": 5},
            "text": [f"{safe(p.host)}, {safe(words.name(p.side))}: {p.words}" for _, p in known], "hoverinfo": "text",
        }],
        "layout": _layout(
            76 + 24 * len(ticks),
            showlegend=False,
            xaxis=_axis(title={"text": f"times as fast as {safe(words.name(base))}", "font": {"color": "var(--muted)"}},
                        range=[low - 0.03, high + 0.03], nticks=6),
            yaxis=_axis(tickvals=list(range(len(ticks))), ticktext=ticks, showgrid=False,
                        range=[len(ticks) - 0.4, -0.6], tickfont={"color": "var(--ink)"}),
            shapes=[{"type": "line", "xref": "x", "yref": "paper", "x0": 1, "x1": 1, "y0": 0, "y1": 1,
                     "line": {"color": "var(--ink)", "width": 1.5, "dash": "dot"}}],
            annotations=_watermark() if emulated else [],
        ),
    }  # fmt: skip
