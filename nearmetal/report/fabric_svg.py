"""The fabric's drawing as inline SVG. Pure; all text is escaped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from nearmetal.fabric_scene import scene
from nearmetal.fabric_text import tree
from nearmetal.report.fabric_layout import FONT, LINE, Box, Layout, layout

WIDTHS = {"wide": 1200.0, "medium": 700.0, "narrow": 318.0}
"""Width in px of the drawing for each class of window; the style sheet shows one of them."""

FEWER = 24
"""With more hosts than this on the page, only the wide and the narrow drawing are made."""


@dataclass(frozen=True)
class Drawing:
    """What the template shows of a host's fabric."""

    pictures: list[tuple[str, Markup]]  # class of window, SVG
    text: str
    notes: tuple[str, ...]
    findings: list[dict[str, Any]]


def drawing(state: Any, hosts: int = 1) -> Drawing | None:
    """The drawing of a state document's fabric; None where there is nothing to draw."""
    seen = scene(state)
    if seen is None:
        return None
    widths = {name: width for name, width in WIDTHS.items() if hosts <= FEWER or name != "medium"}
    pictures = [(name, svg(layout(seen, width), seen.summary)) for name, width in widths.items()]
    return Drawing(pictures, "\n".join(tree(seen)), seen.notes, seen.findings)


def svg(placed: Layout, summary: str) -> Markup:
    """The element. Its size is that of the layout: text keeps its size, and never shrinks below it."""
    w, h = placed.width, placed.height
    parts = [
        f'<svg class="fabric" viewBox="0 0 {w:g} {h:.0f}" width="{w:g}" height="{h:.0f}" '
        f'font-size="{FONT:g}" role="img" aria-label="{escape("Fabric: " + summary)}">'
    ]
    for box in placed.boxes:
        parts += _box(box)
    parts += [f'<path class="link" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>' for x, top, bottom in placed.links]
    return Markup("".join(parts) + "</svg>")  # noqa: S704 - built from escaped text


def _box(box: Box) -> Iterator[str]:
    yield f'<g class="{escape(box.cls)}"><title>{escape(box.title)}</title>'
    yield f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.w:.1f}" height="{box.h:.1f}" rx="4"/>'
    if box.cls.startswith("vf "):
        yield f'<path class="edge" d="M{box.x + 2.5:.1f} {box.y + 4:.1f}v{box.h - 8:.1f}"/>'
    if box.texts:
        x, y = box.text_at(0)
        yield f'<text y="{y:.1f}">'
        for index, line in enumerate(box.texts):
            cls = f' class="{line.cls}"' if line.cls else ""
            down = f' dy="{LINE:g}"' if index else ""
            yield f'<tspan x="{x:.1f}"{down}{cls}>{escape(line.text)}</tspan>'
        yield "</text>"
    yield "</g>"
